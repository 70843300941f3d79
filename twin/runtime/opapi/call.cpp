#include "call.h"

#include <memory>

#include <ATen/core/LegacyTypeDispatch.h>

namespace twin::opapi {
namespace {

constexpr aclnnStatus NULL_EXECUTOR = 561103;
constexpr int32_t KERNEL_EXCEPTION = 507015;  // what a device reports when a kernel fails

}  // namespace

int32_t Compute(const char* operatorName, const std::function<void()>& computation) {
  try {
    const at::AutoDispatchBelowADInplaceOrView belowAutograd;
    computation();
    return 0;
  } catch (const c10::Error& error) {
    twinSetErrorMessage((std::string(operatorName) + ": " + error.what_without_backtrace()).c_str());
  } catch (const std::exception& error) {
    twinSetErrorMessage((std::string(operatorName) + ": " + error.what()).c_str());
  }
  return KERNEL_EXCEPTION;
}

aclnnStatus Refuse(const char* operatorName, aclnnStatus status, const char* reason) {
  twinSetErrorMessage((std::string(operatorName) + ": " + reason).c_str());
  return status;
}

aclnnStatus Launch(const char* operatorName, aclrtStream stream, const Accesses& accesses,
                   std::function<void()> computation) {
  const aclError error = Submit(stream, operatorName, accesses, [operatorName, computation = std::move(computation)] {
    return Compute(operatorName, computation);
  });
  return error == ACL_SUCCESS ? 0 : RUNTIME_FAILURE;
}

aclnnStatus Execute(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) {
    return Refuse("aclnn phase two", NULL_EXECUTOR, "executor is null");
  }
  const std::unique_ptr<aclOpExecutor> owned(executor);
  return owned->run(workspace, workspaceSize, stream);
}

}  // namespace twin::opapi
