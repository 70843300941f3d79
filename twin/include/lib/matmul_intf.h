// The high-level matrix product of mix kernels.
#pragma once
#include "ascendc/matmul.h"

namespace AscendC {

namespace twin_detail {

inline void RegisterMatmul() {}

template <typename Object, typename Tiling, typename... Rest>
void RegisterMatmul(Object& object, Tiling tiling, Rest&&... rest) {
  object.Register(tiling);
  RegisterMatmul(rest...);
}

template <typename... Pairs>
void RegisterMatmuls(TPipe* pipe, const __gm__ void* workspace, Pairs&&... pairs) {
  auto& core = twin::Core::Current();
  if (pipe == nullptr || workspace != core.SystemWorkspace()) {
    core.Trap("E-32", "REGIST_MATMUL_OBJ needs the TPipe and GetSysWorkSpacePtr()");
  }
  RegisterMatmul(pairs...);
}

}  // namespace twin_detail

}  // namespace AscendC

namespace matmul = AscendC;
using AscendC::tiling::TCubeTiling;

#define REGIST_MATMUL_OBJ(tpipe, workspace, ...) \
  (::twin::InferTaskType<TWIN_OBJECT>(), ::AscendC::twin_detail::RegisterMatmuls(tpipe, workspace, __VA_ARGS__))
