#include "collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <set>
#include <string>

#include "failure.h"
#include "reduce.h"

namespace twin::hccl {
namespace {
const char* At(const void* buffer, uint64_t bytes) { return static_cast<const char*>(buffer) + bytes; }

char* At(void* buffer, uint64_t bytes) { return static_cast<char*>(buffer) + bytes; }

void CopyBytes(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0 && to != from) {
    std::memmove(to, from, bytes);
  }
}

bool Overlap(const void* a, uint64_t aBytes, const void* b, uint64_t bBytes) {
  const auto aStart = reinterpret_cast<uintptr_t>(a);
  const auto bStart = reinterpret_cast<uintptr_t>(b);
  return aStart < bStart + bBytes && bStart < aStart + aBytes;
}

// Room for one block of every rank, and the reduction over them.
class Blocks {
 public:
  Blocks(Communicator& comm, const Call& call, uint64_t elements)
      : comm_(comm),
        call_(call),
        blockBytes_(elements * ItemSize(call.dataType)),
        storage_(blockBytes_ * comm.Size()),
        inputs_(comm.Size()) {}

  void Receive(uint32_t peer, uint64_t elements) {
    char* room = storage_.data() + peer * blockBytes_;
    inputs_[peer] = room;
    comm_.To(peer).Receive(FrameKind::Data, room, elements * ItemSize(call_.dataType));
  }

  void Reduce(const void* own, void* out, uint64_t elements) {
    inputs_[comm_.Rank()] = own;
    hccl::Reduce(call_.dataType, static_cast<HcclReduceOp>(call_.reduction), inputs_, out, elements);
  }

 private:
  Communicator& comm_;
  const Call& call_;
  uint64_t blockBytes_;
  std::vector<char> storage_;
  std::vector<const void*> inputs_;
};

uint64_t BlockElements(const Call& call) { return kFrameBytes / ItemSize(call.dataType); }

// Part `rank` of `total` elements cut in `ranks` nearly equal parts.
struct Part {
  uint64_t start;
  uint64_t count;

  Part(uint64_t total, uint32_t rank, uint32_t ranks)
      : start(total / ranks * rank + std::min<uint64_t>(rank, total % ranks)),
        count(total / ranks + (rank < total % ranks ? 1 : 0)) {}
};
}  // namespace

Layout Layout::Even(uint32_t ranks, uint64_t count) {
  Layout layout{std::vector<uint64_t>(ranks, count), std::vector<uint64_t>(ranks)};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    layout.displacements[rank] = rank * count;
  }
  return layout;
}

uint64_t Layout::End() const {
  uint64_t end = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    end = counts[rank] > 0 ? std::max(end, displacements[rank] + counts[rank]) : end;
  }
  return end;
}

void AllReduce(Communicator& comm, Call call, const void* send, void* receive) {
  // Block by block: every rank reduces its part of the block over all ranks, then hands the result to the others.
  const uint32_t ranks = comm.Size();
  const uint64_t item = ItemSize(call.dataType);
  const uint64_t blockElements = BlockElements(call) * ranks;
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    comm.Announce(peer, call, call.count * item, call.count * item);
  }
  Blocks blocks(comm, call, std::min(BlockElements(call), call.count / ranks + 1));
  for (uint64_t done = 0; done < call.count; done += blockElements) {
    const uint64_t total = std::min(blockElements, call.count - done);
    const Part mine(total, comm.Rank(), ranks);
    for (const uint32_t peer : comm.Peers()) {
      const Part theirs(total, peer, ranks);
      comm.To(peer).Send(FrameKind::Data, At(send, (done + theirs.start) * item), theirs.count * item);
      blocks.Receive(peer, mine.count);
    }
    comm.Wait(comm.Peers());
    char* result = At(receive, (done + mine.start) * item);
    blocks.Reduce(At(send, (done + mine.start) * item), result, mine.count);
    for (const uint32_t peer : comm.Peers()) {
      const Part theirs(total, peer, ranks);
      comm.To(peer).Send(FrameKind::Data, result, mine.count * item);
      comm.To(peer).Receive(FrameKind::Data, At(receive, (done + theirs.start) * item), theirs.count * item);
    }
    comm.Wait(comm.Peers());
  }
  comm.Wait(comm.Peers());
}

void Broadcast(Communicator& comm, Call call, void* buffer) {
  const uint64_t bytes = call.count * ItemSize(call.dataType);
  const bool isRoot = comm.Rank() == call.root;
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    comm.Announce(peer, call, isRoot ? bytes : 0, peer == call.root ? bytes : 0);
    if (isRoot) {
      comm.To(peer).Send(FrameKind::Data, buffer, bytes);
    } else if (peer == call.root) {
      comm.To(peer).Receive(FrameKind::Data, buffer, bytes);
    }
  }
  comm.Wait(comm.Peers());
}

void ReduceScatter(Communicator& comm, Call call, const void* send, const Layout& parts, void* receive) {
  const uint64_t item = ItemSize(call.dataType);
  const uint64_t block = BlockElements(call);
  const uint64_t mine = parts.counts[comm.Rank()];
  const uint64_t longest = *std::max_element(parts.counts.begin(), parts.counts.end());
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    comm.Announce(peer, call, parts.counts[peer] * item, mine * item);
  }
  Blocks blocks(comm, call, std::min(block, mine));
  for (uint64_t done = 0; done < longest; done += block) {
    const uint64_t taken = done < mine ? std::min(block, mine - done) : 0;
    for (const uint32_t peer : comm.Peers()) {
      if (done < parts.counts[peer]) {
        comm.To(peer).Send(FrameKind::Data, At(send, (parts.displacements[peer] + done) * item),
                           std::min(block, parts.counts[peer] - done) * item);
      }
      blocks.Receive(peer, taken);
    }
    comm.Wait(comm.Peers());
    blocks.Reduce(At(send, (parts.displacements[comm.Rank()] + done) * item), At(receive, done * item), taken);
  }
  comm.Wait(comm.Peers());
}

void AllGather(Communicator& comm, Call call, const void* send, void* receive, const Layout& parts) {
  const uint64_t item = ItemSize(call.dataType);
  const uint64_t mine = parts.counts[comm.Rank()] * item;
  char* own = At(receive, parts.displacements[comm.Rank()] * item);
  CopyBytes(own, send, mine);  // sent from here, so that `send` may lie anywhere in `receive`
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    const uint64_t theirs = parts.counts[peer] * item;
    comm.Announce(peer, call, mine, theirs);
    comm.To(peer).Send(FrameKind::Data, own, mine);
    comm.To(peer).Receive(FrameKind::Data, At(receive, parts.displacements[peer] * item), theirs);
  }
  comm.Wait(comm.Peers());
}

void ReduceToRoot(Communicator& comm, Call call, const void* send, void* receive) {
  const uint64_t item = ItemSize(call.dataType);
  const uint64_t block = BlockElements(call);
  const uint64_t bytes = call.count * item;
  const bool isRoot = comm.Rank() == call.root;
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    comm.Announce(peer, call, peer == call.root ? bytes : 0, isRoot ? bytes : 0);
    if (peer == call.root) {
      comm.To(peer).Send(FrameKind::Data, send, bytes);
    }
  }
  if (isRoot) {
    Blocks blocks(comm, call, std::min(block, call.count));
    for (uint64_t done = 0; done < call.count; done += block) {
      const uint64_t taken = std::min(block, call.count - done);
      for (const uint32_t peer : comm.Peers()) {
        blocks.Receive(peer, taken);
      }
      comm.Wait(comm.Peers());
      blocks.Reduce(At(send, done * item), At(receive, done * item), taken);
    }
  }
  comm.Wait(comm.Peers());
}

void Scatter(Communicator& comm, Call call, const void* send, void* receive) {
  const uint64_t bytes = call.count * ItemSize(call.dataType);
  const bool isRoot = comm.Rank() == call.root;
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    comm.Announce(peer, call, isRoot ? bytes : 0, peer == call.root ? bytes : 0);
    if (isRoot) {
      comm.To(peer).Send(FrameKind::Data, At(send, peer * bytes), bytes);
    } else if (peer == call.root) {
      comm.To(peer).Receive(FrameKind::Data, receive, bytes);
    }
  }
  comm.Wait(comm.Peers());
  if (isRoot) {
    CopyBytes(receive, At(send, comm.Rank() * bytes), bytes);
  }
}

void AlltoAll(Communicator& comm, Call call, const void* send, const Layout& sent, void* receive,
              const Layout& received) {
  const uint64_t item = ItemSize(call.dataType);
  const uint64_t sendBytes = sent.End() * item;
  std::vector<char> staged;
  if (Overlap(send, sendBytes, receive, received.End() * item)) {
    staged.assign(At(send, 0), At(send, sendBytes));
    send = staged.data();
  }
  call.sequence = comm.Sequence();
  for (const uint32_t peer : comm.Peers()) {
    const uint64_t out = sent.counts[peer] * item;
    const uint64_t in = received.counts[peer] * item;
    comm.Announce(peer, call, out, in);
    comm.To(peer).Send(FrameKind::Data, At(send, sent.displacements[peer] * item), out);
    comm.To(peer).Receive(FrameKind::Data, At(receive, received.displacements[peer] * item), in);
  }
  comm.Wait(comm.Peers());
  CopyBytes(At(receive, received.displacements[comm.Rank()] * item), At(send, sent.displacements[comm.Rank()] * item),
            sent.counts[comm.Rank()] * item);
}

void Exchange(Communicator& comm, const std::vector<Transfer>& transfers) {
  std::set<uint32_t> peers;
  std::deque<const Transfer*> sentToSelf;
  std::deque<const Transfer*> receivedFromSelf;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == comm.Rank()) {
      (transfer.sends ? sentToSelf : receivedFromSelf).push_back(&transfer);
      continue;
    }
    peers.insert(transfer.peer);
    Call call;
    call.dataType = transfer.dataType;
    call.count = transfer.count;
    const uint64_t bytes = transfer.count * ItemSize(transfer.dataType);
    if (transfer.sends) {
      comm.AnnounceSend(transfer.peer, call, bytes);
      comm.To(transfer.peer).Send(FrameKind::Data, transfer.buffer, bytes);
    } else {
      comm.AnnounceReceive(transfer.peer, call, bytes);
      comm.To(transfer.peer).Receive(FrameKind::Data, transfer.buffer, bytes);
    }
  }
  for (std::size_t i = 0; i < sentToSelf.size(); ++i) {
    CopyBytes(receivedFromSelf[i]->buffer, sentToSelf[i]->buffer,
              sentToSelf[i]->count * ItemSize(sentToSelf[i]->dataType));
  }
  comm.Wait({peers.begin(), peers.end()});
}
}  // namespace twin::hccl
