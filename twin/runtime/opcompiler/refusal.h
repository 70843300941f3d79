// Failures of this library, told through libascendcl's error text.
#pragma once
#include <cstdio>

#include "acl/acl.h"
#include "twin/stream.h"

namespace twin {

template <typename... Arguments>
aclError Refuse(aclError code, const char* format, Arguments... arguments) {
  char text[1024];
  std::snprintf(text, sizeof text, format, arguments...);
  twinSetErrorMessage(text);
  return code;
}

}  // namespace twin
