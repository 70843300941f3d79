#include "common/settings.h"

#include <cstdlib>
#include <cstring>

namespace gr_ops {

bool value_checks_enabled() {
  const char* value = std::getenv("MXREC_CHECK");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace gr_ops
