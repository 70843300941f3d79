#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops::relative_bias {
namespace {

// times [L] int64; offsets [B + 1] int64, from 0 to L; thresholds [T] int64, ascending from at most 0: bucket t holds
// differences from thresholds[t] on. buckets [B, S, S] int16. position [P], time [T]; history [B] int64: keys from
// there on are targets. The first `contexts` queries see every key.
constexpr const char* kSchemas[] = {
    "hstu_time_buckets(Tensor times, Tensor offsets, Tensor thresholds, SymInt longest, int contexts=0) -> Tensor",
    "hstu_relative_bias(Tensor position, Tensor time, Tensor buckets, Tensor offsets, Tensor? history=None, "
    "int contexts=0) -> Tensor",
    "hstu_relative_bias_backward(Tensor grad, Tensor position, Tensor time, Tensor buckets, Tensor offsets, "
    "Tensor? history=None, int contexts=0) -> (Tensor, Tensor)",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops::relative_bias
