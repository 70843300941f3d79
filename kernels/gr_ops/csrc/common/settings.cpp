#include "common/settings.h"

#include <cstdlib>
#include <cstring>

namespace gr_ops {

bool value_checks_enabled() {
  const char* value = std::getenv("MXREC_CHECK");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

size_t kept_result_bytes() {
  constexpr size_t megabyte = size_t{1} << 20;
  const char* value = std::getenv("MXREC_KEPT_RESULT_MB");
  return (value != nullptr ? std::strtoull(value, nullptr, 10) : 128) * megabyte;
}

}  // namespace gr_ops
