// The handle functions of the aclnn protocol. No header of the wheel declares them.
#pragma once
#include <cstdint>

#include "twin/executor.h"
#include "twin/handles.h"
#include "twin/stream.h"

#define TWIN_API __attribute__((visibility("default")))

inline constexpr aclnnStatus kAclnnSuccess = 0;
inline constexpr aclnnStatus kAclnnNullPointer = 161001;
inline constexpr aclnnStatus kAclnnInvalid = 161002;
inline constexpr aclnnStatus kAclnnRuntimeError = 361001;
inline constexpr aclnnStatus kAclnnInternalNull = 561103;

namespace twin {

inline aclnnStatus RefuseNull(const char* text) {
  twinSetErrorMessage(text);
  return kAclnnNullPointer;
}

// Bytes of an element, 0 for a type that the twin does not know. Types narrower than a byte count as one.
std::size_t ElementSize(aclDataType type);

}  // namespace twin
