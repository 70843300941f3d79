// PlatformAscendC: the machine as tiling functions see it.
#pragma once
#include "exe_graph/runtime/op_call.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };
enum class SocVersion {
  ASCEND910 = 0,
  ASCEND910B,
  ASCEND310P,
  ASCEND310B,
  ASCEND910_93,
  ASCEND910_95,
  RESERVED_VERSION = 99999
};

class PlatformAscendC {
 public:
  explicit PlatformAscendC(fe::PlatFormInfos* info) : info_(*info) {}
  uint32_t GetCoreNum() const { return info_.vectorCores; }
  uint32_t GetCoreNumAiv() const { return info_.vectorCores; }
  uint32_t GetCoreNumAic() const { return info_.cubeCores; }
  uint32_t GetCoreNumVector() const { return 0; }
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t, uint32_t) const { return (slices + 1) / 2; }
  uint32_t GetLibApiWorkSpaceSize() const { return 16777216; }
  void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const {
    switch (type) {
      case CoreMemType::L0_A:
      case CoreMemType::L0_B:
        size = 65536;
        break;
      case CoreMemType::L0_C:
        size = 131072;
        break;
      case CoreMemType::L1:
        size = 524288;
        break;
      case CoreMemType::L2:
        size = info_.l2Bytes;
        break;
      case CoreMemType::UB:
        size = 196608;
        break;
      case CoreMemType::FB:
        size = 7168;
        break;
      case CoreMemType::BT:
        size = 1024;
        break;
      default:
        size = 0;
        break;
    }
  }
  SocVersion GetSocVersion() const {
    return info_.soc.rfind("Ascend310P", 0) == 0 ? SocVersion::ASCEND310P : SocVersion::ASCEND910B;
  }

 private:
  fe::PlatFormInfos info_;
};

}  // namespace platform_ascendc
