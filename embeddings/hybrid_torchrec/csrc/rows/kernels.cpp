#include "rows/kernels.h"

#include "row_math/instruction_set.h"

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

const Kernels& choose() {
  switch (gr_ops::rows::choose_instruction_set()) {
#if defined(__x86_64__)
    case gr_ops::rows::InstructionSet::kAvx512:
      return avx512::set;
    case gr_ops::rows::InstructionSet::kAvx2:
      return avx2::set;
#endif
    default:
      return generic::set;
  }
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace hybrid_torchrec::rows
