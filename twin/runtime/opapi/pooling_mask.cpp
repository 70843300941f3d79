#include "pooling_mask.h"

namespace twin::opapi {
namespace {

int64_t Of(const std::vector<int64_t>& pair, size_t dim) { return pair[pair.size() == 1 ? 0 : dim]; }

}  // namespace

PoolingMask::PoolingMask(const at::Tensor& self, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                         const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                         const at::Tensor& windows)
    : width_(self.size(-1)), kernelWidth_(Of(kernel, 1)), places_(Of(kernel, 0) * Of(kernel, 1)) {
  const auto& steps = stride.empty() ? kernel : stride;
  const auto first = [&](int64_t size, size_t dim) { return at::arange(size) * Of(steps, dim) - Of(padding, dim); };
  top_ = first(windows.size(-2), 0).unsqueeze(1).expand({windows.size(-2), windows.size(-1)}).reshape({-1});
  left_ = first(windows.size(-1), 1).unsqueeze(0).expand({windows.size(-2), windows.size(-1)}).reshape({-1});
  dilation_ = {Of(dilation, 0), Of(dilation, 1)};
}

at::Tensor PoolingMask::FromIndices(const at::Tensor& indices, at::IntArrayRef sizes) const {
  const auto flat = indices.flatten(-2);
  const auto row = at::floor_divide(flat, width_), column = at::remainder(flat, width_);
  const auto place =
      at::floor_divide(row - top_, dilation_[0]) * kernelWidth_ + at::floor_divide(column - left_, dilation_[1]);
  auto mask = at::zeros(sizes, at::kChar);
  mask.narrow(-1, 0, flat.size(-1)).scatter_(-2, place.unsqueeze(-2), 1);
  return mask;
}

at::Tensor PoolingMask::ToIndices(const at::Tensor& mask, at::IntArrayRef sizes) const {
  const auto place = mask.narrow(-1, 0, top_.numel()).to(at::kInt).argmax(-2);
  const auto row = top_ + at::floor_divide(place, kernelWidth_) * dilation_[0];
  const auto column = left_ + at::remainder(place, kernelWidth_) * dilation_[1];
  return (row * width_ + column).reshape(sizes);
}

void PoolingMask::Check(const at::Tensor& mask) const {
  TORCH_CHECK(mask.size(-2) == places_ && mask.size(-1) >= top_.numel(), "indices has ", mask.size(-2), " planes of ",
              mask.size(-1), " bytes, ", places_, " planes of at least ", top_.numel(), " are needed");
}

}  // namespace twin::opapi
