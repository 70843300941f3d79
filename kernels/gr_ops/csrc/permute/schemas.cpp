#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops {
namespace {

constexpr const char* kSchemas[] = {
    "permute_2D_sparse_data(Tensor permute, Tensor lengths, Tensor values, Tensor? weights=None, "
    "SymInt? permuted_lengths_sum=None) -> (Tensor, Tensor, Tensor?)",
    "permute_1D_sparse_data(Tensor permute, Tensor lengths, Tensor values, Tensor? weights=None, "
    "SymInt? permuted_lengths_sum=None) -> (Tensor, Tensor, Tensor?)",
};

// The gradient of either: row r of the result is the sum of grad's copies of row r, in ascending position of permute.
constexpr const char* kBackward =
    "permute_sparse_data_backward(Tensor permute, Tensor lengths, Tensor grad, SymInt total_L) -> Tensor";

}  // namespace

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "fbgemm", schema);
}

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
  define_if_absent(m, "mxrec", kBackward);
}

}  // namespace gr_ops
