#include "hstu/cpu/instruction_sets.h"
#include "hstu/cpu/table.h"

namespace gr_ops::hstu {

InstructionSet avx512_bf16_set() {
  InstructionSet set = avx512_set();
  set.name = "avx512_bf16";
  set.of[static_cast<int>(Element::BFloat16)] = kernels<Paired>();
  return set;
}

InstructionSet amx_set() {
  InstructionSet set = avx512_bf16_set();
  set.name = "amx";
  return set;
}

}  // namespace gr_ops::hstu
