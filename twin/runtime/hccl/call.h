// One HCCL call as its peers see it: what every rank must agree on before data may be used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "hccl/hccl_types.h"

namespace twin::hccl {
enum class Operation : uint32_t {
  AllReduce,
  Broadcast,
  ReduceScatter,
  ReduceScatterV,
  AllGather,
  AllGatherV,
  Reduce,
  Scatter,
  AlltoAll,
  AlltoAllV,
  Send,
  Recv,
  BatchSendRecv,
};

constexpr uint32_t kNoReduction = HCCL_REDUCE_RESERVED;
constexpr uint32_t kNoRoot = UINT32_MAX;

// Sent between ranks as it lies in memory; all hosts run the same build.
struct Call {
  Operation operation = Operation::AllReduce;
  HcclDataType dataType = HCCL_DATA_TYPE_RESERVED;
  uint32_t reduction = kNoReduction;
  uint32_t root = kNoRoot;
  uint64_t count = 0;     // elements; 0 for the calls with a count per rank
  uint64_t sequence = 0;  // 1, 2, ... per communicator, for Send and Recv per pair of ranks and direction
  uint64_t payload = 0;   // bytes that follow for this peer
};

const char* Name(Operation operation);
const char* Name(HcclDataType dataType);
const char* Name(HcclReduceOp reduction);
bool IsValid(HcclDataType dataType);
std::size_t ItemSize(HcclDataType dataType);

// "HcclAllReduce #7 (fp32, 4 elements, sum)"
std::string Describe(const Call& call);

// Nothing when `theirs`, announced by `peer`, is the same call as `mine` and brings `payload` bytes.
std::optional<std::string> Disagreement(const Call& mine, uint64_t payload, const Call& theirs, uint32_t peer);
}  // namespace twin::hccl
