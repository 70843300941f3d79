#include "cumsum/checks.h"

#include <ATen/Dispatch.h>
#include <c10/util/Exception.h>

#include <string>

#include "common/dtypes.h"

namespace gr_ops {
namespace {

template <typename Integer>
void check_row_overflow(const char* op, const at::Tensor& lengths) {
  const at::Tensor rows = (lengths.dim() == 2 ? lengths : lengths.unsqueeze(0)).contiguous();
  const auto* data = rows.const_data_ptr<Integer>();
  for (int64_t r = 0; r < rows.size(0); ++r) {
    Integer sum = 0;
    for (int64_t i = 0; i < rows.size(1); ++i) {
      TORCH_CHECK(!__builtin_add_overflow(sum, *data++, &sum), op, ": cumsum overflows ",
                  integer_name(lengths.scalar_type()), " at position ", i + 1,
                  rows.size(0) > 1 ? " of row " + std::to_string(r) : std::string(), "; use int64 lengths");
    }
  }
}

}  // namespace

void check_cumsum_input(const char* op, const at::Tensor& lengths) {
  TORCH_CHECK(lengths.dim() == 1 || lengths.dim() == 2, op, ": t_in must be 1-D or 2-D; expected [n] or [r, n], got ",
              lengths.dim(), " dimensions");
  const at::ScalarType dtype = lengths.scalar_type();
  TORCH_CHECK(is_movable(dtype) && dtype != at::kBool && dtype != at::kComplexFloat, op,
              ": t_in has an unsupported dtype; expected one of int8, uint8, int16, int32, int64, float16, bfloat16, "
              "float32, float64, got ",
              dtype);
}

void check_cumsum_overflow(const char* op, const at::Tensor& lengths) {
  AT_DISPATCH_INTEGRAL_TYPES(lengths.scalar_type(), "check_cumsum_overflow",
                             [&] { check_row_overflow<scalar_t>(op, lengths); });
}

}  // namespace gr_ops
