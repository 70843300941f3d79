#include "rank1/checks.h"

#include <c10/util/Exception.h>

#include "common/dtypes.h"
#include "common/parallel.h"

namespace gr_ops {
void check_gather(const char* op, const at::Tensor& x, const at::Tensor& index) {
  TORCH_CHECK(x.dim() == 1, op, ": x must be 1-D; expected [n], got shape ", x.sym_sizes());
  TORCH_CHECK(is_movable(x.scalar_type()), op, ": x has an unsupported dtype; expected one of ", kMovableDtypes,
              ", got ", x.scalar_type());
  TORCH_CHECK(index.scalar_type() == at::kInt || index.scalar_type() == at::kLong, op,
              ": index has an unsupported dtype; expected int32 or int64, got ", index.scalar_type());
  TORCH_CHECK(index.device() == x.device(), op, ": expected index on ", x.device(), ", got ", index.device());
}

void check_gather_grad(const char* op, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index) {
  check_gather(op, x, index);
  TORCH_CHECK(x.is_floating_point() || x.is_complex(), op,
              ": x has an unsupported dtype; expected a floating or complex type, got ", x.scalar_type());
  TORCH_CHECK(grad.scalar_type() == x.scalar_type(), op, ": grad differs in dtype; expected that of x (",
              x.scalar_type(), "), got ", grad.scalar_type());
  TORCH_CHECK(grad.device() == x.device(), op, ": expected grad on ", x.device(), ", got ", grad.device());
  bool same = grad.dim() == index.dim();
  for (int64_t d = 0; same && d < grad.dim(); ++d)
    same = grad.sym_size(d).sym_eq(index.sym_size(d)).expect_true(__FILE__, __LINE__);
  TORCH_CHECK(same, op, ": grad differs in shape; expected that of index (", index.sym_sizes(), "), got ",
              grad.sym_sizes());
}

void check_gather_index(const char* op, const at::Tensor& index, int64_t length) {
  const auto check = [&](const auto* entries) {
    parallel_rows(index.numel(), static_cast<int64_t>(index.itemsize()),
                  [&](int64_t first, int64_t end) { check_entries_in_range(op, entries, first, end, length); });
  };
  if (index.scalar_type() == at::kInt) {
    check(index.const_data_ptr<int32_t>());
  } else {
    check(index.const_data_ptr<int64_t>());
  }
}

void fail_entry(const char* op, int64_t position, int64_t entry, int64_t length) {
  TORCH_CHECK(false, op, ": index[", position, "]=", entry, " out of range for x of length ", length,
              "; expected 0 <= index < ", length, ", got ", entry);
}

}  // namespace gr_ops
