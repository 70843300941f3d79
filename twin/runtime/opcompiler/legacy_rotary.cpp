// y = x * cos + turned(x) * sin, where turned(x) is the last dimension's second half, negated, before its first half.
// cos and sin have x's shape with some dimensions of 1, over which their gradients are summed (in double).
#include "legacy_rotary.h"

#include <string_view>

namespace twin {

namespace {

bool Broadcasts(const LegacyData& factor, const LegacyData& x) {
  bool fits = factor.dims.size() == x.dims.size() && !x.dims.empty();
  for (size_t dim = 0; fits && dim < x.dims.size(); ++dim) {
    fits = factor.dims[dim] == x.dims[dim] || (factor.dims[dim] == 1 && dim + 1 < x.dims.size());
  }
  return fits;
}

// The factor's element that belongs to element `index` of x.
int64_t Place(const LegacyData& factor, const LegacyData& x, int64_t index) {
  int64_t place = 0, stride = 1;
  for (size_t dim = x.dims.size(); dim-- > 0;) {
    const int64_t coordinate = index % x.dims[dim];
    index /= x.dims[dim];
    place += (factor.dims[dim] == 1 ? 0 : coordinate) * stride;
    stride *= factor.dims[dim];
  }
  return place;
}

struct Turn {
  int64_t partner;  // the element that is turned into this one
  double sign;
};

Turn Turned(int64_t index, int64_t width) {
  const bool first = index % width < width / 2;
  return first ? Turn{index + width / 2, -1.0} : Turn{index - width / 2, 1.0};
}

void Forward(const LegacyData& x, const LegacyData& cosine, const LegacyData& sine, const LegacyData& y) {
  const int64_t width = x.dims.back();
  for (int64_t i = 0; i < x.Count(); ++i) {
    const Turn turn = Turned(i, width);
    StoreLegacy(y, i,
                LoadLegacy(x, i) * LoadLegacy(cosine, Place(cosine, x, i)) +
                    turn.sign * LoadLegacy(x, turn.partner) * LoadLegacy(sine, Place(sine, x, i)));
  }
}

void Backward(const LegacyData& x, const LegacyData& cosine, const LegacyData& sine, const LegacyData& dy,
              const LegacyData& dx, const LegacyData& dcosine, const LegacyData& dsine) {
  const int64_t width = x.dims.back();
  std::vector<double> cosines(static_cast<size_t>(cosine.Count())), sines(static_cast<size_t>(sine.Count()));
  for (int64_t i = 0; i < x.Count(); ++i) {
    const Turn turn = Turned(i, width);
    const double grad = LoadLegacy(dy, i);
    const int64_t cosinePlace = Place(cosine, x, i), sinePlace = Place(sine, x, i);
    cosines[static_cast<size_t>(cosinePlace)] += grad * LoadLegacy(x, i);
    sines[static_cast<size_t>(sinePlace)] += grad * turn.sign * LoadLegacy(x, turn.partner);
    // x[i] reaches its own result by the cosine and its partner's by the sine, there with the partner's sign.
    const double partnerSine = LoadLegacy(sine, Place(sine, x, turn.partner));
    StoreLegacy(dx, i, grad * LoadLegacy(cosine, cosinePlace) - turn.sign * LoadLegacy(dy, turn.partner) * partnerSine);
  }
  for (int64_t i = 0; i < cosine.Count(); ++i) {
    StoreLegacy(dcosine, i, cosines[static_cast<size_t>(i)]);
  }
  for (int64_t i = 0; i < sine.Count(); ++i) {
    StoreLegacy(dsine, i, sines[static_cast<size_t>(i)]);
  }
}

}  // namespace

std::function<int32_t()> PlanLegacyRotary(const LegacyCall& call) {
  const std::string_view name = call.name == nullptr ? "" : call.name;
  const bool grad = name == "RotaryMulGrad";
  const int inputs = grad ? 4 : 3, outputs = grad ? 3 : 1;
  if ((!grad && name != "RotaryMul") || call.numInputs < inputs || call.numOutputs < outputs) {
    return {};
  }
  LegacyData in[4], out[3];
  for (int i = 0; i < inputs; ++i) {
    if (!TakeLegacy(call.inputDesc[i], call.inputs[i], in[i])) {
      return {};
    }
  }
  for (int i = 0; i < outputs; ++i) {
    if (!TakeLegacy(call.outputDesc[i], call.outputs[i], out[i])) {
      return {};
    }
  }
  const LegacyData &x = in[0], &cosine = in[1], &sine = in[2];
  bool fits = Broadcasts(cosine, x) && Broadcasts(sine, x) && x.dims.back() % 2 == 0 && out[0].Count() == x.Count();
  fits = fits &&
         (!grad || (in[3].Count() == x.Count() && out[1].Count() == cosine.Count() && out[2].Count() == sine.Count()));
  if (!fits) {
    return {};
  }
  if (!grad) {
    return [x, cosine, sine, y = out[0]] {
      Forward(x, cosine, sine, y);
      return 0;
    };
  }
  return [x, cosine, sine, dy = in[3], dx = out[0], dcosine = out[1], dsine = out[2]] {
    Backward(x, cosine, sine, dy, dx, dcosine, dsine);
    return 0;
  };
}

}  // namespace twin
