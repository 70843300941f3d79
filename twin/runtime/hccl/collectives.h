// The algorithms, each run by all ranks of a communicator inside Communicator::Execute. Counts are elements.
#pragma once
#include <cstdint>
#include <vector>

#include "communicator.h"

namespace twin::hccl {
// Per rank: how many elements, and where they start in the buffer.
struct Layout {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> displacements;

  // `count` elements per rank, one after the other.
  static Layout Even(uint32_t ranks, uint64_t count);
  // First element behind the last one used.
  uint64_t End() const;
};

struct Transfer {
  uint32_t peer;
  void* buffer;
  uint64_t count;
  HcclDataType dataType;
  bool sends;
};

void AllReduce(Communicator& comm, Call call, const void* send, void* receive);
void Broadcast(Communicator& comm, Call call, void* buffer);
void ReduceScatter(Communicator& comm, Call call, const void* send, const Layout& parts, void* receive);
void AllGather(Communicator& comm, Call call, const void* send, void* receive, const Layout& parts);
void ReduceToRoot(Communicator& comm, Call call, const void* send, void* receive);
void Scatter(Communicator& comm, Call call, const void* send, void* receive);
void AlltoAll(Communicator& comm, Call call, const void* send, const Layout& sent, void* receive,
              const Layout& received);
// Starts all transfers before it waits for any; those between the same two ranks match in order.
void Exchange(Communicator& comm, const std::vector<Transfer>& transfers);
}  // namespace twin::hccl
