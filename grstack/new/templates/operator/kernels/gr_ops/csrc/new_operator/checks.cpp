#include "new_operator/checks.h"

#include <c10/util/Exception.h>

namespace gr_ops::new_operator {

void check(const at::Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf, kOp,
              ": x has an unsupported dtype; expected float32 or float16, got ", dtype);
}

}  // namespace gr_ops::new_operator
