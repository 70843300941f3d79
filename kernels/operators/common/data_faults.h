// Tells the host about data that only the device sees. An operator's optional `faults` has 64 bytes, one cache
// line, for each vector core, so that no core touches what another one writes. The host clears it, and reads it when it
// waits for the device anyway. A record stays until then: the first fault that a core meets is the one that is told.
// Sound data costs comparisons and no access of memory.
#pragma once
#include "kernel_operator.h"

namespace fault {

constexpr int64_t CORES = 64;
constexpr int64_t WORDS = 8;  // int64, of a record: kind, operator, argument, place, value, limit

// The host's texts for these numbers: kernels/gr_ops/csrc/faults/npu_records.cpp.
enum Operator : int64_t {
  HSTU_DENSE_FORWARD = 1,
  HSTU_RELATIVE_FORWARD,
  EMBEDDING_FORWARD,
  JAGGED_TO_PADDED_DENSE,
  DENSE_TO_JAGGED,
  PERMUTE,
  BOUNDS_CHECK,
  PERMUTE_GRADIENT,
};

enum Kind : int64_t {
  FIRST = 1,         // the first entry is not 0
  NEGATIVE,          // an entry below 0
  DECREASES,         // an entry below the one before it, `limit`
  NOT_THE_END,       // the last entry is not `limit`
  BEYOND,            // the last entry is more than `limit`
  TOO_LONG,          // a row has more tokens than `limit`
  TOO_MANY_QUERIES,  // a row has more queries than keys, of which there are `limit`
  TOO_MANY_COUNTED,  // contexts and targets of a row are more than its `limit` tokens
  OUT_OF_RANGE,      // an entry that is not between 0 and `limit` - 1
  BAD_FILL,          // an entry that is not between 1 and `limit`
};

enum Argument : int64_t {
  SEQ_OFFSET = 1,
  SEQ_OFFSET_K,
  NUM_CONTEXT,
  NUM_TARGET,
  PAGE_OFFSETS,
  PAGE_IDS,
  LAST_PAGE_LEN,
  MAX_SEQ_LEN,
  ATTN_BIAS,
  MASK,
  POSITION,
  OFFSETS,
  INDICES,
  PERMUTE_ENTRIES,
  LENGTHS,
  VALUES,
  PERMUTED_SUM,
  B_OFFSETS,
  GRAD,
  LEVEL,  // and those behind it: offsets[0], offsets[1]..
};

class Reporter {
 public:
  // address: of `faults_out`, which is `faults`; null where nobody asks.
  __aicore__ inline void Init(GM_ADDR address, Operator which) {
    operator_ = which;
    silent_ = address == nullptr;
    record_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(address) + (AscendC::GetBlockIdx() % CORES) * WORDS,
                            static_cast<uint64_t>(WORDS));
  }

  // Whether to look at all: nobody asks, or this core has told of a fault.
  __aicore__ inline bool Silent() const { return silent_; }

  __aicore__ inline void Tell(Kind kind, int64_t argument, int64_t place, int64_t value, int64_t limit) {
    if (silent_) {
      return;
    }
    silent_ = true;
    Flush();  // what the host has written since is not in the cache
    if (record_.GetValue(0) != 0) {
      return;
    }
    record_.SetValue(1, operator_);
    record_.SetValue(2, argument);
    record_.SetValue(3, place);
    record_.SetValue(4, value);
    record_.SetValue(5, limit);
    record_.SetValue(0, kind);
    Flush();
  }

 private:
  __aicore__ inline void Flush() {
    AscendC::DataCacheCleanAndInvalid<int64_t, AscendC::CacheLine::SINGLE_CACHE_LINE, AscendC::DcciDst::CACHELINE_OUT>(
        record_);
  }

  AscendC::GlobalTensor<int64_t> record_;
  Operator operator_;
  bool silent_;
};

}  // namespace fault
