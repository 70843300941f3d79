// What every exported HCCL function shares: errors become codes and text, handles become communicators.
#pragma once
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "communicator.h"
#include "failure.h"
#include "hccl/hccl.h"
#include "twin/access.h"
#include "twin/stream.h"

#define HCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace twin::hccl {
// Runs the body of `function`; no exception leaves it.
template <typename Body>
HcclResult Guard(const char* function, Body body) noexcept {
  HcclResult code = HCCL_SUCCESS;
  try {
    std::string reason;
    try {
      body();
      return HCCL_SUCCESS;
    } catch (const Failure& failure) {
      code = failure.Code();
      reason = failure.what();
    } catch (const std::bad_alloc&) {
      code = HCCL_E_MEMORY;
      reason = "no host memory is left";
    } catch (const std::exception& error) {
      code = HCCL_E_INTERNAL;
      reason = error.what();
    }
    const std::string text = std::string(function) + ": " + reason;
    twinSetErrorMessage(text.c_str());
    aclAppLog(ACL_ERROR, function, __FILE__, __LINE__, "%s", text.c_str());
  } catch (const std::bad_alloc&) {  // not even for the text
  }
  return code;
}

void RequirePointer(const void* pointer, const char* name);

// The communicators behind the handles in use. A handle that was never made or is destroyed already is refused.
HcclComm MakeHandle(std::shared_ptr<Communicator> comm);
std::shared_ptr<Communicator> Find(HcclComm handle);
std::shared_ptr<Communicator> TakeHandle(HcclComm handle);
}  // namespace twin::hccl
