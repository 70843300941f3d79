#include "embedding/rows/row_kernels.h"

#include <cstdlib>
#include <string>

namespace gr_ops::rows {

namespace generic {
extern const RowKernels kernels;
}
namespace avx2 {
extern const RowKernels kernels;
}
namespace avx512 {
extern const RowKernels kernels;
}

namespace {

// MXREC_CPU_CAPABILITY=generic or avx2 asks for less than the processor has; tests compare the sets with it.
const RowKernels& choose() {
  const char* variable = std::getenv("MXREC_CPU_CAPABILITY");
  const std::string asked = variable == nullptr ? "" : variable;
#if defined(__x86_64__)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && asked != "generic" && asked != "avx2") return avx512::kernels;
  if (has_avx2 && asked != "generic") return avx2::kernels;
#endif
  return generic::kernels;
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& chosen = choose();
  return chosen;
}

}  // namespace gr_ops::rows
