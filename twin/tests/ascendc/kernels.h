// Arguments and common parts of the test kernels: y[i] = x[i] + 1 over n floats, and broken versions of it.
#pragma once
#include "kernel_operator.h"

namespace cases {

using namespace AscendC;

constexpr uint32_t TILE = 256;  // floats

struct Tiling {
  uint32_t elements;  // per block
  uint32_t blocks;
};

struct Arguments {
  GM_ADDR x;
  GM_ADDR y;
  GM_ADDR workspace;
  GM_ADDR tiling;
};

inline GlobalTensor<float> Floats(GM_ADDR address, uint64_t count) {
  GlobalTensor<float> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<float*>(address), count);
  return tensor;
}

struct Share {
  GlobalTensor<float> x;
  GlobalTensor<float> y;
  uint32_t elements;
};

inline Share ShareOf(const Arguments& a) {
  REGISTER_TILING_DEFAULT(Tiling);
  GET_TILING_DATA(t, a.tiling);
  const uint64_t total = static_cast<uint64_t>(t.elements) * t.blocks;
  const uint64_t start = static_cast<uint64_t>(GetBlockIdx()) * t.elements;
  return {Floats(a.x, total)[start], Floats(a.y, total)[start], t.elements};
}

}  // namespace cases
