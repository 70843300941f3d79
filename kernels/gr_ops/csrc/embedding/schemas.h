#pragma once

#include <string>

namespace gr_ops::embedding {

std::string lookup_name(const std::string& optimizer);
std::string host_lookup_name(const std::string& optimizer);
std::string backward_name(const std::string& optimizer);

// The two operators that every back end implements; fbgemm's many entry points only rearrange their arguments.
// optimizer: a number of kOptimizers. max_gradient < 0: no clipping. The result of the update is the gradient of
// indice_weights, [L] float32 if weights_gradient, else empty.
constexpr const char* kPoolSchema =
    "embedding_pool(Tensor weights, Tensor weights_offsets, Tensor D_offsets, SymInt total_D, SymInt max_D, "
    "Tensor? hash_size_cumsum, Tensor indices, Tensor offsets, int pooling_mode, Tensor? indice_weights=None, "
    "int output_dtype=0) -> Tensor";
constexpr const char* kUpdateSchema =
    "embedding_update(Tensor grad_output, Tensor(a!) weights, Tensor weights_offsets, Tensor D_offsets, SymInt max_D, "
    "Tensor hash_size_cumsum, int total_hash_size_bits, Tensor indices, Tensor offsets, int pooling_mode, "
    "Tensor? indice_weights, Tensor? feature_requires_grad, bool weights_gradient, float max_gradient, int optimizer, "
    "Tensor(b!)? momentum1, Tensor? momentum1_offsets, Tensor(c!)? momentum2, Tensor? momentum2_offsets, "
    "float learning_rate=0, float eps=0, float beta1=0, float beta2=0, float weight_decay=0, int weight_decay_mode=0, "
    "float max_norm=0, int iter=0, bool stochastic_rounding=False) -> Tensor";

}  // namespace gr_ops::embedding
