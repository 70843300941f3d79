#pragma once

#include <cstring>

#include "hstu/cpu/head.h"

namespace gr_ops::hstu {

// The kernels of a family for the instruction set that the attention takes (instruction_set, GR_OPS_ISA). Set has a
// function for each, in a file that is compiled for it (CMakeLists.txt): Set::baseline, what every processor of the
// architecture has, and on x86-64 Set::avx2, Set::avx512, Set::avx512_bf16 and Set::amx.
template <class Set>
const Set& chosen() {
  static const Set set = [] {
#if defined(__x86_64__)
    const char* name = instruction_set().name;
    if (std::strcmp(name, "amx") == 0) return Set::amx();
    if (std::strcmp(name, "avx512_bf16") == 0) return Set::avx512_bf16();
    if (std::strcmp(name, "avx512") == 0) return Set::avx512();
    if (std::strcmp(name, "avx2") == 0) return Set::avx2();
#endif
    return Set::baseline();
  }();
  return set;
}

}  // namespace gr_ops::hstu
