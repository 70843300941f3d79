// The fused cells of LSTM and GRU for the CPU. PyTorch has them for devices only and calls them for tensors of a
// device; its CPU computes the cells from elementwise operators, as is done here.
#include <tuple>

#include <ATen/ATen.h>
#include <torch/library.h>

namespace twin {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

Tensor WithBias(const Tensor& gates, const Optional& bias) { return bias && bias->defined() ? gates + *bias : gates; }

// Gates in PyTorch's order: input, forget, cell, output. The workspace keeps them as they came out.
std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& inputGates, const Tensor& hiddenGates, const Tensor& cx,
                                            const Optional& inputBias, const Optional& hiddenBias) {
  const auto gates = (WithBias(inputGates, inputBias) + WithBias(hiddenGates, hiddenBias)).chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
  const Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(const Optional& gradHy, const Optional& gradCy, const Tensor& cx,
                                                    const Tensor& cy, const Tensor& workspace, bool hasBias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const bool hasHy = gradHy && gradHy->defined(), hasCy = gradCy && gradCy->defined();
  if (!hasHy && !hasCy) {
    return {};
  }
  const Tensor dhy = hasHy ? *gradHy : at::zeros_like(cy);
  const Tensor squashed = cy.tanh();
  Tensor dc = dhy * out * (1 - squashed * squashed);
  dc = hasCy ? dc + *gradCy : dc;
  const Tensor gradGates = at::cat({dc * cell * in * (1 - in), dc * cx * forget * (1 - forget),
                                    dc * in * (1 - cell * cell), dhy * squashed * out * (1 - out)},
                                   1);
  return {gradGates, dc * forget, hasBias ? gradGates.sum(0) : Tensor()};
}

// Gates: reset, input, new. The workspace keeps them, the old state, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> GruCell(const Tensor& inputGates, const Tensor& hiddenGates, const Tensor& hx,
                                   const Optional& inputBias, const Optional& hiddenBias) {
  const auto fromInput = WithBias(inputGates, inputBias).chunk(3, 1);
  const auto fromHidden = WithBias(hiddenGates, hiddenBias).chunk(3, 1);
  const Tensor reset = (fromInput[0] + fromHidden[0]).sigmoid(), in = (fromInput[1] + fromHidden[1]).sigmoid();
  const Tensor fresh = (fromInput[2] + reset * fromHidden[2]).tanh();
  return {fresh + in * (hx - fresh), at::cat({reset, in, fresh, hx, fromHidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(const Tensor& gradHy, const Tensor& workspace,
                                                                   bool hasBias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &reset = kept[0], &in = kept[1], &fresh = kept[2], &hx = kept[3], &hidden = kept[4];
  const Tensor dIn = gradHy * (hx - fresh) * in * (1 - in);
  const Tensor dFresh = gradHy * (1 - in) * (1 - fresh * fresh);
  const Tensor dReset = dFresh * hidden * reset * (1 - reset);
  const Tensor gradInput = at::cat({dReset, dIn, dFresh}, 1);
  const Tensor gradHidden = at::cat({dReset, dIn, dFresh * reset}, 1);
  return {gradInput, gradHidden, gradHy * in, hasBias ? gradInput.sum(0) : Tensor(),
          hasBias ? gradHidden.sum(0) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_thnn_fused_lstm_cell", LstmCell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", LstmCellBackward);
  m.impl("_thnn_fused_gru_cell", GruCell);
  m.impl("_thnn_fused_gru_cell_backward", GruCellBackward);
}

}  // namespace
}  // namespace twin
