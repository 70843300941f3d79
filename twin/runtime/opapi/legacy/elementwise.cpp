// The few other legacy operators: those around convolutions and recurrent layers, whose tensors torch_npu keeps in
// FRACTAL_NZ and works on by legacy operators, and the change of format.
#include "legacy/operator.h"

namespace twin::opapi {
namespace {

std::vector<int64_t> Axes(const at::Tensor& given) {
  const auto axes = given.to(at::kLong).reshape({-1});
  return {axes.const_data_ptr<int64_t>(), axes.const_data_ptr<int64_t>() + axes.numel()};
}

const LegacyOperator sum("ReduceSum", {"keep_dims"}, [](const LegacyArguments& call) {
  call.Out(0, at::sum(call.WideIn(0), Axes(call.In(1)), call.Number("keep_dims", 0) != 0));
});

const LegacyOperator mul("Mul", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0) * call.In(1)); });

const LegacyOperator add("Add", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0) + call.In(1)); });

// self + alpha * other
const LegacyOperator axpy("AxpyV2", {},
                          [](const LegacyArguments& call) { call.Out(0, call.In(0) + call.In(1) * call.In(2)); });

const LegacyOperator subtract("Sub", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0) - call.In(1)); });

const LegacyOperator divide("RealDiv", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0) / call.In(1)); });

const LegacyOperator relu("Relu", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0).relu()); });

// gradient, x or what came out
const LegacyOperator reluGradient("ReluGrad", {}, [](const LegacyArguments& call) {
  call.Out(0, at::threshold_backward(call.In(0), call.In(1), 0));
});

const LegacyOperator cast("Cast", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0)); });

const LegacyOperator square("Square", {}, [](const LegacyArguments& call) { call.Out(0, call.In(0).square()); });

const LegacyOperator mean("ReduceMean", {"keep_dims"}, [](const LegacyArguments& call) {
  call.Out(0, at::mean(call.WideIn(0), Axes(call.In(1)), call.Number("keep_dims", 0) != 0));
});

const LegacyOperator reverse("ReverseV2", {},
                             [](const LegacyArguments& call) { call.Out(0, call.In(0).flip(Axes(call.In(1)))); });

// x, where it begins and how much of each dimension
const LegacyOperator slice("Slice", {}, [](const LegacyArguments& call) {
  auto part = call.In(0);
  const auto begin = Axes(call.In(1)), sizes = Axes(call.In(2));
  for (int64_t dim = 0; dim < part.dim(); ++dim) {
    const int64_t first = begin.at(dim), size = sizes.at(dim);
    part = part.narrow(dim, first, size < 0 ? part.size(dim) - first : size);
  }
  call.Out(0, part);
});

// x, where it begins and ends, steps
const LegacyOperator stridedSlice("StridedSlice",
                                  {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"},
                                  [](const LegacyArguments& call) {
                                    for (const char* mask : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
                                                             "shrink_axis_mask"}) {
                                      TORCH_CHECK(call.Number(mask, 0) == 0, mask, " is not emulated");
                                    }
                                    auto part = call.In(0);
                                    const auto begin = Axes(call.In(1)), end = Axes(call.In(2)),
                                               step = Axes(call.In(3));
                                    for (int64_t dim = 0; dim < part.dim(); ++dim) {
                                      part = part.slice(dim, begin.at(dim), end.at(dim), step.at(dim));
                                    }
                                    call.Out(0, part);
                                  });

const LegacyOperator transpose("Transpose", {},
                               [](const LegacyArguments& call) { call.Out(0, call.In(0).permute(Axes(call.In(1)))); });

const LegacyOperator concat("ConcatD", {"concat_dim"}, [](const LegacyArguments& call) {
  std::vector<at::Tensor> parts;
  for (size_t input = 0; input < call.Inputs(); ++input) {
    parts.push_back(call.In(input));
  }
  call.Out(0, at::cat(parts, static_cast<int64_t>(call.Number("concat_dim", 0))));
});

const LegacyOperator matmul("MatMul", {"transpose_x1", "transpose_x2"}, [](const LegacyArguments& call) {
  const auto left = call.WideIn(0), right = call.WideIn(1);
  const auto product = at::matmul(call.Number("transpose_x1", 0) != 0 ? left.t() : left,
                                  call.Number("transpose_x2", 0) != 0 ? right.t() : right);
  call.Out(0, call.Has(2) ? product + call.WideIn(2) : product);
});

const LegacyOperator fill("Fill", {}, [](const LegacyArguments& call) {
  call.Out(0, call.In(1).reshape({1}).expand(c10::multiply_integers(call.OutShape(0))).reshape(call.OutShape(0)));
});

// Channels of a group lie next to each other; afterwards the first ones of all groups come first.
const LegacyOperator shuffle("ShuffleChannel", {"group"}, [](const LegacyArguments& call) {
  call.Out(0, at::channel_shuffle(call.In(0), static_cast<int64_t>(call.Number("group", 1))));
});

void Copy(const LegacyArguments& call) { call.Out(0, call.In(0)); }

const LegacyOperator identity("Identity", {}, Copy);
const LegacyOperator format("TransData", {}, Copy);

}  // namespace
}  // namespace twin::opapi
