// What a core has found wrong: how much, and the first of it. Laid out as the operator's report output.
#pragma once
#include "kernel_operator.h"

namespace bounds {

constexpr uint32_t RECORD_WORDS = 8;
constexpr uint32_t RECORD_BYTES = RECORD_WORDS * sizeof(int64_t);

enum Kind : int64_t { NOTHING = 0, LAST_OFFSET = 1, FIRST_OFFSET = 2, OFFSETS = 3, INDEX = 4 };

struct Record {
  int64_t count = 0;
  int64_t kind = NOTHING;
  int64_t table = 0;
  int64_t batch = 0;
  int64_t place = 0;  // offsets: the start; an index: its position
  int64_t value = 0;  // offsets: the end; an index: its value
  int64_t limit = 0;  // of the index
  int64_t reach = 0;  // the largest clamped offset of the core's share

  // True for the first violation, whose particulars the caller fills in.
  __aicore__ inline bool Add(Kind what) {
    ++count;
    if (kind != NOTHING) {
      return false;
    }
    kind = what;
    return true;
  }

  // `later` comes after this one in the order of the reference.
  __aicore__ inline void Join(const Record& later) {
    const int64_t total = count + later.count;
    if (kind == NOTHING) {
      *this = later;
    }
    count = total;
  }

  __aicore__ inline void Save(const AscendC::LocalTensor<int64_t>& to) const {
    to.SetValue(0, count);
    to.SetValue(1, kind);
    to.SetValue(2, table);
    to.SetValue(3, batch);
    to.SetValue(4, place);
    to.SetValue(5, value);
    to.SetValue(6, limit);
    to.SetValue(7, reach);
  }

  __aicore__ inline void Load(const AscendC::LocalTensor<int64_t>& from) {
    count = from.GetValue(0);
    kind = from.GetValue(1);
    table = from.GetValue(2);
    batch = from.GetValue(3);
    place = from.GetValue(4);
    value = from.GetValue(5);
    limit = from.GetValue(6);
    reach = from.GetValue(7);
  }
};

template <AscendC::HardEvent event>
__aicore__ inline void Fence() {
  const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

__aicore__ inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : (value > high ? high : value);
}

// Records of all cores in the workspace. A meeting publishes one record per core and makes all of them readable.
class Board {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR workspace, int64_t meetings) {
    blocks_ = AscendC::GetBlockNum();
    records_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(workspace),
                             static_cast<uint64_t>(meetings * blocks_ * RECORD_WORDS));
    pipe->InitBuffer(buffer_, static_cast<uint32_t>(blocks_ + 1) * RECORD_BYTES);
  }

  __aicore__ inline void Meet(const Record& own) {
    const AscendC::LocalTensor<int64_t> words = buffer_.template Get<int64_t>();
    const uint64_t start = static_cast<uint64_t>(meeting_ * blocks_ * RECORD_WORDS);
    own.Save(words);
    Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(records_[start + static_cast<uint64_t>(AscendC::GetBlockIdx()) * RECORD_WORDS], words,
                         AscendC::DataCopyExtParams(1, RECORD_BYTES, 0, 0, 0));
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
    AscendC::DataCopyPad(words[RECORD_WORDS], records_[start],
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(blocks_) * RECORD_BYTES, 0, 0, 0),
                         AscendC::DataCopyPadExtParams<int64_t>(false, 0, 0, 0));
    Fence<AscendC::HardEvent::MTE2_S>();
    ++meeting_;
  }

  __aicore__ inline int64_t Blocks() const { return blocks_; }

  __aicore__ inline Record Of(int64_t block) {
    Record record;
    record.Load(buffer_.template Get<int64_t>()[static_cast<uint32_t>(block + 1) * RECORD_WORDS]);
    return record;
  }

 private:
  int64_t blocks_;
  int64_t meeting_ = 0;
  AscendC::GlobalTensor<int64_t> records_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
};

}  // namespace bounds
