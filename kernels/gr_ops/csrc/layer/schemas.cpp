#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops::layer {
namespace {

// x [L, D], weight [D, E], split: widths that sum to E; attended, u [L, V], weight of the output [D, V], bias [D],
// keep [L, V] bool: what dropout leaves.
constexpr const char* kSchemas[] = {
    "hstu_projection(Tensor x, Tensor weight, int[] split, float eps) -> Tensor[]",
    "hstu_projection_backward(Tensor[] grads, Tensor x, Tensor weight, int[] split, float eps) -> (Tensor, Tensor)",
    "hstu_gated_output(Tensor attended, Tensor u, Tensor x, Tensor weight, Tensor bias, Tensor? keep, float scale, "
    "float eps) -> Tensor",
    "hstu_gated_output_backward(Tensor grad, Tensor attended, Tensor u, Tensor weight, Tensor? keep, float scale, "
    "float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    "hstu_keep(Tensor like, float p, int seed) -> Tensor",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops::layer
