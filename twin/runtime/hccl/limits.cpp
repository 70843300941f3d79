#include "limits.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "failure.h"

namespace twin::hccl {
namespace {
// The emulated ranks are slow and unequal, so the wait for a peer's communicator is longer than CANN's 120 s.
constexpr std::chrono::seconds kConnect{600};
constexpr std::chrono::seconds kExecute{1836};
constexpr double kLongest = 1e9;

std::optional<std::chrono::milliseconds> Seconds(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  char* end = nullptr;
  errno = 0;
  const double seconds = std::strtod(text, &end);
  if (errno != 0 || *end != '\0' || !(seconds > 0) || seconds > kLongest) {
    throw Failure(HCCL_E_PARA, std::string(variable) + "=" + text + " is not a positive number of seconds");
  }
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}
}  // namespace

Limits LimitsFromEnvironment() {
  if (const auto both = Seconds("TWIN_HCCL_TIMEOUT")) {
    return {*both, *both};
  }
  return {Seconds("HCCL_CONNECT_TIMEOUT").value_or(kConnect), Seconds("HCCL_EXEC_TIMEOUT").value_or(kExecute)};
}
}  // namespace twin::hccl
