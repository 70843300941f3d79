#include <cstring>

#include "hstu/cpu/head.h"
#include "sampled_softmax/cpu/kernels.h"

namespace gr_ops::sampled_softmax {
namespace {

KernelSet choose(const char* name) {
#if defined(__x86_64__)
  if (std::strncmp(name, "avx512", 6) == 0) return avx512_set();
  if (std::strcmp(name, "avx2") == 0) return avx2_set();
#endif
  static_cast<void>(name);
  return baseline_set();
}

}  // namespace

const KernelSet& kernel_set() {
  static const KernelSet set = choose(hstu::instruction_set().name);
  return set;
}

}  // namespace gr_ops::sampled_softmax
