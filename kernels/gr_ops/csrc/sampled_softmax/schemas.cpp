#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops::sampled_softmax {
namespace {

// query [I, D], rows [U, D]; of rows the targets [I] and the negatives [G, R] int64; correction [G, R]; place [I]
// int64. The second one: the same loss, and its gradients by query and rows.
constexpr const char* kSchemas[] = {
    "sampled_softmax(Tensor query, Tensor rows, Tensor targets, Tensor negatives, Tensor? correction, Tensor? place, "
    "int group, float temperature, float eps) -> Tensor",
    "sampled_softmax_gradients(Tensor query, Tensor rows, Tensor targets, Tensor negatives, Tensor? correction, "
    "Tensor? place, int group, float temperature, float eps) -> (Tensor, Tensor, Tensor)",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops::sampled_softmax
