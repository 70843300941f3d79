#include "late_ranks.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "link.h"
#include "twin/block_signals.h"

namespace twin::hccl {
namespace {
using Clock = std::chrono::steady_clock;

void Tell(Rendezvous& rendezvous, const std::string& reason, Clock::time_point end) {
  while (Clock::now() < end) {
    while (auto arrival = rendezvous.TryAccept()) {
      Link(std::move(arrival->socket), arrival->greeting.rank, arrival->process).Notify(FrameKind::Abort, reason);
    }
    auto waits = rendezvous.Waits();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    static_cast<void>(poll(waits.data(), waits.size(), static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX))));
  }
}
}  // namespace

void TellLateRanks(std::unique_ptr<Rendezvous> rendezvous, std::string reason,
                   std::chrono::milliseconds patience) noexcept {
  try {
    const BlockSignals blocked;
    std::thread([rendezvous = std::move(rendezvous), reason = std::move(reason), end = Clock::now() + patience] {
      try {
        Tell(*rendezvous, reason, end);
      } catch (const std::exception&) {  // the listeners are broken: they close with the thread
      }
      rendezvous->CloseList();  // not before: a late rank finds this one by it
    }).detach();
  } catch (const std::exception&) {  // no thread: late ranks find out by their own limit
  }
}
}  // namespace twin::hccl
