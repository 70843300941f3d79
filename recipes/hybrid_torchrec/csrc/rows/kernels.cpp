#include "rows/kernels.h"

#include <cstdlib>
#include <string>

namespace hybrid_torchrec::rows {

namespace generic {
extern const Kernels set;
}
namespace avx2 {
extern const Kernels set;
}
namespace avx512 {
extern const Kernels set;
}

namespace {

// MXREC_CPU_CAPABILITY=generic or avx2 asks for less than the processor has, as in gr_ops.
const Kernels& choose() {
  const char* variable = std::getenv("MXREC_CPU_CAPABILITY");
  const std::string asked = variable == nullptr ? "" : variable;
#if defined(__x86_64__)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && asked != "generic" && asked != "avx2") return avx512::set;
  if (has_avx2 && asked != "generic") return avx2::set;
#endif
  return generic::set;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace hybrid_torchrec::rows
