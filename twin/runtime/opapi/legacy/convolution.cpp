// Convolutions of two dimensions, which torch_npu runs by legacy operators unless internal formats are forbidden.
#include "legacy/operator.h"

namespace twin::opapi {
namespace {

const std::vector<const char*> ATTRIBUTES = {"strides", "pads", "dilations", "groups", "data_format"};

// Of the attributes, those of the two dimensions of the image.
struct Geometry {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;

  explicit Geometry(const LegacyArguments& call)
      : stride(Image(call, "strides")),
        padding(Padding(call)),
        dilation(Image(call, "dilations")),
        groups(static_cast<int64_t>(call.Number("groups", 1))) {}

 private:
  static std::vector<int64_t> Image(const LegacyArguments& call, const char* name) {
    const auto values = call.Integers(name);
    TORCH_CHECK(values.size() == 4 && call.Text("data_format", "NCHW") == "NCHW", name, " is ", values, " of ",
                call.Text("data_format", "NCHW"), "; four values in the order NCHW are emulated");
    return {values[2], values[3]};
  }
  static std::vector<int64_t> Padding(const LegacyArguments& call) {
    const auto pads = call.Integers("pads");  // top, bottom, left, right
    TORCH_CHECK(pads.size() == 4 && pads[0] == pads[1] && pads[2] == pads[3], "pads is ", pads,
                "; equal pads on both sides are emulated");
    return {pads[0], pads[2]};
  }
};

at::Tensor Transposed(const at::Tensor& x, const at::Tensor& weight, const Geometry& geometry,
                      const std::vector<int64_t>& result) {
  std::vector<int64_t> outputPadding;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = weight.size(static_cast<int64_t>(i) + 2);
    const int64_t least = (x.size(static_cast<int64_t>(i) + 2) - 1) * geometry.stride[i] - 2 * geometry.padding[i] +
                          geometry.dilation[i] * (kernel - 1) + 1;
    outputPadding.push_back(result.at(i + 2) - least);
  }
  return at::convolution(x, weight, {}, geometry.stride, geometry.padding, geometry.dilation, true, outputPadding,
                         geometry.groups);
}

at::Tensor WithBias(const at::Tensor& result, const LegacyArguments& call, size_t input) {
  return call.Has(input) ? result + call.WideIn(input).reshape({1, -1, 1, 1}) : result;
}

const LegacyOperator conv2d("Conv2D", ATTRIBUTES, [](const LegacyArguments& call) {
  const Geometry geometry(call);
  auto result = at::convolution(call.WideIn(0), call.WideIn(1), {}, geometry.stride, geometry.padding,
                                geometry.dilation, false, {0, 0}, geometry.groups);
  // As the gradient of a transposed one: what its output padding made room for is left out.
  for (int64_t dim = 2; dim < 4; ++dim) {
    result = result.narrow(dim, 0, std::min(result.size(dim), call.OutShape(0).at(dim)));
  }
  call.Out(0, WithBias(result, call, 2));
});

// After the size of the result, which its descriptor says too: x, filter, bias.
const LegacyOperator transpose("Conv2DTranspose", ATTRIBUTES, [](const LegacyArguments& call) {
  const auto result = Transposed(call.WideIn(1), call.WideIn(2), Geometry(call), call.OutShape(0));
  call.Out(0, WithBias(result, call, 3));
});

// After the size of the result: filter, gradient of the result.
const LegacyOperator ofInput("Conv2DBackpropInput", ATTRIBUTES, [](const LegacyArguments& call) {
  call.Out(0, Transposed(call.WideIn(2), call.WideIn(1), Geometry(call), call.OutShape(0)));
});

// x, size of the result, gradient of the convolution's result.
const LegacyOperator ofFilter("Conv2DBackpropFilter", ATTRIBUTES, [](const LegacyArguments& call) {
  const Geometry geometry(call);
  const auto gradient = call.WideIn(2);
  // With its padding, as far as the windows reach: of a transposed one it may be larger.
  auto x = at::constant_pad_nd(call.WideIn(0),
                               {geometry.padding[1], geometry.padding[1], geometry.padding[0], geometry.padding[0]});
  for (int64_t dim = 2; dim < 4; ++dim) {
    const auto place = static_cast<size_t>(dim);
    const int64_t reach = (gradient.size(dim) - 1) * geometry.stride[place - 2] +
                          geometry.dilation[place - 2] * (call.OutShape(0).at(place) - 1) + 1;
    x = x.narrow(dim, 0, std::min(reach, x.size(dim)));
  }
  const auto gradients =
      at::convolution_backward(gradient, x, at::empty(call.OutShape(0), x.options()), c10::nullopt, geometry.stride,
                               {0, 0}, geometry.dilation, false, {0, 0}, geometry.groups, {false, true, false});
  call.Out(0, std::get<1>(gradients));
});

}  // namespace
}  // namespace twin::opapi
