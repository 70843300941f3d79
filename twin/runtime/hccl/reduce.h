// Elementwise reduction of one buffer per rank.
#pragma once
#include <cstdint>
#include <vector>

#include "hccl/hccl_types.h"

namespace twin::hccl {
// Whether Atlas A2 and A3 reduce this type so, by the public documentation of HcclAllReduce (CANN 8.0 to 8.5).
bool Reduces(HcclDataType dataType, HcclReduceOp reduction);

// out[i] = inputs[0][i] op inputs[1][i] op ..., left to right in rank order. fp16 and bfp16 are accumulated in float
// and rounded once; integers wrap; max and min hand on a NaN. `out` may be one of the inputs.
void Reduce(HcclDataType dataType, HcclReduceOp reduction, const std::vector<const void*>& inputs, void* out,
            uint64_t count);
}  // namespace twin::hccl
