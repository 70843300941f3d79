// torch_npu composes a norm of an order that is not 0, 1, 2 or infinite of legacy operators: the sum of |x|^p over
// axes, and its root. Sums are accumulated in double.
#include "legacy_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "twin/attribute.h"
#include "twin/float16.h"

namespace twin {

namespace {

struct Data {
  aclDataType type;
  std::vector<int64_t> dims;
  char* address;

  int64_t Count() const {
    int64_t count = 1;
    for (const int64_t dim : dims) {
      count *= dim;
    }
    return count;
  }
};

constexpr size_t ElementSize(aclDataType type) { return type == ACL_FLOAT ? 4 : 2; }

double Load(const Data& data, int64_t index) {
  const char* element = data.address + static_cast<size_t>(index) * ElementSize(data.type);
  if (data.type == ACL_FLOAT) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return data.type == ACL_FLOAT16 ? Half::ToFloat({bits}) : BFloat16::ToFloat({bits});
}

void Store(const Data& data, int64_t index, double value) {
  char* element = data.address + static_cast<size_t>(index) * ElementSize(data.type);
  const auto narrow = static_cast<float>(value);
  if (data.type == ACL_FLOAT) {
    std::memcpy(element, &narrow, sizeof narrow);
    return;
  }
  const uint16_t bits = data.type == ACL_FLOAT16 ? Half::FromFloat(narrow).bits : BFloat16::FromFloat(narrow).bits;
  std::memcpy(element, &bits, sizeof bits);
}

// Whether the operand is floating-point data that its buffer has room for.
bool Take(const aclTensorDesc* desc, const aclDataBuffer* buffer, Data& data) {
  data.type = aclGetTensorDescType(desc);
  data.address = static_cast<char*>(aclGetDataBufferAddr(buffer));
  data.dims.resize(aclGetTensorDescNumDims(desc));
  for (size_t i = 0; i < data.dims.size(); ++i) {
    if (aclGetTensorDescDimV2(desc, i, &data.dims[i]) != ACL_SUCCESS) {
      return false;
    }
  }
  const bool floating = data.type == ACL_FLOAT || data.type == ACL_FLOAT16 || data.type == ACL_BF16;
  return floating && aclGetDataBufferSizeV2(buffer) >= static_cast<size_t>(data.Count()) * ElementSize(data.type);
}

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

void Reduce(const Data& x, const Data& y, const std::vector<bool>& summed, double p) {
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
    sums[static_cast<size_t>(place)] += std::pow(std::abs(Load(x, index)), p);
  }
  for (size_t place = 0; place < sums.size(); ++place) {
    Store(y, static_cast<int64_t>(place), sums[place]);
  }
}

int64_t Kept(const Data& x, const std::vector<bool>& summed) {
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
  Data x, y;
  if (!known || call.numInputs < 1 || call.numOutputs != 1 || !Take(call.inputDesc[0], call.inputs[0], x) ||
      !Take(call.outputDesc[0], call.outputs[0], y)) {
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
      const double value = Load(x, index);
      Store(y, index, cast ? value : std::max(std::pow(value, 1 / p), epsilon));
    }
    return 0;
  };
}

}  // namespace twin
