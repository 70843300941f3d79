#include "legacy_data.h"

#include <cstring>

#include "twin/float16.h"

namespace twin {

namespace {

constexpr size_t ElementSize(aclDataType type) { return type == ACL_FLOAT ? 4 : 2; }

}  // namespace

double LoadLegacy(const LegacyData& data, int64_t index) {
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

void StoreLegacy(const LegacyData& data, int64_t index, double value) {
  char* element = data.address + static_cast<size_t>(index) * ElementSize(data.type);
  const auto narrow = static_cast<float>(value);
  if (data.type == ACL_FLOAT) {
    std::memcpy(element, &narrow, sizeof narrow);
    return;
  }
  const uint16_t bits = data.type == ACL_FLOAT16 ? Half::FromFloat(narrow).bits : BFloat16::FromFloat(narrow).bits;
  std::memcpy(element, &bits, sizeof bits);
}

bool TakeLegacy(const aclTensorDesc* desc, const aclDataBuffer* buffer, LegacyData& data) {
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

}  // namespace twin
