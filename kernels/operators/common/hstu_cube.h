// Forms of the cube's loads, by tiling key: rows of q, k, v further apart than 65535 elements need another one.
#pragma once
#include "lib/matmul_intf.h"

constexpr MatmulConfig NARROW_ROWS = GetNormalConfig();
constexpr MatmulConfig WIDE_ROWS = GetNormalConfig(true);
