// A rank that gave up goes on to tell ranks that come late and connect to it why it will not meet them. They would wait
// for it until their own limit: that nobody listens any more looks as if nobody listened yet.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "rendezvous.h"

namespace twin::hccl {
// From a thread of its own, until `patience` has passed or the process ends.
void TellLateRanks(std::unique_ptr<Rendezvous> rendezvous, std::string reason,
                   std::chrono::milliseconds patience) noexcept;
}  // namespace twin::hccl
