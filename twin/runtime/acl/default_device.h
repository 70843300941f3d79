// The device of threads that have set none. aclInit's configuration file may name it:
//   {"defaultDevice": {"default_device": "0"}}
// torch_npu passes such a file from toolkit 8.3.RC1 on, where it sets devices lazily.
#pragma once
#include <cstdint>

#include "acl/acl.h"

namespace twin {

// Reads the file; a null path leaves things as they are.
aclError ReadDefaultDevice(const char* function, const char* configPath);

// -1 when none is named.
int32_t DefaultDevice();

}  // namespace twin
