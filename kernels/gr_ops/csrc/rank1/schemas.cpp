#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops {
namespace {

constexpr const char* kSchemas[] = {
    "gather_for_rank1(Tensor x, Tensor index) -> Tensor",
    "index_select_for_rank1_backward(Tensor grad, Tensor x, Tensor index) -> Tensor[]",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "fbgemm", schema);
}

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops
