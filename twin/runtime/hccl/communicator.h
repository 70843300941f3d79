// One rank's side of a communicator: its links, its order of calls, and what became of it.
#pragma once
#include <acl/acl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call.h"
#include "descriptor.h"
#include "limits.h"
#include "link.h"
#include "rendezvous.h"

namespace twin::hccl {
class Communicator {
 public:
  // Returns before the peers have arrived. `root` is empty unless this process made the root information.
  Communicator(RootCard card, std::string name, uint32_t rank, uint32_t ranks, RootSide root);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t Rank() const { return rank_; }
  uint32_t Size() const { return ranks_; }
  const std::string& Name() const { return name_; }
  // Every rank but this one.
  const std::vector<uint32_t>& Peers() const { return peers_; }

  // Code and text of the failure that ended this communicator; HCCL_SUCCESS and "" while it works.
  HcclResult AsyncError() const { return asyncError_; }
  std::string AsyncErrorText() const;

  // Runs `body`, in which the rank exchanges data with `peers`; the caller is the worker of a stream. Returns 0 or
  // an acl error code whose text is set. After a failure each further call fails with the same code.
  int32_t Execute(const Call& call, const std::vector<uint32_t>& peers, const std::function<void()>& body) noexcept;

  // The handle was destroyed. Queued calls go on, but wait no longer than a grace for a peer that stands still.
  void Retire() noexcept;

  // Nobody shall come any more: not all ranks could be made.
  void Abandon() noexcept;

  // For use inside `body`:
  Link& To(uint32_t peer) { return *links_.at(peer); }
  // Tells `peer` which call this is and that `sent` bytes follow; expects the same call and `received` bytes.
  void Announce(uint32_t peer, const Call& call, uint64_t sent, uint64_t received);
  void AnnounceSend(uint32_t peer, Call call, uint64_t bytes);
  void AnnounceReceive(uint32_t peer, Call call, uint64_t bytes);
  // The calls of this communicator in which all ranks take part, this one included.
  uint64_t Sequence() const { return sequence_; }
  // Carries everything that is queued on the links of `peers`.
  void Wait(const std::vector<uint32_t>& peers);

 private:
  using Clock = std::chrono::steady_clock;

  void Meet(const std::vector<uint32_t>& peers);
  void Join(uint32_t peer, Arrival arrival);
  void Expect(uint32_t peer, const Call& call, uint64_t bytes);
  std::chrono::milliseconds Patience(std::chrono::milliseconds limit) const;
  std::string Fail(HcclResult code, const Call& call, const std::string& reason) noexcept;

  const std::string name_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const Limits limits_;
  std::vector<uint32_t> peers_;
  std::unique_ptr<Rendezvous> rendezvous_;  // until the communicator fails
  Descriptor retired_;                      // eventfd, readable after Retire()

  std::mutex executing_;  // one call at a time, even from two streams
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t sequence_ = 0;
  std::map<uint32_t, uint64_t> sends_;
  std::map<uint32_t, uint64_t> receives_;
  std::vector<std::unique_ptr<Call>> calls_;  // sent or awaited by the running call

  std::atomic<HcclResult> asyncError_{HCCL_SUCCESS};
  mutable std::mutex textMutex_;
  std::string text_;
};
}  // namespace twin::hccl
