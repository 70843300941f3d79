#include "call.h"

#include <array>

namespace twin::hccl {
namespace {
struct DataType {
  const char* name;
  std::size_t bytes;
};

// Indexed by HcclDataType.
constexpr std::array<DataType, HCCL_DATA_TYPE_RESERVED> kDataTypes = {{
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"fp16", 2},
    {"fp32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"fp64", 8},
    {"bfp16", 2},
}};

constexpr std::array<const char*, 13> kOperations = {
    "HcclAllReduce",  "HcclBroadcast", "HcclReduceScatter", "HcclReduceScatterV", "HcclAllGather",
    "HcclAllGatherV", "HcclReduce",    "HcclScatter",       "HcclAlltoAll",       "HcclAlltoAllV",
    "HcclSend",       "HcclRecv",      "HcclBatchSendRecv",
};

constexpr std::array<const char*, HCCL_REDUCE_RESERVED> kReductions = {"sum", "prod", "max", "min"};

// A Send on one rank is the Recv of the other.
Operation Counterpart(Operation operation) { return operation == Operation::Recv ? Operation::Send : operation; }
}  // namespace

const char* Name(Operation operation) {
  const auto index = static_cast<std::size_t>(operation);
  return index < kOperations.size() ? kOperations[index] : "an unknown call";
}

bool IsValid(HcclDataType dataType) { return static_cast<std::size_t>(dataType) < kDataTypes.size(); }

const char* Name(HcclDataType dataType) {
  return IsValid(dataType) ? kDataTypes[dataType].name : "an unknown data type";
}

std::size_t ItemSize(HcclDataType dataType) { return kDataTypes.at(dataType).bytes; }

const char* Name(HcclReduceOp reduction) {
  const auto index = static_cast<std::size_t>(reduction);
  return index < kReductions.size() ? kReductions[index] : "an unknown reduction";
}

std::string Describe(const Call& call) {
  std::string text = Name(call.operation);
  if (call.sequence > 0) {
    text += " #" + std::to_string(call.sequence);
  }
  if (!IsValid(call.dataType)) {
    return text;
  }
  text += std::string(" (") + Name(call.dataType);
  if (call.count > 0) {
    text += ", " + std::to_string(call.count) + (call.count == 1 ? " element" : " elements");
  }
  if (call.reduction != kNoReduction) {
    text += std::string(", ") + Name(static_cast<HcclReduceOp>(call.reduction));
  }
  if (call.root != kNoRoot) {
    text += ", root " + std::to_string(call.root);
  }
  return text + ")";
}

std::optional<std::string> Disagreement(const Call& mine, uint64_t payload, const Call& theirs, uint32_t peer) {
  const bool same = Counterpart(mine.operation) == theirs.operation && mine.dataType == theirs.dataType &&
                    mine.reduction == theirs.reduction && mine.root == theirs.root && mine.count == theirs.count &&
                    mine.sequence == theirs.sequence;
  const std::string they = "rank " + std::to_string(peer);
  if (!same) {
    return they + " called " + Describe(theirs);
  }
  if (payload != theirs.payload) {
    return they + " sends " + std::to_string(theirs.payload) + " bytes where " + std::to_string(payload) +
           " are expected";
  }
  return std::nullopt;
}
}  // namespace twin::hccl
