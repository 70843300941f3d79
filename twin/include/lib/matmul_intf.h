// The high-level matrix product of mix kernels: GM and unified buffer operands in ND.
#pragma once
#include "ascendc/matmul.h"

namespace matmul = AscendC;
using AscendC::tiling::TCubeTiling;
