#include "call.h"

#include <memory>

#include <ATen/core/LegacyTypeDispatch.h>

namespace twin::opapi {
namespace {

constexpr aclnnStatus NULL_EXECUTOR = 561103;
constexpr aclnnStatus RUNTIME_FAILURE = 361001;
constexpr int32_t KERNEL_EXCEPTION = 507015;  // what a device reports when a kernel fails

// Queues the call on the stream. Its exceptions become the stream's failure. Accesses are told only where streams are
// strict.
aclnnStatus Launch(const char* operatorName, aclrtStream stream, const std::shared_ptr<const HeldCall>& call) {
  Accesses accesses;
  if (twinStrictStreams()) {
    call->AddTo(accesses);
  }
  const aclError error = Submit(stream, operatorName, accesses,
                                [operatorName, call] { return Compute(operatorName, [&] { call->Compute(); }); });
  return error == ACL_SUCCESS ? 0 : RUNTIME_FAILURE;
}

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

aclnnStatus Plan(const Signature& signature, c10::function_ref<std::unique_ptr<const HeldCall>()> hold,
                 uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* operatorName = signature.Function();
  try {
    const std::shared_ptr<const HeldCall> call = hold();
    signature.Count();
    if (twinRefuseFailedDevice() != 0) {
      return RUNTIME_FAILURE;
    }
    *workspaceSize = 0;
    *executor = new aclOpExecutor{operatorName, [operatorName, call](void*, uint64_t, aclrtStream stream) {
                                    return Launch(operatorName, stream, call);
                                  }};
    return 0;
  } catch (const WrongSignature& wrong) {
    return Refuse(operatorName, wrong.Status(), (wrong.what() + ("; " + signature.Text())).c_str());
  } catch (const Refusal& refusal) {
    return Refuse(operatorName, refusal.Status(), refusal.what());
  } catch (const std::exception& error) {
    return Refuse(operatorName, INVALID_ARGUMENT, error.what());
  }
}

aclnnStatus Execute(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) {
    return Refuse("aclnn phase two", NULL_EXECUTOR, "executor is null");
  }
  const std::unique_ptr<aclOpExecutor> owned(executor);
  return owned->run(workspace, workspaceSize, stream);
}

}  // namespace twin::opapi
