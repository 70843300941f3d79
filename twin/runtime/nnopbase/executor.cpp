// aclOpExecutor: the second phase, and the way to give up a plan that was not run.
#include <exception>
#include <memory>

#include "interface.h"

extern "C" {

TWIN_API aclnnStatus twinRunExecutor(aclOpExecutor* executor, void* workspace, uint64_t workspaceSize,
                                     aclrtStream stream) {
  if (executor == nullptr) {
    twinSetErrorMessage("[twin] aclnn phase two: null executor");
    return kAclnnInternalNull;
  }
  const std::unique_ptr<aclOpExecutor> owned(executor);
  if (workspaceSize != 0 && workspace == nullptr) {
    twinSetErrorMessage("[twin] aclnn phase two: the workspace is null, its size is not 0");
    return kAclnnNullPointer;
  }
  try {
    return owned->run(workspace, workspaceSize, stream);
  } catch (const std::exception& fault) {
    twinSetErrorMessage(fault.what());
    return kAclnnRuntimeError;
  }
}

TWIN_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  delete executor;
  return kAclnnSuccess;
}
}
