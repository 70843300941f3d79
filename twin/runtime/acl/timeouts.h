// The limits that aclrtSetOpWaitTimeout and aclrtSetOpExecuteTimeOut set.
#pragma once
#include <optional>

#include "stream.h"

namespace twin {

// How long a stream waits for an event; nothing means for ever.
std::optional<Milliseconds> OpWaitTimeout();

}  // namespace twin
