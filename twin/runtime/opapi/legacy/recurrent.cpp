// LSTM and GRU, layers and cells, which torch_npu runs by legacy operators. T steps, B batch, I inputs, H hidden.
// The gates are kept for the backward pass as they leave their activations.
#include <algorithm>

#include "legacy/operator.h"

namespace twin::opapi {
namespace {

using at::Tensor;

const std::vector<const char*> ATTRIBUTES = {"direction",   "gate_order", "activation",   "cell_clip",
                                             "forget_bias", "num_proj",   "use_peephole", "reset_after"};

void CheckAttributes(const LegacyArguments& call, bool bothDirections = false) {
  const auto direction = call.Text("direction", "UNIDIRECTIONAL");
  TORCH_CHECK(direction == "UNIDIRECTIONAL" || (bothDirections && direction == "REDIRECTIONAL"), "direction ",
              direction, " is not emulated");
  TORCH_CHECK(call.Text("activation", "tanh") == "tanh", "activation ", call.Text("activation", ""),
              " is not emulated");
  TORCH_CHECK(call.Number("cell_clip", -1) < 0 && call.Number("num_proj", 0) == 0 &&
                  call.Number("use_peephole", 0) == 0 && call.Number("forget_bias", 0) == 0,
              "cell_clip, num_proj, use_peephole and forget_bias are not emulated");
}

// Sequences of different lengths are given as a mask; a number in its place says nothing.
void CheckNoLengths(const LegacyArguments& call, size_t input) {
  TORCH_CHECK(!call.Has(input) || call.InOperand(input).shape.empty(),
              "sequences of different lengths (seq_length) are not emulated; pad them, or use TWIN_ATEN=override");
}

// Which quarter or third of the columns of the weights each letter's gate has.
class Gates {
 public:
  Gates(std::string order, const std::string& letters) : order_(std::move(order)) {
    std::replace(order_.begin(), order_.end(), 'c', 'j');
    for (const char letter : letters) {
      TORCH_CHECK(order_.size() == letters.size() && order_.find(letter) != std::string::npos, "gate_order is ",
                  order_);
    }
  }
  Tensor Of(const Tensor& all, char letter) const {
    const auto count = static_cast<int64_t>(order_.size());
    return all.chunk(count, 1).at(order_.find(letter));
  }
  Tensor Joined(const std::map<char, Tensor>& gates) const {
    std::vector<Tensor> parts;
    for (const char letter : order_) {
      parts.push_back(gates.at(letter));
    }
    return at::cat(parts, 1);
  }

 private:
  std::string order_;
};

Tensor Matrix(const Tensor& state) { return state.reshape({-1, state.size(-1)}); }

struct Lstm {
  Gates gates;
  Tensor x;       // [T, B, I]
  Tensor weight;  // [I + H, 4H]
  Tensor h, c;    // initial, [B, H]
  Tensor mask;    // [T, B, H]: 1 within a sequence, 0 behind its end; undefined where all have T steps
  bool backwards = false;

  // Steps in the order in which they are taken, or back in that of time.
  Tensor Ordered(const Tensor& steps) const { return backwards && steps.defined() ? steps.flip(0) : steps; }
};

// Packed sequences: torch_npu pads them and gives a mask. A number in its place says nothing.
Tensor MaskOf(const LegacyArguments& call, size_t input, const Tensor& x, const Tensor& h) {
  if (!call.Has(input) || call.InOperand(input).shape.empty()) {
    return {};
  }
  const std::vector<int64_t> wanted = {x.size(0), x.size(1), h.size(1)};
  const auto& given = call.InOperand(input).shape;
  TORCH_CHECK(given == wanted, "seq_length is a mask of shape ", wanted, ", not ", given,
              "; pad sequences of different lengths, or use TWIN_ATEN=override");
  return call.WideIn(input);
}

// Behind the end of a sequence its state stays.
Tensor Kept(const Tensor& mask, int64_t t, const Tensor& fresh, const Tensor& before) {
  return mask.defined() ? at::where(mask[t] != 0, fresh, before) : fresh;
}

void LstmForward(const LegacyArguments& call, const Lstm& lstm, const std::optional<Tensor>& bias) {
  Tensor h = lstm.h, c = lstm.c;
  const auto xs = lstm.Ordered(lstm.x), mask = lstm.Ordered(lstm.mask);
  std::vector<Tensor> ys;                    // zeros behind the end of a sequence
  std::vector<std::vector<Tensor>> kept(7);  // h, c, i, j, f, o, tanh(c) of each step
  for (int64_t t = 0; t < xs.size(0); ++t) {
    auto all = at::cat({xs[t], h}, 1).matmul(lstm.weight);
    all = bias ? all + *bias : all;
    const auto i = lstm.gates.Of(all, 'i').sigmoid(), j = lstm.gates.Of(all, 'j').tanh();
    const auto f = lstm.gates.Of(all, 'f').sigmoid(), o = lstm.gates.Of(all, 'o').sigmoid();
    const auto fresh = f * c + i * j, squashed = fresh.tanh(), y = o * squashed;
    ys.push_back(Kept(mask, t, y, at::zeros_like(y)));
    c = Kept(mask, t, fresh, c);
    h = Kept(mask, t, y, h);
    const Tensor step[] = {h, c, i, j, f, o, squashed};
    for (size_t n = 0; n < kept.size(); ++n) {
      kept[n].push_back(step[n]);
    }
  }
  call.Out(0, lstm.Ordered(at::stack(ys)));
  for (size_t n = 0; n < kept.size(); ++n) {
    call.Out(n + 1, lstm.Ordered(at::stack(kept[n])));
  }
}

struct LstmGradients {
  Tensor x, weight, bias, h, c;
};

// `first` is the place of h, c, dy, dh, dc, i, j, f, o, tanhc among the inputs.
LstmGradients LstmBackward(const LegacyArguments& call, const Lstm& lstm, size_t first) {
  const auto xs = lstm.Ordered(lstm.x), mask = lstm.Ordered(lstm.mask);
  const auto steps = [&](size_t n) {
    return lstm.Ordered(call.WideIn(first + n).reshape({lstm.x.size(0), lstm.x.size(1), -1}));
  };
  const auto hs = steps(0), cs = steps(1), dy = steps(2);
  auto dh = Matrix(call.WideIn(first + 3)), dc = Matrix(call.WideIn(first + 4));
  const auto is = steps(5), js = steps(6), fs = steps(7), os = steps(8), squashed = steps(9);
  const int64_t inputs = lstm.x.size(2);
  LstmGradients gradients{at::empty_like(lstm.x),
                          at::zeros_like(lstm.weight),
                          at::zeros({lstm.weight.size(1)}, lstm.weight.options()),
                          {},
                          {}};
  for (int64_t t = xs.size(0) - 1; t >= 0; --t) {
    const auto before = t > 0 ? hs[t - 1] : lstm.h;
    const auto &i = is[t], &j = js[t], &f = fs[t], &o = os[t];
    const auto zeros = at::zeros_like(dh);
    const auto whole = Kept(mask, t, dy[t] + dh, zeros);
    const auto passedH = Kept(mask, t, zeros, dh), passedC = Kept(mask, t, zeros, dc);
    dc = Kept(mask, t, dc + whole * o * (1 - squashed[t].square()), zeros);
    const auto d = lstm.gates.Joined({{'i', dc * j * i * (1 - i)},
                                      {'j', dc * i * (1 - j.square())},
                                      {'f', dc * (t > 0 ? cs[t - 1] : lstm.c) * f * (1 - f)},
                                      {'o', whole * squashed[t] * o * (1 - o)}});
    const auto back = d.matmul(lstm.weight.t());
    gradients.x[t].copy_(back.narrow(1, 0, inputs));
    dh = back.narrow(1, inputs, back.size(1) - inputs) + passedH;
    dc = dc * f + passedC;
    gradients.weight.add_(at::cat({xs[t], before}, 1).t().matmul(d));
    gradients.bias.add_(d.sum(0));
  }
  gradients.x = lstm.Ordered(gradients.x);
  gradients.h = dh;
  gradients.c = dc;
  return gradients;
}

bool Backwards(const LegacyArguments& call) { return call.Text("direction", "") == "REDIRECTIONAL"; }

Gates LstmGates(const LegacyArguments& call) { return {call.Text("gate_order", "ijfo"), "ijfo"}; }

// x, w, b, seq_length, h, c
const LegacyOperator lstm("DynamicRNN", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call, true);
  const auto x = call.WideIn(0), h = Matrix(call.WideIn(4));
  LstmForward(call,
              {LstmGates(call), x, call.WideIn(1), h, Matrix(call.WideIn(5)), MaskOf(call, 3, x, h), Backwards(call)},
              call.WideIn(2));
});

// x, w, b, y, initial h and c, then those of LstmBackward
const LegacyOperator lstmGrad("DynamicRNNGrad", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call, true);
  const auto x = call.WideIn(0), h = Matrix(call.WideIn(4));
  const Lstm lstm = {LstmGates(call), x, call.WideIn(1), h, Matrix(call.WideIn(5)), MaskOf(call, 16, x, h),
                     Backwards(call)};
  const auto gradients = LstmBackward(call, lstm, 6);
  call.Out(0, gradients.weight);
  call.Out(1, gradients.bias);
  call.Out(2, gradients.x);
  call.Out(3, gradients.h.reshape(call.OutShape(3)));
  call.Out(4, gradients.c.reshape(call.OutShape(4)));
});

// The cell: weights of inputs and of states apart. x, w_x, w_h, b, seq_length, h, c
const LegacyOperator cell("DynamicRNNV2", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call);
  CheckNoLengths(call, 4);
  const auto bias = call.Has(3) ? std::make_optional(call.WideIn(3)) : std::nullopt;
  LstmForward(call,
              {LstmGates(call),
               call.WideIn(0),
               at::cat({call.WideIn(1), call.WideIn(2)}, 0),
               Matrix(call.WideIn(5)),
               Matrix(call.WideIn(6)),
               {}},
              bias);
});

// x, w_x, w_h, y, initial h and c, then those of LstmBackward
const LegacyOperator cellGrad("DynamicRNNV2Grad", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call);
  CheckNoLengths(call, 16);
  const auto x = call.WideIn(0);
  const auto gradients = LstmBackward(call,
                                      {LstmGates(call),
                                       x.reshape({-1, Matrix(call.WideIn(4)).size(0), x.size(-1)}),
                                       at::cat({call.WideIn(1), call.WideIn(2)}, 0),
                                       Matrix(call.WideIn(4)),
                                       Matrix(call.WideIn(5)),
                                       {}},
                                      6);
  call.Out(0, gradients.weight.narrow(0, 0, x.size(-1)));
  call.Out(1, gradients.weight.narrow(0, x.size(-1), gradients.weight.size(0) - x.size(-1)));
  call.Out(2, gradients.bias);
  call.Out(3, gradients.x.reshape(call.OutShape(3)));
  call.Out(4, gradients.h.reshape(call.OutShape(4)));
  call.Out(5, gradients.c.reshape(call.OutShape(5)));
});

Gates GruGates(const LegacyArguments& call) {
  TORCH_CHECK(call.Number("reset_after", 1) != 0, "reset_after=false is not emulated");
  return {call.Text("gate_order", "zrh"), "zrh"};
}

// x, w_x, w_h, b_x, b_h, seq_length, h -> y, h, update, reset, new, the hidden part of new
const LegacyOperator gru("DynamicGRUV2", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call);
  CheckNoLengths(call, 5);
  const auto gates = GruGates(call);
  const auto ofInput = call.WideIn(1), ofHidden = call.WideIn(2);
  auto h = Matrix(call.WideIn(6));
  std::vector<std::vector<Tensor>> kept(5);
  for (const auto& x : call.WideIn(0).unbind(0)) {
    auto in = x.matmul(ofInput), hidden = h.matmul(ofHidden);
    in = call.Has(3) ? in + call.WideIn(3) : in;
    hidden = call.Has(4) ? hidden + call.WideIn(4) : hidden;
    const auto update = (gates.Of(in, 'z') + gates.Of(hidden, 'z')).sigmoid();
    const auto reset = (gates.Of(in, 'r') + gates.Of(hidden, 'r')).sigmoid();
    const auto part = gates.Of(hidden, 'h');
    const auto fresh = (gates.Of(in, 'h') + reset * part).tanh();
    h = fresh + update * (h - fresh);
    const Tensor step[] = {h, update, reset, fresh, part};
    for (size_t n = 0; n < kept.size(); ++n) {
      kept[n].push_back(step[n]);
    }
  }
  call.Out(0, at::stack(kept[0]));
  for (size_t n = 0; n < kept.size(); ++n) {
    call.Out(n + 1, at::stack(kept[n]));
  }
});

// x, w_x, w_h, y, initial h, h, dy, dh, update, reset, new, the hidden part of new, seq_length
const LegacyOperator gruGrad("DynamicGRUV2Grad", ATTRIBUTES, [](const LegacyArguments& call) {
  CheckAttributes(call);
  CheckNoLengths(call, 12);
  const auto gates = GruGates(call);
  const auto x = call.WideIn(0), ofInput = call.WideIn(1), ofHidden = call.WideIn(2);
  const auto initial = Matrix(call.WideIn(4)), hs = call.WideIn(5), dy = call.WideIn(6);
  auto dh = Matrix(call.WideIn(7));
  const auto updates = call.WideIn(8), resets = call.WideIn(9), news = call.WideIn(10), parts = call.WideIn(11);
  const auto dInput = at::zeros_like(ofInput), dHidden = at::zeros_like(ofHidden), dx = at::empty_like(x);
  const auto bInput = at::zeros({ofInput.size(1)}, x.options()), bHidden = at::zeros_like(bInput);
  for (int64_t t = x.size(0) - 1; t >= 0; --t) {
    const auto before = t > 0 ? hs[t - 1] : initial;
    const auto z = updates[t], r = resets[t], n = news[t];
    dh = dh + dy[t];
    const auto dn = dh * (1 - z) * (1 - n.square());
    const auto dz = dh * (before - n) * z * (1 - z), dr = dn * parts[t] * r * (1 - r);
    const auto in = gates.Joined({{'z', dz}, {'r', dr}, {'h', dn}});
    const auto hidden = gates.Joined({{'z', dz}, {'r', dr}, {'h', dn * r}});
    dx[t].copy_(in.matmul(ofInput.t()));
    dInput.add_(x[t].t().matmul(in));
    dHidden.add_(before.t().matmul(hidden));
    bInput.add_(in.sum(0));
    bHidden.add_(hidden.sum(0));
    dh = dh * z + hidden.matmul(ofHidden.t());
  }
  call.Out(0, dInput);
  call.Out(1, dHidden);
  call.Out(2, bInput.reshape(call.OutShape(2)));
  call.Out(3, bHidden.reshape(call.OutShape(3)));
  call.Out(4, dx);
  call.Out(5, dh.reshape(call.OutShape(5)));
});

}  // namespace
}  // namespace twin::opapi
