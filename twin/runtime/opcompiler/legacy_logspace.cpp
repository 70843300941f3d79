// y[i] = base ^ (start + i * (end - start) / (steps - 1)). The input holds the places i, which half precision cannot
// tell apart beyond 2048: its size is all that is taken of it.
#include "legacy_logspace.h"

#include <cmath>
#include <string_view>

#include "twin/attribute.h"

namespace twin {

std::function<int32_t()> PlanLegacyLogspace(const LegacyCall& call) {
  const std::string_view name = call.name == nullptr ? "" : call.name;
  double start = 0, end = 0, steps = 0, base = 0;
  LegacyData places, y;
  if (name != "LogSpaceD" || call.numInputs < 1 || call.numOutputs < 1 ||
      !twinAttributeNumber(call.attributes, "start", &start) || !twinAttributeNumber(call.attributes, "end", &end) ||
      !twinAttributeNumber(call.attributes, "steps", &steps) || !twinAttributeNumber(call.attributes, "base", &base) ||
      !TakeLegacy(call.inputDesc[0], call.inputs[0], places) || !TakeLegacy(call.outputDesc[0], call.outputs[0], y) ||
      places.Count() != y.Count() || static_cast<double>(y.Count()) != steps) {
    return {};
  }
  return [=] {
    const int64_t count = y.Count();
    const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
    for (int64_t i = 0; i < count; ++i) {
      // From the nearer end, so that both ends are exact.
      const double exponent = i < count / 2 || count == 1 ? start + step * static_cast<double>(i)
                                                          : end - step * static_cast<double>(count - 1 - i);
      StoreLegacy(y, i, std::pow(base, exponent));
    }
    return 0;
  };
}

}  // namespace twin
