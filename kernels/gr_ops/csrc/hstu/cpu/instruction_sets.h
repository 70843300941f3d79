#pragma once

#include "hstu/cpu/head.h"

// One function per file that is compiled for an instruction set of its own (CMakeLists.txt).
namespace gr_ops::hstu {

InstructionSet baseline_set();  // what every processor of the architecture has: SSE2, NEON

#if defined(__x86_64__)
InstructionSet avx2_set();         // with FMA and F16C
InstructionSet avx512_set();       // F, BW, VL, DQ
InstructionSet avx512_bf16_set();  // and dot products of bfloat16
InstructionSet amx_set();          // the same kernels of attention; others multiply by tiles
#endif

}  // namespace gr_ops::hstu
