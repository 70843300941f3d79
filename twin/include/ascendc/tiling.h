// Access to tiling data and tiling keys from the kernel. The builder defines, per compiled object:
// TWIN_OBJECT (its number), and a header with TwinDefaultTiling when the host registered a tiling class by macros.
#pragma once
#include "ascendc/core.h"

enum KernelMetaType {
  KERNEL_TYPE_AIV_ONLY = 0,
  KERNEL_TYPE_AIC_ONLY,
  KERNEL_TYPE_MIX_AIV_1_0,
  KERNEL_TYPE_MIX_AIC_1_0,
  KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2,
};

namespace twin {

template <typename Struct>
Struct LoadTiling(const __gm__ void* tiling) {
  Struct data;
  __builtin_memcpy(&data, Core::Current().TilingData(tiling, sizeof(Struct)), sizeof(Struct));
  return data;
}

void RegisterTilingKey(int object, uint64_t key);

// Instantiated for each key that a kernel tests, so that an unknown key is refused before the launch.
template <int object, uint64_t key>
struct TilingKeyUse {
  static bool Registered() {
    RegisterTilingKey(object, key);
    return true;
  }
  static inline const bool registered = Registered();
};

// Kernel types are part of a binary's description: the launch needs them before the kernel runs.
void RegisterTaskType(int object, bool anyKey, uint64_t key, int type);

template <int object, bool anyKey, uint64_t key, int type>
struct TaskTypeUse {
  static bool Registered() {
    RegisterTaskType(object, anyKey, key, type);
    return true;
  }
  static inline const bool registered = Registered();
};

template <int object, bool anyKey, uint64_t key, int type>
void SetTaskType() {
  if (TaskTypeUse<object, anyKey, key, type>::registered && (anyKey || Core::Current().TilingKey() == key)) {
    Core::Current().SetTaskType(type);
  }
}

// A kernel that registers Matmul objects and declares no type is of both kinds of core, two vector cores a cube core.
void RegisterCubeUse(int object);

template <int object>
struct CubeUse {
  static bool Registered() {
    RegisterCubeUse(object);
    return true;
  }
  static inline const bool registered = Registered();
};

template <int object>
void InferTaskType() {
  if (CubeUse<object>::registered) {
    Core::Current().InferTaskType();
  }
}

template <int object, uint64_t key>
bool TilingKeyIs() {
  return TilingKeyUse<object, key>::registered && Core::Current().TilingKey() == key;
}

}  // namespace twin

#ifndef TWIN_OBJECT
#define TWIN_OBJECT 0
#endif

#define TILING_KEY_VAR (::twin::Core::Current().TilingKey())
#define TILING_KEY_IS(key) (::twin::TilingKeyIs<TWIN_OBJECT, (key)>())
#define KERNEL_TASK_TYPE_DEFAULT(type) (::twin::SetTaskType<TWIN_OBJECT, true, 0, static_cast<int>(type)>())
#define KERNEL_TASK_TYPE(key, type) (::twin::SetTaskType<TWIN_OBJECT, false, (key), static_cast<int>(type)>())
#define REGISTER_TILING_DEFAULT(Struct) using TwinDefaultTiling = Struct
#define REGISTER_TILING_FOR_TILINGKEY(expression, Struct) \
  static_assert(sizeof(expression) > 1 && sizeof(Struct) > 0, "tiling class")
#ifndef TWIN_TILING_STRUCT  // the builder's, where a tiling template names one (ASCENDC_TPL_TILING_STRUCT_SEL)
#define TWIN_TILING_STRUCT TwinDefaultTiling
#endif
#define GET_TILING_DATA(name, tiling) auto name = ::twin::LoadTiling<TWIN_TILING_STRUCT>(tiling)
#define GET_TILING_DATA_WITH_STRUCT(Struct, name, tiling) auto name = ::twin::LoadTiling<Struct>(tiling)
#define GET_TILING_DATA_MEMBER(Struct, member, variable, tiling) \
  const auto variable = ::twin::LoadTiling<Struct>(tiling).member
