// Collectives of libhccl between ranks that are threads of one process, each with a stream of its own.
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.h"
#include "hccl/hccl.h"

namespace {

using sanitized::InThreads;
using sanitized::Require;

constexpr uint32_t kRanks = 3;
constexpr uint64_t kCount = 3 * 7001;  // more than one frame in fp32 for all ranks together
constexpr int kRounds = 5;

class DeviceInts {
 public:
  explicit DeviceInts(std::size_t count) : count_(count) {
    CALL(aclrtMalloc(&data_, count * sizeof(int32_t), ACL_MEM_MALLOC_HUGE_FIRST));
  }
  ~DeviceInts() { aclrtFree(data_); }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;
  void Put(const std::vector<int32_t>& values, aclrtStream stream) {
    CALL(aclrtMemcpyAsync(data_, count_ * sizeof(int32_t), values.data(), values.size() * sizeof(int32_t),
                          ACL_MEMCPY_HOST_TO_DEVICE, stream));
  }
  std::vector<int32_t> Get(aclrtStream stream) const {
    std::vector<int32_t> values(count_);
    CALL(aclrtMemcpyAsync(values.data(), count_ * sizeof(int32_t), data_, count_ * sizeof(int32_t),
                          ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    return values;
  }
  void* Data() const { return data_; }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

int32_t Value(uint32_t rank, uint64_t i, int round) { return static_cast<int32_t>(rank * 1000 + i % 97) + round; }

std::vector<int32_t> Values(uint32_t rank, int round) {
  std::vector<int32_t> values(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    values[i] = Value(rank, i, round);
  }
  return values;
}

void Rank(uint32_t rank, const HcclRootInfo& info) {
  CALL(aclrtSetDevice(0));
  aclrtStream stream;
  CALL(aclrtCreateStream(&stream));
  HcclComm comm;
  CALL(HcclCommInitRootInfo(kRanks, &info, rank, &comm));
  DeviceInts own(kCount);
  const DeviceInts sum(kCount);
  const DeviceInts all(kCount * kRanks);
  const DeviceInts exchanged(kCount);
  const DeviceInts passed(kCount);
  const uint32_t next = (rank + 1) % kRanks;
  const uint32_t previous = (rank + kRanks - 1) % kRanks;
  for (int round = 0; round < kRounds; ++round) {
    const auto values = Values(rank, round);
    own.Put(values, stream);
    CALL(HcclAllReduce(own.Data(), sum.Data(), kCount, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
    CALL(HcclAllGather(own.Data(), all.Data(), kCount, HCCL_DATA_TYPE_INT32, comm, stream));
    CALL(HcclAlltoAll(own.Data(), kCount / kRanks, HCCL_DATA_TYPE_INT32, exchanged.Data(), kCount / kRanks,
                      HCCL_DATA_TYPE_INT32, comm, stream));
    if (rank == 0) {
      CALL(HcclSend(own.Data(), kCount, HCCL_DATA_TYPE_INT32, next, comm, stream));
      CALL(HcclRecv(passed.Data(), kCount, HCCL_DATA_TYPE_INT32, previous, comm, stream));
    } else {
      CALL(HcclRecv(passed.Data(), kCount, HCCL_DATA_TYPE_INT32, previous, comm, stream));
      CALL(HcclSend(own.Data(), kCount, HCCL_DATA_TYPE_INT32, next, comm, stream));
    }
    CALL(HcclBroadcast(passed.Data(), kCount, HCCL_DATA_TYPE_INT32, 0, comm, stream));
    const auto sums = sum.Get(stream);
    const auto gathered = all.Get(stream);
    const auto mixed = exchanged.Get(stream);
    const auto from = passed.Get(stream);
    for (uint64_t i = 0; i < kCount; ++i) {
      int32_t total = 0;
      for (uint32_t r = 0; r < kRanks; ++r) {
        total += Value(r, i, round);
        Require(gathered[r * kCount + i] == Value(r, i, round), "HcclAllGather: another value");
      }
      Require(sums[i] == total, "HcclAllReduce: another value");
      const uint64_t part = kCount / kRanks;
      const auto sender = static_cast<uint32_t>(i / part);
      Require(mixed[i] == Value(sender, rank * part + i % part, round), "HcclAlltoAll: another value");
      Require(from[i] == Value(kRanks - 1, i, round), "HcclRecv or HcclBroadcast: another value");
    }
    HcclResult asyncError = HCCL_E_RESERVED;
    CALL(HcclGetCommAsyncError(comm, &asyncError));
    Require(asyncError == HCCL_SUCCESS, "the communicator reports an error");
  }
  CALL(HcclCommDestroy(comm));
  CALL(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
  return sanitized::Main("collectives", [] {
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    HcclRootInfo info;
    CALL(HcclGetRootInfo(&info));
    InThreads(kRanks, [&info](unsigned rank) { Rank(rank, info); });
    CALL(aclFinalize());
  });
}
