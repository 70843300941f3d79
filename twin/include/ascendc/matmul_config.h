// Types and configurations of Matmul.
#pragma once
#include "ascendc/types.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 8 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };
enum class BatchMode { NONE = 0, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class IterateOrder { ORDER_M = 0, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT };
enum class BatchOutMode { SINGLE_BATCH = 0, MULTI_BATCH };

struct MatmulConfig {
  bool multiLoads = false;       // MDL: panels of stepM x stepK, stepN x stepK
  bool intrinsicsLimit = false;  // rows further apart than 65535 elements
  bool enUnitFlag = true;
  bool isMsgReuse = true;
  bool enableMixDualMaster = false;
};

constexpr MatmulConfig GetNormalConfig(bool intrinsicsLimit = false, bool = false, bool = false,
                                       BatchMode = BatchMode::BATCH_LESS_THAN_L1, bool isMsgReuse = true,
                                       IterateOrder = IterateOrder::UNDEF, ScheduleType = ScheduleType::INNER_PRODUCT,
                                       bool enUnitFlag = true, bool enableMixDualMaster = false,
                                       BatchOutMode = BatchOutMode::SINGLE_BATCH) {
  MatmulConfig config;
  config.intrinsicsLimit = intrinsicsLimit;
  config.isMsgReuse = isMsgReuse;
  config.enUnitFlag = enUnitFlag;
  config.enableMixDualMaster = enableMixDualMaster;
  return config;
}

constexpr MatmulConfig GetMDLConfig(bool intrinsicsLimit = false, bool = false, uint32_t = 0, bool = false,
                                    bool = false, bool = false, bool enUnitFlag = false, bool isMsgReuse = true) {
  MatmulConfig config = GetNormalConfig(intrinsicsLimit);
  config.multiLoads = true;
  config.enUnitFlag = enUnitFlag;
  config.isMsgReuse = isMsgReuse;
  return config;
}

inline constexpr MatmulConfig CFG_NORM = GetNormalConfig();
inline constexpr MatmulConfig CFG_MDL = GetMDLConfig();

namespace AscendC {

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
  static constexpr TPosition pos = POSITION;
  static constexpr CubeFormat format = FORMAT;
  static constexpr bool isTrans = ISTRANS;
  using T = TYPE;
};

template <auto DataCopyOut = nullptr, auto CopyA1 = nullptr, auto CopyB1 = nullptr>
struct MatmulCallBackFunc {
  static constexpr bool any = !std::is_same<decltype(DataCopyOut), std::nullptr_t>::value ||
                              !std::is_same<decltype(CopyA1), std::nullptr_t>::value ||
                              !std::is_same<decltype(CopyB1), std::nullptr_t>::value;
};

}  // namespace AscendC
