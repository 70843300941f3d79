#include "row_math/row_kernels.h"

#include "row_math/instruction_set.h"

namespace row_math {

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

const RowKernels& choose() {
  switch (choose_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      return avx512::kernels;
    case InstructionSet::kAvx2:
      return avx2::kernels;
#endif
    default:
      return generic::kernels;
  }
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& chosen = choose();
  return chosen;
}

}  // namespace row_math
