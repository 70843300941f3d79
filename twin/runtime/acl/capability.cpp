// What the emulated chip and the emulated toolkit say they are.
#include <cstdio>
#include <cstring>

#include "device.h"
#include "failure.h"
#include "settings.h"
#include "soc.h"

using namespace twin;

// torch_npu takes only the names of real chips, so the emulation has to borrow one.
const char* aclrtGetSocName() { return GetSettings().soc.c_str(); }

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  if (value == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(value=null)");
  }
  if (const aclError error = CheckDeviceId(__func__, static_cast<int32_t>(deviceId)); error != ACL_SUCCESS) {
    return error;
  }
  const Soc& soc = SocByName(GetSettings().soc);
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = soc.cubeCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = soc.vectorCores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = soc.l2Bytes;
      return ACL_SUCCESS;
    default:
      return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(deviceInfo=%d): unknown", static_cast<int>(deviceInfo));
  }
}

// The emulation has no cores whose load could be measured.
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  if (utilizationInfo == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(utilizationInfo=null)");
  }
  if (const aclError error = CheckDeviceId(__func__, deviceId); error != ACL_SUCCESS) {
    return error;
  }
  utilizationInfo->cubeUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->vectorUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->aicpuUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  utilizationInfo->memoryUtilization = DEVICE_UTILIZATION_NOT_SUPPORT;
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
              "(mode=%d): only the inf/nan mode is emulated; unset INF_NAN_MODE_FORCE_DISABLE", static_cast<int>(mode));
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  if (version == nullptr || name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(name=%d, version=%p): null or unknown package",
                static_cast<int>(name), static_cast<void*>(version));
  }
  *version = {};
  const char* text = name == ACL_PKG_NAME_DRIVER ? "25.2.0" : GetSettings().cannVersion.c_str();
  std::snprintf(version->version, sizeof version->version, "%s", text);
  return ACL_SUCCESS;
}
