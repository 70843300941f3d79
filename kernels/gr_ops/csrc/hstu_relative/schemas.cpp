#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops::hstu_relative {
namespace {

// q, k [L, N, D], v [L, N, Dv]; position [P], time [T] float32; times [L] int64, seconds; cells [512] int64;
// max_seq_len of the longest row, at most P. All targets stand where the next token would.
constexpr const char* kSchemas[] = {
    "hstu_relative(Tensor q, Tensor k, Tensor v, Tensor position, Tensor time, Tensor times, Tensor cells, "
    "Tensor seq_offset, Tensor? num_context, Tensor? num_target, int target_group_size, int max_seq_len, "
    "float silu_scale) -> Tensor",
    "hstu_relative_gradients(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor position, Tensor time, Tensor times, "
    "Tensor cells, Tensor seq_offset, Tensor? num_context, Tensor? num_target, int target_group_size, "
    "int max_seq_len, float silu_scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops::hstu_relative
