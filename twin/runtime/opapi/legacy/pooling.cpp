// Pooling of a tensor that torch_npu keeps in a private format, as it is after a convolution.
#include "legacy/operator.h"
#include "pooling_mask.h"

namespace twin::opapi {
namespace {

// Of four values, those of height and width: in the middle for the maximum, last for the mean.
std::vector<int64_t> Pair(const LegacyArguments& call, const char* name, size_t first) {
  const auto values = call.Integers(name);
  TORCH_CHECK(values.size() == 4, name, " is ", values, "; four values are expected");
  return {values[first], values[first + 1]};
}

struct Windows {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil;

  Windows(const LegacyArguments& call, const char* dilations)
      : kernel(Pair(call, "ksize", 1)),
        stride(Pair(call, "strides", 1)),
        padding(Pair(call, "pads", 1)),
        dilation(Pair(call, dilations, 1)),
        ceil(call.Number("ceil_mode", 0) != 0) {}

  PoolingMask Mask(const at::Tensor& x, const at::Tensor& result) const {
    return {x, kernel, stride, padding, dilation, result};
  }
};

constexpr int64_t WORD = 16;  // windows a word of the mask

at::Tensor Powers() { return at::pow(2, at::arange(WORD, at::kInt)); }

// x -> the largest, and where: [N, C, kh * kw, words], in the bits of which a window each has its place
const LegacyOperator maximum("MaxPoolWithArgmaxV1", {"ksize", "strides", "pads", "dilation", "ceil_mode"},
                             [](const LegacyArguments& call) {
                               const auto x = call.In(0);
                               const Windows windows(call, "dilation");
                               const auto [best, places] = at::max_pool2d_with_indices(
                                   x, windows.kernel, windows.stride, windows.padding, windows.dilation, windows.ceil);
                               auto shape = call.OutShape(1);
                               shape.back() *= WORD;
                               const auto bits = windows.Mask(x, best).FromIndices(places, shape);
                               call.Out(0, best);
                               call.Out(1, (bits.to(at::kInt).unflatten(-1, {-1, WORD}) * Powers()).sum(-1));
                             });

// x, gradient, where
const LegacyOperator ofMaximum(
    "MaxPoolGradWithArgmaxV1", {"ksize", "strides", "pads", "dilations", "ceil_mode"}, [](const LegacyArguments& call) {
      const auto x = call.In(0), gradient = call.In(1);
      const Windows windows(call, "dilations");
      const auto where = call.In(2);
      // The mask of aclnnMaxPool2dWithMask comes as it lies in memory, a byte a window.
      const auto mask = call.InOperand(2).format == ACL_FORMAT_ND
                            ? where.contiguous().view(at::kChar)
                            : (where.to(at::kInt).unsqueeze(-1).bitwise_and(Powers())).ne(0).flatten(-2).to(at::kChar);
      const auto indices = windows.Mask(x, gradient).ToIndices(mask, gradient.sizes());
      call.Out(0, at::max_pool2d_with_indices_backward(gradient, x, windows.kernel, windows.stride, windows.padding,
                                                       windows.dilation, windows.ceil, indices));
    });

const std::vector<const char*> OF_MEAN = {"ksize",     "strides",         "pads", "data_format", "ceil_mode",
                                          "exclusive", "divisor_override"};

std::optional<int64_t> Divisor(const LegacyArguments& call) {
  const auto divisor = static_cast<int64_t>(call.Number("divisor_override", 0));
  return divisor == 0 ? std::nullopt : std::optional<int64_t>(divisor);
}

// pads are top, bottom, left, right, of which the second ones only make room for the last window
std::vector<int64_t> Before(const LegacyArguments& call) {
  const auto pads = call.Integers("pads");
  return {pads.at(0), pads.at(2)};
}

const LegacyOperator mean("AvgPoolV2", OF_MEAN, [](const LegacyArguments& call) {
  call.Out(0, at::avg_pool2d(call.WideIn(0), Pair(call, "ksize", 2), Pair(call, "strides", 2), Before(call),
                             call.Number("ceil_mode", 0) != 0, call.Number("exclusive", 1) == 0, Divisor(call)));
});

// shape of x, gradient
const LegacyOperator ofMean("AvgPoolV2Grad", OF_MEAN, [](const LegacyArguments& call) {
  const auto gradient = call.WideIn(1);
  call.Out(0, at::avg_pool2d_backward(gradient, at::empty(call.OutShape(0), gradient.options()), Pair(call, "ksize", 2),
                                      Pair(call, "strides", 2), Before(call), call.Number("ceil_mode", 0) != 0,
                                      call.Number("exclusive", 1) == 0, Divisor(call)));
});

const LegacyOperator adaptive("AdaptiveAvgPool2d", {"output_size"}, [](const LegacyArguments& call) {
  call.Out(0, at::adaptive_avg_pool2d(call.WideIn(0), call.Integers("output_size")));
});

const LegacyOperator ofAdaptive("AdaptiveAvgPool2dGrad", {"orig_input_shape"}, [](const LegacyArguments& call) {
  const auto gradient = call.WideIn(0);
  call.Out(0, at::_adaptive_avg_pool2d_backward(gradient, at::empty(call.OutShape(0), gradient.options())));
});

}  // namespace
}  // namespace twin::opapi
