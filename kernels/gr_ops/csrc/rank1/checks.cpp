#include "rank1/checks.h"

#include <c10/util/Exception.h>

#include "common/dtypes.h"
#include "common/parallel.h"

namespace gr_ops {
namespace {

// Negative entries are large as unsigned ones. The first loop has no branch: it is vectorised.
template <typename Index>
void check_range(const char* op, const Index* index, int64_t count, int64_t length) {
  using Unsigned = std::make_unsigned_t<Index>;
  parallel_rows(count, sizeof(Index), [&](int64_t first, int64_t end) {
    Unsigned largest = 0;
    for (int64_t i = first; i < end; ++i) largest = std::max(largest, static_cast<Unsigned>(index[i]));
    if (static_cast<uint64_t>(largest) < static_cast<uint64_t>(length)) return;
    for (int64_t i = first; i < end; ++i) {
      TORCH_CHECK(index[i] >= 0 && static_cast<int64_t>(index[i]) < length, op, ": index[", i, "]=", index[i],
                  " out of range for x of length ", length, "; expected 0 <= index < ", length, ", got ", index[i]);
    }
  });
}

}  // namespace

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
  for (int64_t d = 0; same && d < grad.dim(); ++d) same = grad.sym_size(d).sym_eq(index.sym_size(d)).expect_true(__FILE__, __LINE__);
  TORCH_CHECK(same, op, ": grad differs in shape; expected that of index (", index.sym_sizes(), "), got ",
              grad.sym_sizes());
}

void check_gather_index(const char* op, const at::Tensor& index, int64_t length) {
  if (index.scalar_type() == at::kInt) {
    check_range(op, index.const_data_ptr<int32_t>(), index.numel(), length);
  } else {
    check_range(op, index.const_data_ptr<int64_t>(), index.numel(), length);
  }
}

}  // namespace gr_ops
