#include "communicator.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "failure.h"
#include "late_ranks.h"
#include "twin/stream.h"

namespace twin::hccl {
namespace {
using std::chrono::milliseconds;

constexpr milliseconds kRetiredGrace{30000};
constexpr milliseconds kFirstRetry{1};
constexpr milliseconds kLongestRetry{20};

int32_t AclCode(HcclResult code) {
  switch (code) {
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_REPORT_TIMEOUT;
    case HCCL_E_REMOTE:
      return ACL_ERROR_RT_SOCKET_CLOSE;
    case HCCL_E_MEMORY:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    default:
      return ACL_ERROR_RT_FAILURE;
  }
}

std::string Seconds(milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text + " s";
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}
}  // namespace

Communicator::Communicator(RootCard card, std::string name, uint32_t rank, uint32_t ranks, RootSide root)
    : name_(std::move(name)),
      rank_(rank),
      ranks_(ranks),
      limits_(LimitsFromEnvironment()),
      rendezvous_(std::make_unique<Rendezvous>(std::move(card), rank, ranks, std::move(root))),
      retired_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      links_(ranks) {
  if (!retired_) {
    throw Failure(HCCL_E_SYSCALL, "eventfd failed");
  }
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) {
      peers_.push_back(peer);
    }
  }
  // Connected from now on where the peer is there already, so that it sees this rank die before its first call.
  for (uint32_t peer = 0; peer < rank_; ++peer) {
    if (auto arrival = rendezvous_->TryConnect(peer)) {
      Join(peer, std::move(*arrival));
    }
  }
}

Communicator::~Communicator() {
  for (const auto& link : links_) {
    if (link) {
      link->Notify(FrameKind::Goodbye, "");
    }
  }
}

std::string Communicator::AsyncErrorText() const {
  const std::lock_guard<std::mutex> lock(textMutex_);
  return text_;
}

int32_t Communicator::Execute(const Call& call, const std::vector<uint32_t>& peers,
                              const std::function<void()>& body) noexcept {
  const std::lock_guard<std::mutex> lock(executing_);
  if (asyncError_ != HCCL_SUCCESS) {
    twinSetErrorMessage(AsyncErrorText().c_str());
    return AclCode(asyncError_);
  }
  HcclResult code = HCCL_SUCCESS;
  std::string text;
  Call running = call;
  try {
    Meet(peers);
    if (call.operation < Operation::Send) {
      running.sequence = ++sequence_;
    }
    body();
    calls_.clear();
    return 0;
  } catch (const Failure& failure) {
    code = failure.Code();
    text = Fail(code, running, failure.what());
  } catch (const std::bad_alloc&) {
    code = HCCL_E_MEMORY;
    text = Fail(code, running, "no host memory is left");
  } catch (const std::exception& error) {
    code = HCCL_E_INTERNAL;
    text = Fail(code, running, error.what());
  }
  twinSetErrorMessage(text.c_str());
  aclAppLog(ACL_ERROR, hccl::Name(call.operation), __FILE__, __LINE__, "%s", text.c_str());
  return AclCode(code);
}

std::string Communicator::Fail(HcclResult code, const Call& call, const std::string& reason) noexcept {
  std::string text = Describe(call) + " on communicator " + name_ + ", rank " + std::to_string(rank_) + " of " +
                     std::to_string(ranks_) + ": " + reason;
  {
    const std::lock_guard<std::mutex> lock(textMutex_);
    text_ = text;
  }
  asyncError_ = code;
  // The peers learn at once instead of by their own time limit.
  for (auto& link : links_) {
    if (link) {
      link->Notify(FrameKind::Abort, text);
      link.reset();
    }
  }
  if (rendezvous_) {
    TellLateRanks(std::move(rendezvous_), text, limits_.connect);
  }
  calls_.clear();
  return text;
}

void Communicator::Abandon() noexcept { rendezvous_->CloseList(); }

void Communicator::Retire() noexcept {
  const uint64_t one = 1;
  static_cast<void>(!write(retired_.Number(), &one, sizeof one));
}

milliseconds Communicator::Patience(milliseconds limit) const {
  pollfd retired{retired_.Number(), POLLIN, 0};
  return poll(&retired, 1, 0) == 1 ? std::min(limit, kRetiredGrace) : limit;
}

void Communicator::Join(uint32_t peer, Arrival arrival) {
  if (arrival.greeting.ranks != ranks_) {
    throw Failure(HCCL_E_PARA, "rank " + std::to_string(peer) + " made this communicator for " +
                                   std::to_string(arrival.greeting.ranks) + " ranks, this rank for " +
                                   std::to_string(ranks_));
  }
  if (peer >= ranks_ || peer == rank_ || links_[peer]) {
    throw Failure(HCCL_E_PARA, "a second process came as rank " + std::to_string(peer));
  }
  links_[peer] = std::make_unique<Link>(std::move(arrival.socket), peer, arrival.process);
}

void Communicator::Meet(const std::vector<uint32_t>& peers) {
  // The higher rank of a pair connects, the lower one accepts.
  const Clock::time_point start = Clock::now();
  milliseconds retry = kFirstRetry;
  bool joined = false;
  while (true) {
    std::vector<std::string> missing;
    while (auto arrival = rendezvous_->TryAccept()) {
      const uint32_t peer = arrival->greeting.rank;
      Join(peer, std::move(*arrival));
      joined = true;
    }
    for (const uint32_t peer : peers) {
      if (!links_[peer] && peer < rank_) {
        if (auto arrival = rendezvous_->TryConnect(peer)) {
          Join(peer, std::move(*arrival));
          joined = true;
        }
      }
      if (!links_[peer]) {
        missing.push_back("rank " + std::to_string(peer));
      }
    }
    if (missing.empty() && !joined) {
      return;
    }
    // A peer that is here may be gone again, or know already that one who is missing will not come.
    for (const uint32_t peer : peers) {
      if (links_[peer]) {
        links_[peer]->Hear();
      }
    }
    if (missing.empty()) {
      return;
    }
    const milliseconds limit = Patience(limits_.connect);
    if (Clock::now() - start >= limit) {
      throw Failure(HCCL_E_TIMEOUT, Joined(missing) + " did not join the communicator within " + Seconds(limit) +
                                        " (HCCL_CONNECT_TIMEOUT, TWIN_HCCL_TIMEOUT)");
    }
    auto waits = rendezvous_->Waits();
    static_cast<void>(poll(waits.data(), waits.size(), static_cast<int>(retry.count())));
    retry = std::min(retry * 2, kLongestRetry);
  }
}

void Communicator::Expect(uint32_t peer, const Call& call, uint64_t bytes) {
  calls_.push_back(std::make_unique<Call>());
  const Call* theirs = calls_.back().get();
  To(peer).Receive(FrameKind::Call, calls_.back().get(), sizeof(Call), [call, bytes, theirs, peer] {
    if (const auto reason = Disagreement(call, bytes, *theirs, peer)) {
      throw Failure(HCCL_E_PARA, "the ranks disagree: " + *reason + ", this rank called " + Describe(call));
    }
  });
}

void Communicator::Announce(uint32_t peer, const Call& call, uint64_t sent, uint64_t received) {
  calls_.push_back(std::make_unique<Call>(call));
  calls_.back()->payload = sent;
  To(peer).Send(FrameKind::Call, calls_.back().get(), sizeof(Call));
  Expect(peer, call, received);
}

void Communicator::AnnounceSend(uint32_t peer, Call call, uint64_t bytes) {
  call.operation = Operation::Send;
  call.sequence = ++sends_[peer];
  call.payload = bytes;
  calls_.push_back(std::make_unique<Call>(call));
  To(peer).Send(FrameKind::Call, calls_.back().get(), sizeof(Call));
}

void Communicator::AnnounceReceive(uint32_t peer, Call call, uint64_t bytes) {
  call.operation = Operation::Recv;
  call.sequence = ++receives_[peer];
  Expect(peer, call, bytes);
}

void Communicator::Wait(const std::vector<uint32_t>& peers) {
  Clock::time_point lastProgress = Clock::now();
  std::vector<pollfd> waits;
  while (true) {
    bool moved = false;
    waits.clear();
    for (const uint32_t peer : peers) {
      Link& link = To(peer);
      if (!link.Pending()) {
        continue;
      }
      moved |= link.Move();
      if (link.Pending()) {
        waits.push_back({link.Socket(), link.PollEvents(), 0});
      }
    }
    if (waits.empty()) {
      return;
    }
    if (moved) {
      lastProgress = Clock::now();
      continue;
    }
    const milliseconds limit = Patience(limits_.execute);
    const auto left = std::chrono::ceil<milliseconds>(lastProgress + limit - Clock::now());
    if (left.count() <= 0) {
      std::vector<std::string> complaints;
      for (const uint32_t peer : peers) {
        if (To(peer).Pending()) {
          complaints.push_back(To(peer).Complaint());
        }
      }
      throw Failure(HCCL_E_TIMEOUT, "no progress for " + Seconds(limit) +
                                        " (HCCL_EXEC_TIMEOUT, TWIN_HCCL_TIMEOUT): " + Joined(complaints));
    }
    if (limit == limits_.execute) {  // wakes up to shorten the wait once the handle is destroyed
      waits.push_back({retired_.Number(), POLLIN, 0});
    }
    const auto longest = std::min<int64_t>(left.count(), INT32_MAX);
    static_cast<void>(poll(waits.data(), waits.size(), static_cast<int>(longest)));
  }
}
}  // namespace twin::hccl
