// The operands of a legacy operator as floating-point data.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "acl/acl_op.h"
#include "twin/legacy.h"

namespace twin {

struct LegacyData {
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

// Whether the operand is floating-point data that its buffer has room for.
bool TakeLegacy(const aclTensorDesc* desc, const aclDataBuffer* buffer, LegacyData& data);

double LoadLegacy(const LegacyData& data, int64_t index);
void StoreLegacy(const LegacyData& data, int64_t index, double value);

}  // namespace twin
