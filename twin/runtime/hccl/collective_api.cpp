// HCCL functions that move data: arguments are checked here, the work is queued on the stream.
#include <limits>
#include <utility>
#include <vector>

#include "collectives.h"
#include "entry.h"
#include "reduce.h"

namespace twin::hccl {
namespace {
using Handle = std::shared_ptr<Communicator>;

uint64_t Bytes(uint64_t elements, HcclDataType dataType) {
  const uint64_t item = ItemSize(dataType);
  if (elements > std::numeric_limits<uint64_t>::max() / item) {
    throw Failure(HCCL_E_PARA, std::to_string(elements) + " elements are more than memory can hold");
  }
  return elements * item;
}

void RequireDataType(HcclDataType dataType) {
  if (!IsValid(dataType)) {
    throw Failure(HCCL_E_PARA, "data type " + std::to_string(dataType) + " is unknown");
  }
}

void RequireReduction(HcclReduceOp reduction, HcclDataType dataType) {
  if (reduction < HCCL_REDUCE_SUM || reduction >= HCCL_REDUCE_RESERVED) {
    throw Failure(HCCL_E_PARA, "reduction " + std::to_string(reduction) + " is unknown");
  }
  if (!Reduces(dataType, reduction)) {
    throw Failure(HCCL_E_NOT_SUPPORT,
                  std::string("Atlas A2 and A3 do not reduce ") + Name(dataType) + " by " + Name(reduction));
  }
}

void RequireRank(const Communicator& comm, uint32_t rank, const char* name) {
  if (rank >= comm.Size()) {
    throw Failure(HCCL_E_PARA, std::string(name) + " " + std::to_string(rank) + " is not among the " +
                                   std::to_string(comm.Size()) + " ranks");
  }
}

// The device memory that a call reads and writes.
class Buffers {
 public:
  Buffers& Reads(const void* buffer, uint64_t elements, HcclDataType dataType, const char* name) {
    return Add(buffer, elements, dataType, name, false);
  }
  Buffers& Writes(const void* buffer, uint64_t elements, HcclDataType dataType, const char* name) {
    return Add(buffer, elements, dataType, name, true);
  }
  const Accesses& All() const { return accesses_; }

 private:
  // A host pointer, or a count beyond the allocation, would be a fault of the DMA engine on hardware.
  Buffers& Add(const void* buffer, uint64_t elements, HcclDataType dataType, const char* name, bool writes) {
    const uint64_t bytes = Bytes(elements, dataType);
    if (bytes == 0) {
      return *this;
    }
    RequirePointer(buffer, name);
    const void* start = nullptr;
    std::size_t size = 0;
    if (!twinDeviceAllocation(buffer, bytes, &start, &size)) {
      throw Failure(HCCL_E_PARA, std::string(name) + " with " + std::to_string(bytes) +
                                     " bytes is not within one allocation of device memory");
    }
    if (twinStrictStreams()) {
      accesses_.Add(buffer, bytes, writes);
    }
    return *this;
  }

  Accesses accesses_;
};

uint64_t PerRank(const Communicator& comm, uint64_t count) {
  if (count > std::numeric_limits<uint64_t>::max() / comm.Size()) {
    throw Failure(HCCL_E_PARA, std::to_string(count) + " elements per rank are more than memory can hold");
  }
  return count * comm.Size();
}

// `counts` and `displacements` point to host arrays of uint64, one entry per rank; copied, since the caller may free
// them before the stream comes to this call.
Layout ReadLayout(const Communicator& comm, const void* counts, const void* displacements, const char* name) {
  RequirePointer(counts, name);
  RequirePointer(displacements, name);
  const auto* first = static_cast<const uint64_t*>(counts);
  const auto* start = static_cast<const uint64_t*>(displacements);
  Layout layout{{first, first + comm.Size()}, {start, start + comm.Size()}};
  for (uint32_t rank = 0; rank < comm.Size(); ++rank) {
    if (layout.counts[rank] > std::numeric_limits<uint64_t>::max() - layout.displacements[rank]) {
      throw Failure(HCCL_E_PARA, std::string(name) + " of rank " + std::to_string(rank) + " overflow");
    }
  }
  return layout;
}

Call MakeCall(Operation operation, HcclDataType dataType, uint64_t count) {
  RequireDataType(dataType);
  Call call;
  call.operation = operation;
  call.dataType = dataType;
  call.count = count;
  return call;
}

void Submit(Handle comm, const Call& call, std::vector<uint32_t> peers, const Buffers& buffers, aclrtStream stream,
            std::function<void(Communicator&)> body) {
  if (comm->AsyncError() != HCCL_SUCCESS) {
    throw Failure(comm->AsyncError(), "the communicator has failed before: " + comm->AsyncErrorText());
  }
  const aclError status =
      twin::Submit(stream, Name(call.operation), buffers.All(),
                   [comm = std::move(comm), call, peers = std::move(peers), body = std::move(body)] {
                     return comm->Execute(call, peers, [&] { body(*comm); });
                   });
  if (status != ACL_SUCCESS) {
    throw Failure(HCCL_E_RUNTIME, "the stream does not take the call: " + std::string(aclGetRecentErrMsg()));
  }
}

void SubmitToAll(Handle comm, const Call& call, const Buffers& buffers, aclrtStream stream,
                 std::function<void(Communicator&)> body) {
  std::vector<uint32_t> peers = comm->Peers();
  Submit(std::move(comm), call, std::move(peers), buffers, stream, std::move(body));
}

void SubmitTransfers(Handle comm, Operation operation, std::vector<Transfer> transfers, aclrtStream stream) {
  std::vector<uint32_t> peers;
  Buffers buffers;
  for (const Transfer& transfer : transfers) {
    RequireRank(*comm, transfer.peer, "the remote rank");
    if (transfer.sends) {
      buffers.Reads(transfer.buffer, transfer.count, transfer.dataType, "buf");
    } else {
      buffers.Writes(transfer.buffer, transfer.count, transfer.dataType, "buf");
    }
    if (transfer.peer != comm->Rank()) {
      peers.push_back(transfer.peer);
    }
  }
  Call call;
  call.operation = operation;
  if (operation != Operation::BatchSendRecv) {
    call = MakeCall(operation, transfers.front().dataType, transfers.front().count);
  }
  Submit(std::move(comm), call, std::move(peers), buffers, stream,
         [transfers = std::move(transfers)](Communicator& running) { Exchange(running, transfers); });
}

// Transfers of a batch from this rank to itself must pair up here: no peer will complain.
void RequireSelfPairs(uint32_t rank, const std::vector<Transfer>& transfers) {
  std::vector<const Transfer*> sends;
  std::vector<const Transfer*> receives;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank) {
      (transfer.sends ? sends : receives).push_back(&transfer);
    }
  }
  bool paired = sends.size() == receives.size();
  for (std::size_t i = 0; paired && i < sends.size(); ++i) {
    paired = sends[i]->count == receives[i]->count && sends[i]->dataType == receives[i]->dataType;
  }
  if (!paired) {
    throw Failure(HCCL_E_PARA, "the items from this rank to itself do not pair up");
  }
}
}  // namespace
}  // namespace twin::hccl

using namespace twin::hccl;

HCCL_EXPORT HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                                     HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::AllReduce, dataType, count);
    RequireReduction(op, dataType);
    call.reduction = op;
    Buffers buffers;
    buffers.Reads(sendBuf, count, dataType, "sendBuf");
    buffers.Writes(recvBuf, count, dataType, "recvBuf");
    SubmitToAll(found, call, buffers, stream,
                [=](Communicator& running) { AllReduce(running, call, sendBuf, recvBuf); });
  });
}

HCCL_EXPORT HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                                     aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::Broadcast, dataType, count);
    RequireRank(*found, root, "root");
    call.root = root;
    Buffers buffers;
    // Whoever is not the root has it written.
    if (found->Rank() == root) {
      buffers.Reads(buf, count, dataType, "buf");
    } else {
      buffers.Writes(buf, count, dataType, "buf");
    }
    SubmitToAll(found, call, buffers, stream, [=](Communicator& running) { Broadcast(running, call, buf); });
  });
}

HCCL_EXPORT HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                         HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::ReduceScatter, dataType, recvCount);
    RequireReduction(op, dataType);
    call.reduction = op;
    Buffers buffers;
    buffers.Reads(sendBuf, PerRank(*found, recvCount), dataType, "sendBuf");
    buffers.Writes(recvBuf, recvCount, dataType, "recvBuf");
    SubmitToAll(found, call, buffers, stream, [=](Communicator& running) {
      ReduceScatter(running, call, sendBuf, Layout::Even(running.Size(), recvCount), recvBuf);
    });
  });
}

HCCL_EXPORT HcclResult HcclReduceScatterV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                                          const void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                          HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::ReduceScatterV, dataType, 0);
    RequireReduction(op, dataType);
    call.reduction = op;
    const Layout parts = ReadLayout(*found, sendCounts, sdispls, "sendCounts or sdispls");
    if (parts.counts[found->Rank()] != recvCount) {
      throw Failure(HCCL_E_PARA, "recvCount " + std::to_string(recvCount) + " is not this rank's part of " +
                                     std::to_string(parts.counts[found->Rank()]) + " in sendCounts");
    }
    Buffers buffers;
    buffers.Reads(sendBuf, parts.End(), dataType, "sendBuf");
    buffers.Writes(recvBuf, recvCount, dataType, "recvBuf");
    void* out = const_cast<void*>(recvBuf);
    SubmitToAll(found, call, buffers, stream,
                [=](Communicator& running) { ReduceScatter(running, call, sendBuf, parts, out); });
  });
}

HCCL_EXPORT HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                                     HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    const Call call = MakeCall(Operation::AllGather, dataType, sendCount);
    Buffers buffers;
    buffers.Reads(sendBuf, sendCount, dataType, "sendBuf");
    buffers.Writes(recvBuf, PerRank(*found, sendCount), dataType, "recvBuf");
    SubmitToAll(found, call, buffers, stream, [=](Communicator& running) {
      AllGather(running, call, sendBuf, recvBuf, Layout::Even(running.Size(), sendCount));
    });
  });
}

HCCL_EXPORT HcclResult HcclAllGatherV(const void* sendBuf, uint64_t sendCount, const void* recvBuf,
                                      const void* recvCounts, const void* rdispls, HcclDataType dataType, HcclComm comm,
                                      aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    const Call call = MakeCall(Operation::AllGatherV, dataType, 0);
    const Layout parts = ReadLayout(*found, recvCounts, rdispls, "recvCounts or rdispls");
    if (parts.counts[found->Rank()] != sendCount) {
      throw Failure(HCCL_E_PARA, "sendCount " + std::to_string(sendCount) + " is not this rank's part of " +
                                     std::to_string(parts.counts[found->Rank()]) + " in recvCounts");
    }
    Buffers buffers;
    buffers.Reads(sendBuf, sendCount, dataType, "sendBuf");
    buffers.Writes(recvBuf, parts.End(), dataType, "recvBuf");
    void* out = const_cast<void*>(recvBuf);
    SubmitToAll(found, call, buffers, stream,
                [=](Communicator& running) { AllGather(running, call, sendBuf, out, parts); });
  });
}

HCCL_EXPORT HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType sendType, HcclReduceOp op,
                                  uint32_t root, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::Reduce, sendType, count);
    RequireReduction(op, sendType);
    RequireRank(*found, root, "root");
    call.reduction = op;
    call.root = root;
    Buffers buffers;
    buffers.Reads(sendBuf, count, sendType, "sendBuf");
    if (found->Rank() == root) {
      buffers.Writes(recvBuf, count, sendType, "recvBuf");
    }
    SubmitToAll(found, call, buffers, stream,
                [=](Communicator& running) { ReduceToRoot(running, call, sendBuf, recvBuf); });
  });
}

HCCL_EXPORT HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t root,
                                   HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    Call call = MakeCall(Operation::Scatter, dataType, count);
    RequireRank(*found, root, "root");
    call.root = root;
    Buffers buffers;
    if (found->Rank() == root) {
      buffers.Reads(sendBuf, PerRank(*found, count), dataType, "sendBuf");
    }
    buffers.Writes(recvBuf, count, dataType, "recvBuf");
    SubmitToAll(found, call, buffers, stream, [=](Communicator& running) { Scatter(running, call, sendBuf, recvBuf); });
  });
}

HCCL_EXPORT HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                                    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    const Call call = MakeCall(Operation::AlltoAll, sendType, sendCount);
    if (sendType != recvType || sendCount != recvCount) {
      throw Failure(HCCL_E_PARA, "count and data type must be the same for sending and receiving");
    }
    Buffers buffers;
    buffers.Reads(sendBuf, PerRank(*found, sendCount), sendType, "sendBuf");
    buffers.Writes(recvBuf, PerRank(*found, recvCount), recvType, "recvBuf");
    void* out = const_cast<void*>(recvBuf);
    SubmitToAll(found, call, buffers, stream, [=](Communicator& running) {
      const Layout even = Layout::Even(running.Size(), sendCount);
      AlltoAll(running, call, sendBuf, even, out, even);
    });
  });
}

HCCL_EXPORT HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                                     HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                                     const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    const Call call = MakeCall(Operation::AlltoAllV, sendType, 0);
    if (sendType != recvType) {
      throw Failure(HCCL_E_PARA, "the data type must be the same for sending and receiving");
    }
    const Layout sent = ReadLayout(*found, sendCounts, sdispls, "sendCounts or sdispls");
    const Layout received = ReadLayout(*found, recvCounts, rdispls, "recvCounts or rdispls");
    if (sent.counts[found->Rank()] != received.counts[found->Rank()]) {
      throw Failure(HCCL_E_PARA, "this rank sends itself " + std::to_string(sent.counts[found->Rank()]) +
                                     " elements and expects " + std::to_string(received.counts[found->Rank()]));
    }
    Buffers buffers;
    buffers.Reads(sendBuf, sent.End(), sendType, "sendBuf");
    buffers.Writes(recvBuf, received.End(), recvType, "recvBuf");
    void* out = const_cast<void*>(recvBuf);
    SubmitToAll(found, call, buffers, stream,
                [=](Communicator& running) { AlltoAll(running, call, sendBuf, sent, out, received); });
  });
}

HCCL_EXPORT HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                                aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    RequireDataType(dataType);
    if (destRank == found->Rank()) {
      throw Failure(HCCL_E_PARA, "a rank cannot send to itself");
    }
    SubmitTransfers(found, Operation::Send, {{destRank, sendBuf, count, dataType, true}}, stream);
  });
}

HCCL_EXPORT HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                                aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    RequireDataType(dataType);
    if (srcRank == found->Rank()) {
      throw Failure(HCCL_E_PARA, "a rank cannot receive from itself");
    }
    SubmitTransfers(found, Operation::Recv, {{srcRank, recvBuf, count, dataType, false}}, stream);
  });
}

HCCL_EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItemDef* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                                         aclrtStream stream) {
  return Guard(__func__, [&] {
    const Handle found = Find(comm);
    RequirePointer(sendRecvInfo, "sendRecvInfo");
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = sendRecvInfo[i];
      RequireDataType(item.dataType);
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
        throw Failure(HCCL_E_PARA, "item " + std::to_string(i) + " neither sends nor receives");
      }
      transfers.push_back({item.remoteRank, item.buf, item.count, item.dataType, item.sendRecvType == HCCL_SEND});
    }
    RequireSelfPairs(found->Rank(), transfers);
    SubmitTransfers(found, Operation::BatchSendRecv, std::move(transfers), stream);
  });
}
