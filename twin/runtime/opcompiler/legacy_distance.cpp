// The distance of two vectors, dist = (sum |x1 - x2|^p)^(1/p), for pairs that torch_npu has laid out: x1 and x2 are
// [..., R1, R2, M] and dist is [..., R1, R2]. The attribute p is -1 for the greatest difference. Sums are in double.
#include "legacy_distance.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "twin/attribute.h"

namespace twin {

namespace {

double Distance(const LegacyData& x1, const LegacyData& x2, int64_t first, int64_t width, double p) {
  double sum = 0, greatest = 0;
  for (int64_t i = first; i < first + width; ++i) {
    const double size = std::abs(LoadLegacy(x1, i) - LoadLegacy(x2, i));
    greatest = std::isnan(size) ? size : std::max(greatest, size);
    sum += p == 0 ? (size == 0 ? 0 : 1) : p < 0 ? 0 : std::pow(size, p);
  }
  return p < 0 ? greatest : p == 0 ? sum : std::pow(sum, 1 / p);
}

// d dist / d x1 of one element of the difference. It is 0 where the distance has no derivative.
double Slope(double difference, double distance, double p) {
  if (p == 0 || difference == 0 || distance == 0) {
    return 0;
  }
  const double sign = difference < 0 ? -1 : 1, size = std::abs(difference);
  if (p < 0) {
    return size == distance ? sign : 0;
  }
  return sign * std::pow(size / distance, p - 1);
}

// The element of `target`, broadcast over R2 and leading dimensions, that belongs to element `index` of x [..., R1, R2,
// M].
int64_t Place(const LegacyData& target, const LegacyData& x, int64_t index) {
  int64_t place = 0, stride = 1;
  for (size_t back = 1; back <= x.dims.size(); ++back) {
    const int64_t size = x.dims[x.dims.size() - back];
    const int64_t coordinate = index % size;
    index /= size;
    const size_t own = back > 2 ? back - 1 : back;  // target has no R2
    if (back != 2 && own <= target.dims.size()) {
      const int64_t extent = target.dims[target.dims.size() - own];
      place += (extent == 1 ? 0 : coordinate) * stride;
      stride *= extent;
    }
  }
  return place;
}

void Gradient(const LegacyData (&in)[4], const LegacyData& out, double p) {
  const auto& [grad, x1, x2, distance] = in;
  std::vector<double> sums(static_cast<size_t>(out.Count()), 0.0);
  for (int64_t i = 0; i < x1.Count(); ++i) {
    // As narrow as the distance is, so that the greatest of the differences is known again.
    const double difference = static_cast<float>(LoadLegacy(x1, i) - LoadLegacy(x2, i));
    sums[static_cast<size_t>(Place(out, x1, i))] += LoadLegacy(grad, i) * Slope(difference, LoadLegacy(distance, i), p);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    StoreLegacy(out, static_cast<int64_t>(i), sums[i]);
  }
}

// Whether `out` is x without R2, some of its dimensions 1.
bool Broadcasts(const LegacyData& out, const LegacyData& x) {
  if (x.dims.size() < 3 || out.dims.size() < 2 || out.dims.size() >= x.dims.size()) {
    return false;
  }
  for (size_t back = 1; back <= out.dims.size(); ++back) {
    const int64_t extent = out.dims[out.dims.size() - back];
    const size_t there = back > 1 ? back + 1 : back;
    if (extent != 1 && extent != x.dims[x.dims.size() - there]) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::function<int32_t()> PlanLegacyDistance(const LegacyCall& call) {
  const std::string_view name = call.name == nullptr ? "" : call.name;
  const bool backward = name == "CdistGrad";
  const int inputs = backward ? 4 : 2;
  double p = 0;
  if ((!backward && name != "Cdist") || call.numInputs < inputs || call.numOutputs < 1 ||
      !twinAttributeNumber(call.attributes, "p", &p)) {
    return {};
  }
  LegacyData in[4], out;
  for (int i = 0; i < inputs; ++i) {
    if (!TakeLegacy(call.inputDesc[i], call.inputs[i], in[i]) || in[i].dims != in[0].dims || in[i].dims.empty()) {
      return {};
    }
  }
  if (!TakeLegacy(call.outputDesc[0], call.outputs[0], out)) {
    return {};
  }
  if (backward) {
    if (!Broadcasts(out, in[1])) {
      return {};
    }
    return [grad = in[0], x1 = in[1], x2 = in[2], distance = in[3], out, p] {
      Gradient({grad, x1, x2, distance}, out, p);
      return 0;
    };
  }
  const int64_t width = in[0].dims.back();
  if (out.Count() * width != in[0].Count()) {
    return {};
  }
  return [x1 = in[0], x2 = in[1], out, width, p] {
    for (int64_t pair = 0; pair < out.Count(); ++pair) {
      StoreLegacy(out, pair, Distance(x1, x2, pair * width, width, p));
    }
    return 0;
  };
}

}  // namespace twin
