// Normalisation layers. Statistics are float32 on the device, so half-precision inputs are computed in float.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

at::Tensor Wide(const at::Tensor& tensor) {
  const bool half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return half ? tensor.to(at::kFloat) : tensor;
}

std::optional<at::Tensor> Wide(const std::optional<at::Tensor>& tensor) {
  return tensor ? std::make_optional(Wide(*tensor)) : std::nullopt;
}

std::array<bool, 3> Three(const std::vector<bool>& mask) {
  TORCH_CHECK(mask.size() == 3, "mask has ", mask.size(), " entries, not three");
  return {mask[0], mask[1], mask[2]};
}

void Deliver(const std::tuple<at::Tensor, at::Tensor, at::Tensor>& gradients, const std::array<bool, 3>& wanted,
             const std::array<const Output*, 3>& outputs) {
  const std::array<const at::Tensor*, 3> results = {&std::get<0>(gradients), &std::get<1>(gradients),
                                                    &std::get<2>(gradients)};
  for (size_t i = 0; i < 3; ++i) {
    if (wanted[i] && outputs[i]->Target().defined()) {
      *outputs[i] = results[i]->reshape(outputs[i]->Target().sizes());
    }
  }
}

// The trailing dimensions of the input are the normalised shape.
constexpr auto NORMALIZED_SHAPE = [](const HeldInput& input, const std::vector<int64_t>& shape, const auto&...) {
  const auto& whole = input.Shape();
  if (shape.size() > whole.size() || !std::equal(shape.rbegin(), shape.rend(), whole.rbegin())) {
    throw Refusal(INVALID_ARGUMENT, std::string(input.argument) + " of shape " + ShapeText(whole) +
                                        " does not end in the normalized shape " + ShapeText(shape));
  }
};

}  // namespace

ACLNN_CHECKED(aclnnLayerNorm, NORMALIZED_SHAPE, (In, input), (Ints, shape), (OptionalIn, weight), (OptionalIn, bias),
              (double, eps), (Out, out), (OptionalOut, mean), (OptionalOut, rstd)) {
  const auto [normalized, average, inverse] = at::native_layer_norm(Wide(input), shape, Wide(weight), Wide(bias), eps);
  out = normalized;
  if (input.numel() != 0) {  // of an empty input torch_npu allocates the statistics in another shape, empty too
    mean = average;
    rstd = inverse;
  }
}

ACLNN(aclnnLayerNormBackward, (In, gradOut), (In, input), (Ints, shape), (In, mean), (In, rstd), (OptionalIn, weight),
      (OptionalIn, bias), (Flags, mask), (OptionalOut, gradInput), (OptionalOut, gradWeight), (OptionalOut, gradBias)) {
  const auto wanted = Three(mask);
  Deliver(at::native_layer_norm_backward(Wide(gradOut), Wide(input), shape, Wide(mean), Wide(rstd), Wide(weight),
                                         Wide(bias), wanted),
          wanted, {&gradInput, &gradWeight, &gradBias});
}

ACLNN(aclnnGroupNorm, (In, input), (OptionalIn, weight), (OptionalIn, bias), (int64_t, N), (int64_t, C), (int64_t, HxW),
      (int64_t, group), (double, eps), (Out, out), (Out, mean), (Out, rstd)) {
  const auto [normalized, average, inverse] =
      at::native_group_norm(Wide(input.contiguous()), Wide(weight), Wide(bias), N, C, HxW, group, eps);
  out = normalized;
  mean = average;
  rstd = inverse;
}

ACLNN(aclnnGroupNormBackward, (In, gradOut), (In, input), (In, mean), (In, rstd), (OptionalIn, gamma), (int64_t, N),
      (int64_t, C), (int64_t, HxW), (int64_t, group), (Flags, mask), (OptionalOut, gradInput), (OptionalOut, gradGamma),
      (OptionalOut, gradBeta)) {
  const auto wanted = Three(mask);
  Deliver(at::native_group_norm_backward(Wide(gradOut.contiguous()), Wide(input.contiguous()), Wide(mean), Wide(rstd),
                                         Wide(gamma), N, C, HxW, group, wanted),
          wanted, {&gradInput, &gradGamma, &gradBeta});
}

ACLNN(aclnnBatchNorm, (In, input), (OptionalIn, weight), (OptionalIn, bias), (OptionalIn, runningMean),
      (OptionalIn, runningVar), (bool, training), (double, momentum), (double, eps), (Out, out), (Out, saveMean),
      (Out, saveInvstd)) {
  const auto averages = Wide(runningMean);
  const auto variances = Wide(runningVar);
  const auto [normalized, mean, invstd] =
      at::native_batch_norm(Wide(input), Wide(weight), Wide(bias), averages, variances, training, momentum, eps);
  // Updated in place: through their aliases, unless they had to be widened.
  if (training && runningMean && !averages->is_same(*runningMean)) {
    runningMean->copy_(*averages);
  }
  if (training && runningVar && !variances->is_same(*runningVar)) {
    runningVar->copy_(*variances);
  }
  out = normalized;
  if (training) {
    saveMean = mean;
    saveInvstd = invstd;
  }
}

ACLNN(aclnnBatchNormBackward, (In, gradOut), (In, input), (OptionalIn, weight), (OptionalIn, runningMean),
      (OptionalIn, runningVar), (OptionalIn, saveMean), (OptionalIn, saveInvstd), (bool, training), (double, eps),
      (Flags, mask), (OptionalOut, gradInput), (OptionalOut, gradWeight), (OptionalOut, gradBias)) {
  const auto wanted = Three(mask);
  Deliver(at::native_batch_norm_backward(Wide(gradOut), Wide(input), Wide(weight), Wide(runningMean), Wide(runningVar),
                                         Wide(saveMean), Wide(saveInvstd), training, eps, wanted),
          wanted, {&gradInput, &gradWeight, &gradBias});
}

// RMSNorm: y = x * rstd * gamma with rstd = 1 / sqrt(mean(x^2) + epsilon) over gamma's dimensions.
ACLNN(aclnnRmsNorm, (In, self), (In, gamma), (double, epsilon), (Out, out), (Out, rstd)) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < gamma.dim(); ++dim) {
    dims.push_back(self.dim() - gamma.dim() + dim);
  }
  const auto x = Wide(self);
  const auto inverse = at::rsqrt(at::mean(x * x, dims, /*keepdim=*/true) + epsilon);
  out = x * inverse * Wide(gamma);
  rstd = inverse.reshape(rstd.Target().sizes());
}

ACLNN(aclnnRmsNormGrad, (In, gradOut), (In, self), (In, rstd), (In, gamma), (Out, gradInput), (Out, gradGamma)) {
  std::vector<int64_t> inner;
  std::vector<int64_t> outer;
  std::vector<int64_t> statistics;
  const int64_t batchDims = self.dim() - gamma.dim();
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    (dim < batchDims ? outer : inner).push_back(dim);
    statistics.push_back(dim < batchDims ? self.size(dim) : 1);
  }
  const auto inverse = Wide(rstd).reshape(statistics);
  const auto normalized = Wide(self) * inverse;
  const auto grad = Wide(gradOut);
  const auto scaled = grad * Wide(gamma);
  gradInput = inverse * (scaled - normalized * at::mean(scaled * normalized, inner, /*keepdim=*/true));
  const auto products = grad * normalized;
  gradGamma = outer.empty() ? products : at::sum(products, outer);
}
