#include "hstu/cpu/instruction_sets.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gr_ops::hstu {
namespace {

#if defined(__x86_64__)
// Linux saves the registers of tiles for processes alone that ask for them: these and all of their threads.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

InstructionSet choose(const std::string& wanted) {
  const bool any = wanted.empty();
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  const bool avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  const bool amx = avx512_bf16 && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  if (amx && (any || wanted == "amx") && may_use_tiles()) return amx_set();
  if (avx512_bf16 && (any || wanted == "avx512_bf16")) return avx512_bf16_set();
  if (avx512 && (any || wanted == "avx512")) return avx512_set();
  if (avx2 && (any || wanted == "avx2")) return avx2_set();
#endif
  TORCH_CHECK(any || wanted == "baseline", "GR_OPS_ISA: this processor does not have \"", wanted,
              "\"; expected one of baseline, avx2, avx512, avx512_bf16, amx that it has");
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
