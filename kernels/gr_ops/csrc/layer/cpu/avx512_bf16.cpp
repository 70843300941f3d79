#include "layer/cpu/by_pairs.h"
#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet KernelSet::avx512_bf16() {
  KernelSet set = avx512();
  set.of_bfloat16 = kernels<ByPairs, ByVectors<hstu::BFloat16, float>>();
  return set;
}

}  // namespace gr_ops::layer
