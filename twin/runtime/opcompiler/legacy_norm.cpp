// torch_npu composes a norm of an order that is not 0, 1, 2 or infinite of legacy operators: the sum of |x|^p over
// axes, and its root. Sums are accumulated in double.
#include "legacy_norm.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "twin/attribute.h"

namespace twin {

namespace {

// Which dimensions are summed over; none named means all.
std::vector<bool> Summed(const aclopAttr* attributes, size_t rank) {
  const int64_t* axes = nullptr;
  const size_t count = twinAttributeIntegers(attributes, "axes", &axes);
  std::vector<bool> summed(rank, count == 0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    if (axis >= 0 && axis < static_cast<int64_t>(rank)) {
      summed[static_cast<size_t>(axis)] = true;
    }
  }
  return summed;
}

void Reduce(const LegacyData& x, const LegacyData& y, const std::vector<bool>& summed, double p) {
  std::vector<double> sums(static_cast<size_t>(y.Count()), 0.0);
  for (int64_t index = 0; index < x.Count(); ++index) {
    int64_t rest = index, place = 0, stride = 1;
    for (size_t dim = x.dims.size(); dim-- > 0;) {
      const int64_t coordinate = rest % x.dims[dim];
      rest /= x.dims[dim];
      if (!summed[dim]) {
        place += coordinate * stride;
        stride *= x.dims[dim];
      }
    }
    sums[static_cast<size_t>(place)] += std::pow(std::abs(LoadLegacy(x, index)), p);
  }
  for (size_t place = 0; place < sums.size(); ++place) {
    StoreLegacy(y, static_cast<int64_t>(place), sums[place]);
  }
}

int64_t Kept(const LegacyData& x, const std::vector<bool>& summed) {
  int64_t count = 1;
  for (size_t dim = 0; dim < x.dims.size(); ++dim) {
    count *= summed[dim] ? 1 : x.dims[dim];
  }
  return count;
}

}  // namespace

std::function<int32_t()> PlanLegacyNorm(const LegacyCall& call) {
  const std::string_view name = call.name == nullptr ? "" : call.name;
  const bool known = name == "LpNormReduceV2" || name == "LpNormUpdateV2" || name == "Cast";
  LegacyData x, y;
  if (!known || call.numInputs < 1 || call.numOutputs != 1 || !TakeLegacy(call.inputDesc[0], call.inputs[0], x) ||
      !TakeLegacy(call.outputDesc[0], call.outputs[0], y)) {
    return {};
  }
  double p = 1, epsilon = 0;
  if (name != "Cast" && (!twinAttributeNumber(call.attributes, "p", &p) || p == 0 || !std::isfinite(p))) {
    return {};
  }
  twinAttributeNumber(call.attributes, "epsilon", &epsilon);
  if (name == "LpNormReduceV2") {
    const std::vector<bool> summed = Summed(call.attributes, x.dims.size());
    if (Kept(x, summed) != y.Count()) {
      return {};
    }
    return [=] {
      Reduce(x, y, summed, p);
      return 0;
    };
  }
  if (x.Count() != y.Count()) {
    return {};
  }
  const bool cast = name == "Cast";
  return [=] {
    for (int64_t index = 0; index < x.Count(); ++index) {
      const double value = LoadLegacy(x, index);
      StoreLegacy(y, index, cast ? value : std::max(std::pow(value, 1 / p), epsilon));
    }
    return 0;
  };
}

}  // namespace twin
