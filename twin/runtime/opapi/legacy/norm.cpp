// Batch norm of a tensor that torch_npu keeps in a private format, as it is after a convolution: sums over all but the
// channels first, then the result. What its call names variance is a variance, in torch's `save_invstd` too.
#include "legacy/operator.h"

namespace twin::opapi {
namespace {

struct Channels {
  std::vector<int64_t> others;  // the dimensions that are summed
  std::vector<int64_t> shape;   // of a value for each channel, to broadcast
  double count;

  explicit Channels(const at::Tensor& x) : shape(x.dim(), 1), count(static_cast<double>(x.numel() / x.size(1))) {
    shape[1] = -1;
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
      if (dim != 1) {
        others.push_back(dim);
      }
    }
  }
  at::Tensor Spread(const at::Tensor& values) const { return values.to(at::kDouble).reshape(shape); }
  at::Tensor Sum(const at::Tensor& values) const { return values.sum(others); }
};

at::Tensor Wide(const LegacyArguments& call, size_t input) { return call.In(input).to(at::kDouble); }

at::Tensor Inverse(const at::Tensor& variance, const LegacyArguments& call) {
  return (variance + call.Number("epsilon", 1e-5)).rsqrt();
}

// x -> sum, sum of squares
void Reduce(const LegacyArguments& call) {
  const auto x = Wide(call, 0);
  const Channels channels(x);
  call.Out(0, channels.Sum(x));
  call.Out(1, channels.Sum(x.square()));
}

// x, sum, sum of squares, scale, offset, mean, variance -> y, mean, variance, mean of the batch, variance of the batch
void Update(const LegacyArguments& call) {
  const auto x = Wide(call, 0);
  const Channels channels(x);
  const auto mean = Wide(call, 1) / channels.count;
  const auto variance = (Wide(call, 2) / channels.count - mean.square()).clamp_min(0);
  const double factor = call.Number("factor", 0.1);
  const auto unbiased = variance * (channels.count / std::max(channels.count - 1, 1.0));
  const auto runningMean = Wide(call, 5) * (1 - factor) + mean * factor;
  const auto runningVariance = Wide(call, 6) * (1 - factor) + unbiased * factor;
  const auto scale = Wide(call, 3) * Inverse(variance, call);
  call.Out(0, (x - channels.Spread(mean)) * channels.Spread(scale) + channels.Spread(call.In(4)));
  call.Out(1, runningMean);
  call.Out(2, runningVariance);
  call.Out(3, mean);
  call.Out(4, variance);
}

// gradient, x, mean, variance -> gradient of the scale, of the offset
void UpdateGradient(const LegacyArguments& call) {
  const auto gradient = Wide(call, 0), x = Wide(call, 1);
  const Channels channels(x);
  const auto normal = (x - channels.Spread(call.In(2))) * channels.Spread(Inverse(Wide(call, 3), call));
  call.Out(0, channels.Sum(gradient * normal));
  call.Out(1, channels.Sum(gradient));
}

// gradient, x, gradient of the scale, of the offset, scale, mean, variance -> gradient of x
void ReduceGradient(const LegacyArguments& call) {
  const auto gradient = Wide(call, 0), x = Wide(call, 1);
  const Channels channels(x);
  const auto inverse = Inverse(Wide(call, 6), call);
  const auto normal = (x - channels.Spread(call.In(5))) * channels.Spread(inverse);
  const auto along = (channels.Spread(call.In(3)) + normal * channels.Spread(call.In(2))) / channels.count;
  call.Out(0, (gradient - along) * channels.Spread(Wide(call, 4) * inverse));
}

const LegacyOperator reduce("BNTrainingReduce", {"epsilon"}, Reduce);
const LegacyOperator reduce3d("BN3DTrainingReduce", {"epsilon"}, Reduce);
const LegacyOperator update("BNTrainingUpdate", {"epsilon", "factor"}, Update);
const LegacyOperator update3d("BN3DTrainingUpdate", {"epsilon", "factor"}, Update);
const LegacyOperator updateGradient("BNTrainingUpdateGrad", {"epsilon"}, UpdateGradient);
const LegacyOperator updateGradient3d("BN3DTrainingUpdateGrad", {"epsilon"}, UpdateGradient);
const LegacyOperator reduceGradient("BNTrainingReduceGrad", {"epsilon"}, ReduceGradient);
const LegacyOperator reduceGradient3d("BN3DTrainingReduceGrad", {"epsilon"}, ReduceGradient);

// x, scale, offset, mean, variance
const LegacyOperator infer("BNInfer", {"epsilon"}, [](const LegacyArguments& call) {
  const auto x = Wide(call, 0);
  const Channels channels(x);
  const auto scale = Wide(call, 1) * Inverse(Wide(call, 4), call);
  call.Out(0, (x - channels.Spread(call.In(3))) * channels.Spread(scale) + channels.Spread(call.In(2)));
});

// gradient, scale, variance
const LegacyOperator inferGradient("BNInferGrad", {"epsilon"}, [](const LegacyArguments& call) {
  const auto gradient = Wide(call, 0);
  const Channels channels(gradient);
  call.Out(0, gradient * channels.Spread(Wide(call, 1) * Inverse(Wide(call, 2), call)));
});

}  // namespace
}  // namespace twin::opapi
