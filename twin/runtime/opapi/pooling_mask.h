// Where the maxima of max_pool2d lie. The device keeps no indices: its mask [..., kh * kw, bytes] says for each place
// of the window in which windows the maximum is there. Its layout is the device's own and no documentation gives it;
// here window `o` of a plane is byte `o`.
#pragma once
#include <array>
#include <vector>

#include <ATen/ATen.h>

namespace twin::opapi {

class PoolingMask {
 public:
  // `windows` has the shape of the result.
  PoolingMask(const at::Tensor& self, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
              const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation, const at::Tensor& windows);

  // A mask of `sizes` from PyTorch's indices, and back to indices of `sizes`.
  at::Tensor FromIndices(const at::Tensor& indices, at::IntArrayRef sizes) const;
  at::Tensor ToIndices(const at::Tensor& mask, at::IntArrayRef sizes) const;

  // mask [..., places, bytes], room for a byte a window.
  void Check(const at::Tensor& mask) const;

 private:
  int64_t width_, kernelWidth_, places_;
  at::Tensor top_, left_;  // of each window, padding included
  std::array<int64_t, 2> dilation_{};
};

}  // namespace twin::opapi
