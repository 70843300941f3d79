#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "common/parallel.h"
#include "common/result.h"
#include "hstu/cpu/chosen.h"
#include "layer/calls.h"
#include "layer/cpu/kernels.h"

// The operators around HSTU's attention on CPU tensors: threads take chunks of the tokens, and the gradients of the
// weights are summed per thread, then over the threads in their order. 16-bit types are computed in float, and their
// results rounded once; ByPairs says of what else.
namespace gr_ops::layer {
namespace {

constexpr int64_t kWideRow = 128;

const Kernels& kernels_for(const at::Tensor& rows) {
  const KernelSet& set = hstu::chosen<KernelSet>();
  switch (rows.scalar_type()) {
    case at::kDouble:
      return set.of_double;
    case at::kHalf:
      return set.of_half;
    case at::kBFloat16:
      return set.of_bfloat16;
    default:
      return rows.size(1) < kWideRow ? set.of_float : set.of_wide_float;
  }
}

at::ScalarType sum_type(const at::Tensor& rows) { return rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
at::Tensor as_sum(const at::Tensor& tensor) { return tensor.to(sum_type(tensor)).contiguous(); }

// Rows in float32 beside others of 16 bits.
bool is_mixed(const at::Tensor& x, const at::Tensor& other) { return x.scalar_type() != other.scalar_type(); }

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

std::vector<at::Tensor> converted(at::TensorList tensors, at::ScalarType type) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.to(type));
  return result;
}

constexpr int64_t kMinChunkTokens = 192;  // tokens below which no further thread is worth waking

int64_t chunks_for(int64_t tokens) {
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  return std::max<int64_t>(1, std::min<int64_t>(threads, tokens / kMinChunkTokens));
}

// body(chunk, first, last, scratch) for equal chunks of the tokens.
template <typename Body>
void for_chunks(int64_t tokens, int64_t chunks, size_t scratch_bytes, const Body& body) {
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    const at::DataPtr scratch = c10::GetCPUAllocator()->allocate(scratch_bytes);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      body(chunk, tokens * chunk / chunks, tokens * (chunk + 1) / chunks, scratch.get());
    }
  });
}

// A matrix [depth, width] as the kernels take it.
at::Tensor packed(decltype(Kernels::packed_bytes) packed_bytes, decltype(Kernels::pack) pack, const at::Tensor& matrix,
                  bool turned) {
  const int64_t depth = matrix.size(turned ? 1 : 0), width = matrix.size(turned ? 0 : 1);
  at::Tensor result = new_result({static_cast<int64_t>(packed_bytes(depth, width))}, at::kByte);
  pack(matrix.const_data_ptr(), depth, width, turned, result.mutable_data_ptr());
  return result;
}

at::Tensor packed(const Kernels& kernels, const at::Tensor& matrix, bool turned) {
  return packed(kernels.packed_bytes, kernels.pack, matrix, turned);
}

char* chunk_sum(const at::Tensor& sums, int64_t chunk) {
  return static_cast<char*>(sums.mutable_data_ptr()) + chunk * sums.stride(0) * sums.itemsize();
}

// [chunks, padded rows, padded width] -> [rows, width]
at::Tensor total(const at::Tensor& sums, int64_t rows, int64_t width, at::ScalarType type) {
  return sums.sum(0).narrow(0, 0, rows).narrow(1, 0, width).to(type).contiguous();
}

std::vector<at::Tensor> projection(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef split, double eps) {
  check_projection("hstu_projection", x, weight, split);
  if (is_mixed(x, weight)) return converted(projection(wide(x), wide(weight), split, eps), weight.scalar_type());
  const at::Tensor tokens = x.contiguous();
  std::vector<at::Tensor> parts;
  std::vector<void*> outputs;
  for (int64_t width : split) {
    parts.push_back(new_result({x.size(0), width}, x.options()));
    outputs.push_back(parts.back().mutable_data_ptr());
  }
  const Kernels& kernels = kernels_for(x);
  const at::Tensor right = packed(kernels, as_sum(weight), false);
  const std::vector<ptrdiff_t> widths(split.begin(), split.end());
  Projection p;
  p.dim = x.size(1);
  p.width = weight.size(1);
  p.split = widths.data();
  p.parts = static_cast<int>(widths.size());
  p.eps = eps;
  p.x = tokens.const_data_ptr();
  p.weight = right.const_data_ptr();
  p.out = outputs.data();
  for_chunks(x.size(0), chunks_for(x.size(0)), kernels.projection_scratch(p),
             [&](int64_t, int64_t first, int64_t last, void* scratch) { kernels.project(p, first, last, scratch); });
  return parts;
}

ProjectionGradients projection_backward(at::TensorList grads, const at::Tensor& x, const at::Tensor& weight,
                                        at::IntArrayRef split, double eps) {
  check_projection("hstu_projection_backward", x, weight, split);
  check_projection_grads("hstu_projection_backward", grads, x, weight, split);
  if (is_mixed(x, weight)) {
    const auto [dx, dweight] = projection_backward(converted(grads, at::kFloat), wide(x), wide(weight), split, eps);
    return {dx.to(x.scalar_type()), dweight.to(weight.scalar_type())};
  }
  const at::Tensor tokens = x.contiguous(), matrix = as_sum(weight);
  std::vector<at::Tensor> contiguous_grads;
  std::vector<const void*> inputs;
  for (const at::Tensor& grad : grads) {
    contiguous_grads.push_back(grad.contiguous());
    inputs.push_back(contiguous_grads.back().const_data_ptr());
  }
  const Kernels& kernels = kernels_for(x);
  const at::Tensor right = packed(kernels, matrix, false), turned = packed(kernels, matrix, true);
  const at::Tensor dx = new_result(x.sizes(), x.options());
  const std::vector<ptrdiff_t> widths(split.begin(), split.end());
  Projection p;
  p.dim = x.size(1);
  p.width = weight.size(1);
  p.split = widths.data();
  p.parts = static_cast<int>(widths.size());
  p.eps = eps;
  p.x = tokens.const_data_ptr();
  p.weight = right.const_data_ptr();
  p.turned = turned.const_data_ptr();
  p.grad = inputs.data();
  p.dx = dx.mutable_data_ptr();
  const int64_t chunks = chunks_for(x.size(0));
  const at::Tensor sums = at::zeros({chunks, kernels.padded(p.dim), kernels.padded(p.width)}, matrix.options());
  for_chunks(x.size(0), chunks, kernels.projection_scratch(p),
             [&](int64_t chunk, int64_t first, int64_t last, void* scratch) {
               kernels.project_backward(p, first, last, chunk_sum(sums, chunk), scratch);
             });
  return {dx, total(sums, p.dim, p.width, weight.scalar_type())};
}

// What forward and backward have in common; tensors must outlive it.
Gate gate_of(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& weight, const at::Tensor& keep,
             double scale, double eps) {
  Gate g;
  g.width = attended.size(1);
  g.dim = weight.size(0);
  g.eps = eps;
  g.scale = scale;
  g.attended = attended.const_data_ptr();
  g.u = u.const_data_ptr();
  g.keep = keep.defined() ? static_cast<const unsigned char*>(keep.const_data_ptr()) : nullptr;
  return g;
}

at::Tensor contiguous(const OptionalTensor& tensor) { return tensor.has_value() ? tensor->contiguous() : at::Tensor(); }

at::Tensor gate(const at::Tensor& attended, const at::Tensor& u, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias, const OptionalTensor& keep, double scale, double eps) {
  check_gate("hstu_gated_output", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output", "x", x, attended, weight);
  check_gate_bias("hstu_gated_output", bias, weight);
  if (is_mixed(x, attended)) {
    return gate(wide(attended), wide(u), wide(x), wide(weight), wide(bias), keep, scale, eps).to(x.scalar_type());
  }
  const at::Tensor a = attended.contiguous(), gates = u.contiguous(), tokens = x.contiguous(), shift = as_sum(bias),
                   mask = contiguous(keep);
  const Kernels& kernels = kernels_for(attended);
  const at::Tensor right = packed(kernels.packed_gate_bytes, kernels.pack_gate, as_sum(weight), true);
  const at::Tensor result = new_result(x.sizes(), x.options());
  Gate g = gate_of(a, gates, weight, mask, scale, eps);
  g.x = tokens.const_data_ptr();
  g.bias = shift.const_data_ptr();
  g.weight = right.const_data_ptr();
  g.out = result.mutable_data_ptr();
  for_chunks(x.size(0), chunks_for(x.size(0)), kernels.gate_scratch(g),
             [&](int64_t, int64_t first, int64_t last, void* scratch) { kernels.gate(g, first, last, scratch); });
  return result;
}

GateGradients gate_backward(const at::Tensor& grad, const at::Tensor& attended, const at::Tensor& u,
                            const at::Tensor& weight, const OptionalTensor& keep, double scale, double eps) {
  check_gate("hstu_gated_output_backward", attended, u, weight, keep);
  check_gate_rows("hstu_gated_output_backward", "grad", grad, attended, weight);
  if (is_mixed(grad, attended)) {
    const auto [da, du, dweight, dbias] =
        gate_backward(wide(grad), wide(attended), wide(u), wide(weight), keep, scale, eps);
    const at::ScalarType type = attended.scalar_type();
    return {da.to(type), du.to(type), dweight.to(type), dbias.to(type)};
  }
  const at::Tensor a = attended.contiguous(), gates = u.contiguous(), gradient = grad.contiguous(),
                   matrix = as_sum(weight), mask = contiguous(keep);
  const Kernels& kernels = kernels_for(attended);
  const at::Tensor turned = packed(kernels, matrix, false);
  const at::Tensor da = new_result(attended.sizes(), attended.options()), du = new_result(u.sizes(), u.options());
  Gate g = gate_of(a, gates, weight, mask, scale, eps);
  g.turned = turned.const_data_ptr();
  g.grad = gradient.const_data_ptr();
  g.dattended = da.mutable_data_ptr();
  g.du = du.mutable_data_ptr();
  const int64_t tokens = attended.size(0), chunks = chunks_for(tokens);
  const at::Tensor of_weight = at::zeros({chunks, kernels.padded(g.dim), kernels.padded(g.width)}, matrix.options());
  const at::Tensor of_bias = at::zeros({chunks, 1, kernels.padded(g.dim)}, matrix.options());
  for_chunks(tokens, chunks, kernels.gate_backward_scratch(g),
             [&](int64_t chunk, int64_t first, int64_t last, void* scratch) {
               kernels.gate_backward(g, first, last, chunk_sum(of_weight, chunk), chunk_sum(of_bias, chunk), scratch);
             });
  const at::ScalarType type = weight.scalar_type();
  return {da, du, total(of_weight, g.dim, g.width, type), total(of_bias, 1, g.dim, type).flatten()};
}

// Contiguous, whatever `tensor` is like.
at::Tensor keep(const at::Tensor& tensor, double p, int64_t seed) {
  check_probability("hstu_keep", p);
  at::Tensor result = at::empty(tensor.sizes(), tensor.options().dtype(at::kBool));
  auto* to = static_cast<unsigned char*>(result.mutable_data_ptr());
  const auto threshold = static_cast<uint32_t>(std::min(std::round(p * 0x1p32), 0x1p32 - 1));
  parallel_rows(result.numel(), 4, [&](int64_t first, int64_t last) {
    hstu::chosen<KernelSet>().keep(first, last, static_cast<uint64_t>(seed), threshold, to);
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) {
  m.impl("hstu_projection", &projection);
  m.impl("hstu_projection_backward", &projection_backward);
  m.impl("hstu_gated_output", &gate);
  m.impl("hstu_gated_output_backward", &gate_backward);
  m.impl("hstu_keep", &keep);
}

}  // namespace gr_ops::layer
