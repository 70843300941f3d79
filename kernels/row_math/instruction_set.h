#pragma once

#include <cstdlib>
#include <string>

namespace row_math {

// The instruction sets for which arithmetic on rows is compiled.
enum class InstructionSet { kGeneric, kAvx2, kAvx512 };

// The best one that the processor has. MXREC_CPU_CAPABILITY=generic or avx2 asks for less; tests compare the sets with
// it.
inline InstructionSet choose_instruction_set() {
  const char* variable = std::getenv("MXREC_CPU_CAPABILITY");
  const std::string asked = variable == nullptr ? "" : variable;
#if defined(__x86_64__)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && asked != "generic" && asked != "avx2") return InstructionSet::kAvx512;
  if (has_avx2 && asked != "generic") return InstructionSet::kAvx2;
#endif
  return InstructionSet::kGeneric;
}

}  // namespace row_math
