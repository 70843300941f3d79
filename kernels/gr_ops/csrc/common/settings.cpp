#include "common/settings.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace gr_ops {

bool value_checks_enabled() {
  const char* value = std::getenv("MXREC_CHECK");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

size_t kept_result_bytes() {
  constexpr size_t megabyte = size_t{1} << 20;
  constexpr size_t most = size_t{1} << 20;  // megabytes
  const char* value = std::getenv("MXREC_KEPT_RESULT_MB");
  if (value == nullptr) return 128 * megabyte;
  size_t megabytes = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), megabytes);
  TORCH_CHECK(error == std::errc() && *end == '\0' && megabytes <= most,
              "MXREC_KEPT_RESULT_MB must be a number of megabytes from 0 to ", most, ", got '", value, "'");
  return megabytes * megabyte;
}

}  // namespace gr_ops
