#include "hstu/cpu/instruction_sets.h"
#include "hstu/cpu/table.h"

namespace gr_ops::hstu {

InstructionSet avx512_set() {
  return {"avx512",
          {kernels<Plain<float, float>>(), kernels<Plain<double, double>>(), kernels<Plain<Half, float>>(),
           kernels<Plain<BFloat16, float>>()}};
}

}  // namespace gr_ops::hstu
