#include "embedding/schemas.h"

#include <torch/library.h>

#include <iterator>
#include <string>
#include <string_view>

#include "common/operators.h"
#include "embedding/optimizers.h"

namespace gr_ops::embedding {
namespace {

// fbgemm's schemas, put together from the parts that the operators share. Unlike fbgemm's, the backward operators say
// that they update the optimizer's states: the compiler has to know.
constexpr const char* kDeviceHead =
    "Tensor placeholder_autograd_tensor, Tensor(a!) dev_weights, Tensor(b!) uvm_weights, Tensor lxu_cache_weights, "
    "Tensor weights_placements, Tensor weights_offsets, Tensor D_offsets, SymInt total_D, SymInt max_D, "
    "Tensor hash_size_cumsum, int total_hash_size_bits, Tensor indices, Tensor offsets, int pooling_mode, "
    "Tensor? indice_weights, Tensor? feature_requires_grad, Tensor lxu_cache_locations, bool gradient_clipping, "
    "float max_gradient, bool stochastic_rounding, ";
constexpr const char* kDeviceTail =
    ", int output_dtype=0, Tensor? B_offsets=None, Tensor? vbe_output_offsets_feature_rank=None, "
    "Tensor? vbe_B_offsets_rank_per_feature=None, SymInt max_B=-1, SymInt max_B_feature_rank=-1, "
    "SymInt vbe_output_size=-1, bool is_experimental=False, bool use_uniq_cache_locations_bwd=False, "
    "bool use_homogeneous_placements=False, Tensor? uvm_cache_stats=None, Tensor? prev_iter_dev=None";
constexpr const char* kDeviceEnd =
    ", bool apply_global_weight_decay=False, float gwd_lower_bound=0, bool mixed_D=True, Tensor? hash_indices=None, "
    "Tensor? unique_ids=None, Tensor? unique_offsets=None, Tensor? unique_inverse=None, bool is_dynamic=False) -> "
    "Tensor";
constexpr const char* kHostHead =
    "Tensor(a!) host_weights, Tensor weights_placements, Tensor weights_offsets, Tensor D_offsets, SymInt total_D, "
    "SymInt max_D, Tensor hash_size_cumsum, int total_hash_size_bits, Tensor indices, Tensor offsets, "
    "int pooling_mode, Tensor? indice_weights, Tensor? feature_requires_grad, bool gradient_clipping, "
    "float max_gradient, bool stochastic_rounding, ";
constexpr const char* kForward =
    "split_embedding_codegen_forward_unweighted_cuda(Tensor dev_weights, Tensor uvm_weights, "
    "Tensor lxu_cache_weights, Tensor weights_placements, Tensor weights_offsets, Tensor D_offsets, SymInt total_D, "
    "SymInt max_D, Tensor indices, Tensor offsets, int pooling_mode, Tensor lxu_cache_locations, "
    "Tensor uvm_cache_stats, int output_dtype, bool is_experimental) -> Tensor";
constexpr const char* kBackwardHead =
    "Tensor grad_output, Tensor(a!) dev_weights, Tensor(b!) uvm_weights, Tensor lxu_cache_weights, "
    "Tensor weights_placements, Tensor weights_offsets, Tensor D_offsets, SymInt max_D, bool mixed_D, "
    "Tensor hash_size_cumsum, int total_hash_size_bits, Tensor indices, Tensor offsets, int pooling_mode, "
    "Tensor lxu_cache_locations, int unused_, int max_segment_length_per_warp, bool stochastic_rounding, "
    "int info_B_num_bits, int info_B_mask_int64, bool use_uniq_cache_locations, bool use_homogeneous_placements, ";

struct OptimizerArguments {
  const char* name;       // of kOptimizers, in the same order
  const char* device;     // in a lookup
  const char* iteration;  // in a lookup, after the tail: not for adam, which has it among its own
  const char* host;       // in a lookup on the CPU
  const char* backward;   // in the backward pass
};

constexpr OptimizerArguments kOptimizerArguments[] = {
    {"sgd", "float learning_rate=0", ", int iter=0", "float learning_rate=0.", "Tensor learning_rate_tensor"},
    {"adagrad",
     "Tensor momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "float eps=0, float learning_rate=0",
     ", int iter=0",
     "Tensor momentum1_host, Tensor momentum1_placements, Tensor momentum1_offsets, float eps=0., "
     "float learning_rate=0.",
     "Tensor(c!) momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "Tensor learning_rate_tensor, float eps=0"},
    {"rowwise_adagrad",
     "Tensor momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "float eps=0, float learning_rate=0, float weight_decay=0.0, int weight_decay_mode=0, float max_norm=0.0",
     ", int iter=0",
     "Tensor momentum1_host, Tensor momentum1_placements, Tensor momentum1_offsets, float eps=0., "
     "float learning_rate=0., float weight_decay=0., int weight_decay_mode=0, float max_norm=0.",
     "Tensor(c!) momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "Tensor learning_rate_tensor, float eps=0, float weight_decay=0.0, int weight_decay_mode=0, float max_norm=0.0"},
    {"adam",
     "Tensor momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "Tensor momentum2_dev, Tensor momentum2_uvm, Tensor momentum2_placements, Tensor momentum2_offsets, "
     "float learning_rate=0, float eps=0, float beta1=0, float beta2=0, float weight_decay=0, int iter=0, "
     "bool use_rowwise_bias_correction=False, Tensor? row_counter_dev=None, Tensor? row_counter_uvm=None, "
     "Tensor? row_counter_placements=None, Tensor? row_counter_offsets=None",
     "",
     "Tensor momentum1_host, Tensor momentum1_placements, Tensor momentum1_offsets, Tensor momentum2_host, "
     "Tensor momentum2_placements, Tensor momentum2_offsets, float learning_rate=0., float eps=0., float beta1=0., "
     "float beta2=0., float weight_decay=0., int iter=0, bool use_rowwise_bias_correction=False, "
     "Tensor? row_counter_host=None, Tensor? row_counter_placements=None, Tensor? row_counter_offsets=None",
     "Tensor(c!) momentum1_dev, Tensor momentum1_uvm, Tensor momentum1_placements, Tensor momentum1_offsets, "
     "Tensor(d!) momentum2_dev, Tensor momentum2_uvm, Tensor momentum2_placements, Tensor momentum2_offsets, "
     "Tensor learning_rate_tensor, float eps=0, float beta1=0, float beta2=0, float weight_decay=0, int iter=0, "
     "bool use_rowwise_bias_correction=False, Tensor? row_counter_dev=None, Tensor? row_counter_uvm=None, "
     "Tensor? row_counter_placements=None, Tensor? row_counter_offsets=None"},
};

constexpr bool of_every_optimizer() {
  if (std::size(kOptimizerArguments) != std::size(kOptimizers)) return false;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    if (std::string_view(kOptimizerArguments[i].name) != kOptimizers[i].name) return false;
  }
  return true;
}
static_assert(of_every_optimizer(), "fbgemm's operators need arguments for each of kOptimizers");

void define_entries(torch::Library& m, const std::string& space) {
  define_if_absent(m, space, kForward);
  for (const OptimizerArguments& optimizer : kOptimizerArguments) {
    const std::string name = optimizer.name;
    const std::string lookup =
        lookup_name(name) + "(" + kDeviceHead + optimizer.device + kDeviceTail + optimizer.iteration + kDeviceEnd;
    define_if_absent(m, space, lookup.c_str());
    const std::string host =
        host_lookup_name(name) + "(" + kHostHead + optimizer.host + ", int output_dtype=0) -> Tensor";
    define_if_absent(m, space, host.c_str());
    const std::string backward = backward_name(name) + "(" + kBackwardHead + optimizer.backward + ") -> Tensor";
    define_if_absent(m, space, backward.c_str());
  }
}

}  // namespace

std::string lookup_name(const std::string& optimizer) {
  return "split_embedding_codegen_lookup_" + optimizer + "_function";
}

std::string host_lookup_name(const std::string& optimizer) { return lookup_name(optimizer) + "_cpu"; }

std::string backward_name(const std::string& optimizer) {
  return "split_embedding_backward_codegen_" + optimizer + "_unweighted_exact_cuda";
}

TORCH_LIBRARY_FRAGMENT(fbgemm, m) { define_entries(m, "fbgemm"); }

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  define_entries(m, "mxrec");
  define_if_absent(m, "mxrec", kPoolSchema);
  define_if_absent(m, "mxrec", kUpdateSchema);
}

}  // namespace gr_ops::embedding
