#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops {
namespace {

// Overload resolution tries overloads in the order of definition, and a list of integers takes a tensor's elements one
// by one before it refuses the tensor: on a device each is a copy that the host waits for. So the overloads that take a
// tensor stand first; a list of integers takes the default one, None is the same to both.
constexpr const char* kSchemas[] = {
    "hstu_dense.tensor(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? attnBias=None, int maskType=0, "
    "int maxSeqLen=0, float siluScale=0.0, str layout=\"normal\", Tensor? seqOffset=None) -> Tensor",
    "hstu_dense(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? attnBias=None, int maskType=0, "
    "int maxSeqLen=0, float siluScale=0.0, str layout=\"normal\", int[]? seqOffset=None) -> Tensor",
    "hstu_dense_backward.tensor(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? attnBias, "
    "str layout, int maskType, int maxSeqLen, float siluScale=0.0, Tensor? seqOffset=None) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    "hstu_dense_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? attnBias, str layout, "
    "int maskType, int maxSeqLen, float siluScale=0.0, int[]? seqOffset=None) -> (Tensor, Tensor, Tensor, Tensor)",
    "hstu_jagged.equal(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? attn_bias=None, int mask_type=0, "
    "int max_seq_len=0, float silu_scale=0.0, Tensor? seq_offset=None, Tensor? num_context=None, "
    "Tensor? num_target=None, int? target_group_size=0, float? alpha=1.0, int max_attn_len=0, "
    "int min_full_attn_seq_len=0, bool deterministic=False, int window_size=-1) -> Tensor",
    "hstu_jagged_backward.equal(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask=None, "
    "Tensor? attn_bias=None, int mask_type=0, int max_seq_len=0, float silu_scale=0.0, Tensor? seq_offset=None, "
    "Tensor? num_context=None, Tensor? num_target=None, int? target_group_size=0, float? alpha=1.0, "
    "int max_attn_len=0, int min_full_attn_seq_len=0, bool deterministic=False, int window_size=-1) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    "hstu_varlen(Tensor q, Tensor k, Tensor v, Tensor? mask=None, Tensor? attnBias=None, int maskType=0, "
    "int maxSeqLen=0, int maxSeqLenK=0, float siluScale=0.0, Tensor? seqOffset=None, Tensor? seqOffsetK=None) "
    "-> Tensor",
    "hstu_paged(Tensor q, Tensor k, Tensor v, Tensor? kv_cache=None, Tensor? mask=None, Tensor? attn_bias=None, "
    "int mask_type=0, int max_seq_len=0, int max_seq_len_k=0, float silu_scale=0.0, Tensor? seq_offset=None, "
    "Tensor? seq_offset_k=None, Tensor? seq_offset_t=None, Tensor? page_offsets=None, Tensor? page_ids=None, "
    "Tensor? last_page_len=None, Tensor? num_target=None, int target_group_size=0, float? alpha=1.0) -> Tensor",
    // What autograd calls for each of the above. Unlike the backward operators of the documents it is told whether the
    // gradient of the bias, of S x S elements, is wanted.
    "hstu_gradients(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? attn_bias, str layout, "
    "int mask_type, int max_seq_len, int max_seq_len_k, float silu_scale, float alpha, int[]? offset_list, "
    "Tensor? seq_offset, Tensor? seq_offset_k, Tensor? num_context, Tensor? num_target, int target_group_size, "
    "int max_attn_len, int min_full_attn_seq_len, bool deterministic, int window_size, bool bias_grad) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
}

}  // namespace gr_ops
