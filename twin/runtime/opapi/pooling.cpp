// Pooling over windows and to a given size. An absent divisor is 0.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

std::optional<int64_t> Divisor(int64_t divisor) {
  return divisor == 0 ? std::nullopt : std::optional<int64_t>(divisor);
}

int64_t Of(const std::vector<int64_t>& pair, size_t dim) { return pair[pair.size() == 1 ? 0 : dim]; }

// Where the maxima of max_pool2d lie. The device keeps no indices: its mask [..., kh * kw, bytes] says for each place
// of the window in which windows the maximum is there. Its layout is the device's own and no documentation gives it;
// here window `o` of a plane is byte `o`.
class Mask {
 public:
  Mask(const at::Tensor& self, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
       const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation, const at::Tensor& windows)
      : width_(self.size(-1)), kernelWidth_(Of(kernel, 1)), places_(Of(kernel, 0) * Of(kernel, 1)) {
    const auto& steps = stride.empty() ? kernel : stride;
    const auto first = [&](int64_t size, size_t dim) { return at::arange(size) * Of(steps, dim) - Of(padding, dim); };
    top_ = first(windows.size(-2), 0).unsqueeze(1).expand({windows.size(-2), windows.size(-1)}).reshape({-1});
    left_ = first(windows.size(-1), 1).unsqueeze(0).expand({windows.size(-2), windows.size(-1)}).reshape({-1});
    dilation_ = {Of(dilation, 0), Of(dilation, 1)};
  }

  at::Tensor FromIndices(const at::Tensor& indices, at::IntArrayRef sizes) const {
    const auto flat = indices.flatten(-2);
    const auto row = at::floor_divide(flat, width_), column = at::remainder(flat, width_);
    const auto place =
        at::floor_divide(row - top_, dilation_[0]) * kernelWidth_ + at::floor_divide(column - left_, dilation_[1]);
    auto mask = at::zeros(sizes, at::kChar);
    mask.narrow(-1, 0, flat.size(-1)).scatter_(-2, place.unsqueeze(-2), 1);
    return mask;
  }

  at::Tensor ToIndices(const at::Tensor& mask, at::IntArrayRef sizes) const {
    const auto place = mask.narrow(-1, 0, top_.numel()).to(at::kInt).argmax(-2);
    const auto row = top_ + at::floor_divide(place, kernelWidth_) * dilation_[0];
    const auto column = left_ + at::remainder(place, kernelWidth_) * dilation_[1];
    return (row * width_ + column).reshape(sizes);
  }

  // mask [..., places, bytes], room for a byte a window.
  void Check(const at::Tensor& mask) const {
    TORCH_CHECK(mask.size(-2) == places_ && mask.size(-1) >= top_.numel(), "indices has ", mask.size(-2), " planes of ",
                mask.size(-1), " bytes, ", places_, " planes of at least ", top_.numel(), " are needed");
  }

 private:
  int64_t width_, kernelWidth_, places_;
  at::Tensor top_, left_;  // of each window, padding included
  std::array<int64_t, 2> dilation_{};
};

}  // namespace

ACLNN(aclnnAvgPool2d, (In, self), (Ints, kernelSize), (Ints, strides), (Ints, paddings), (bool, ceilMode),
      (bool, countIncludePad), (int64_t, divisorOverride), (int8_t, cubeMathType), (Out, out)) {
  out = at::avg_pool2d(self, kernelSize, strides, paddings, ceilMode, countIncludePad, Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool2dBackward, (In, gradOutput), (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding),
      (bool, ceilMode), (bool, countIncludePad), (int64_t, divisorOverride), (int8_t, cubeMathType), (Out, gradInput)) {
  gradInput = at::avg_pool2d_backward(gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                                      Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool3d, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (bool, ceilMode),
      (bool, countIncludePad), (int64_t, divisorOverride), (Out, out)) {
  out = at::avg_pool3d(self, kernelSize, stride, padding, ceilMode, countIncludePad, Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool3dBackward, (In, gradOutput), (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding),
      (bool, ceilMode), (bool, countIncludePad), (int64_t, divisorOverride), (Out, gradInput)) {
  gradInput = at::avg_pool3d_backward(gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                                      Divisor(divisorOverride));
}

ACLNN(aclnnMaxPool2dWithMask, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (Ints, dilation),
      (bool, ceilMode), (Out, out), (Out, indices)) {
  const auto [best, places] = at::max_pool2d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
  const Mask mask(self, kernelSize, stride, padding, dilation, best);
  mask.Check(indices.Target());
  out = best;
  indices = mask.FromIndices(places, indices.Target().sizes());
}

ACLNN(aclnnMaxPool2dWithMaskBackward, (In, gradOutput), (In, self), (In, indices), (Ints, kernelSize), (Ints, stride),
      (Ints, padding), (Ints, dilation), (bool, ceilMode), (Out, gradInput)) {
  const Mask mask(self, kernelSize, stride, padding, dilation, gradOutput);
  mask.Check(indices);
  gradInput = at::max_pool2d_with_indices_backward(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode,
                                                   mask.ToIndices(indices, gradOutput.sizes()));
}

ACLNN(aclnnMaxPool3dWithArgmax, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (Ints, dilation),
      (bool, ceilMode), (Out, out), (Out, indices)) {
  const auto [best, places] = at::max_pool3d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
  out = best;
  indices = places;
}

ACLNN(aclnnMaxPool3dWithArgmaxBackward, (In, gradOutput), (In, self), (In, indices), (Ints, kernelSize), (Ints, stride),
      (Ints, padding), (Ints, dilation), (bool, ceilMode), (Out, gradInput)) {
  gradInput = at::max_pool3d_with_indices_backward(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode,
                                                   indices.to(at::kLong));
}

ACLNN(aclnnAdaptiveAvgPool2d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::adaptive_avg_pool2d(self, outputSize);
}

ACLNN(aclnnAdaptiveAvgPool2dBackward, (In, gradOutput), (In, self), (Out, out)) {
  out = at::_adaptive_avg_pool2d_backward(gradOutput, self);
}

ACLNN(aclnnAdaptiveAvgPool3d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::adaptive_avg_pool3d(self, outputSize);
}

ACLNN(aclnnAdaptiveAvgPool3dBackward, (In, gradOutput), (In, self), (Out, out)) {
  out = at::_adaptive_avg_pool3d_backward(gradOutput, self);
}

#define ADAPTIVE_MAX(NAME, FUNCTION)                                                     \
  ACLNN(NAME, (In, self), (Ints, outputSize), (Out, out), (Out, indices)) {              \
    const auto [best, places] = FUNCTION(self, outputSize);                              \
    out = best;                                                                          \
    indices = places;                                                                    \
  }                                                                                      \
  ACLNN(NAME##Backward, (In, gradOutput), (In, self), (In, indices), (Out, gradInput)) { \
    gradInput = FUNCTION##_backward(gradOutput, self, indices.to(at::kLong));            \
  }
ADAPTIVE_MAX(aclnnAdaptiveMaxPool2d, at::adaptive_max_pool2d)
ADAPTIVE_MAX(aclnnAdaptiveMaxPool3d, at::adaptive_max_pool3d)

ACLNN(aclnnMaxUnpool2d, (In, self), (In, indices), (Ints, outputSize), (Out, out)) {
  out = at::max_unpool2d(self, indices.to(at::kLong), outputSize);
}

ACLNN(aclnnMaxUnpool3d, (In, self), (In, indices), (Ints, outputSize), (Ints, stride), (Ints, padding), (Out, out)) {
  out = at::max_unpool3d(self, indices.to(at::kLong), outputSize, stride, padding);
}
