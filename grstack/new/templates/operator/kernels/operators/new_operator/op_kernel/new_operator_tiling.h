// What the kernel is told by its host side. Plain data, read by the kernel as it stands.
#pragma once
#include <cstdint>

struct NewOperatorTilingData {
  int64_t elements;
  int64_t elementsPerCore;
  uint32_t tileElements;
  float factor;
};
