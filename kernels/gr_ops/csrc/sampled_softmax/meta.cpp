#include <torch/library.h>

#include "sampled_softmax/arguments.h"

namespace gr_ops::sampled_softmax {
namespace {

at::Tensor new_loss(const at::Tensor& query) {
  return query.new_empty_symint(c10::SymIntArrayRef{}, query.options().dtype(type_of_loss(query)));
}

at::Tensor like(const at::Tensor& tensor) { return tensor.new_empty_symint(tensor.sym_sizes()); }

at::Tensor loss(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets, const at::Tensor& negatives,
                const OptionalTensor& correction, const OptionalTensor& place, int64_t group, double temperature,
                double eps) {
  check("sampled_softmax", query, rows, targets, negatives, correction, place, group, temperature, eps);
  return new_loss(query);
}

Gradients gradients(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                    const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                    int64_t group, double temperature, double eps) {
  check("sampled_softmax_gradients", query, rows, targets, negatives, correction, place, group, temperature, eps);
  return {new_loss(query), like(query), like(rows)};
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) {
  m.impl("sampled_softmax", &loss);
  m.impl("sampled_softmax_gradients", &gradients);
}

}  // namespace gr_ops::sampled_softmax
