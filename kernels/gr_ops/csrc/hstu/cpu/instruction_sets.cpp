#include "hstu/cpu/instruction_sets.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

namespace gr_ops::hstu {
namespace {

InstructionSet choose(const std::string& wanted) {
  const bool any = wanted.empty();
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  if (avx512_bf16 && (any || wanted == "avx512_bf16")) return avx512_bf16_set();
  if (avx512 && (any || wanted == "avx512")) return avx512_set();
  if (avx2 && (any || wanted == "avx2")) return avx2_set();
#endif
  TORCH_CHECK(any || wanted == "baseline", "GR_OPS_ISA: this processor does not have \"", wanted,
              "\"; expected one of baseline, avx2, avx512, avx512_bf16 that it has");
  return baseline_set();
}

}  // namespace

const InstructionSet& instruction_set() {
  static const InstructionSet set = [] {
    const char* wanted = std::getenv("GR_OPS_ISA");
    return choose(wanted == nullptr ? "" : wanted);
  }();
  return set;
}

}  // namespace gr_ops::hstu
