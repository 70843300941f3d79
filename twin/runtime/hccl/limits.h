// How long a rank waits for its peers.
#pragma once
#include <chrono>

namespace twin::hccl {
struct Limits {
  std::chrono::milliseconds connect;  // for a peer's side of the communicator to appear
  std::chrono::milliseconds execute;  // within a call, since the last byte moved
};

// TWIN_HCCL_TIMEOUT sets both; otherwise HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT; all in seconds, fractions allowed.
// Throws Failure for a value that is not a positive number.
Limits LimitsFromEnvironment();
}  // namespace twin::hccl
