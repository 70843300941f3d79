// y[i] = x[index[i]], 0 where index[i] is no element of x. Each core writes one contiguous share of y.
// Keys are the width of an element in bytes; + 10: x is too large for the unified buffer and is read where it lies.
#include <type_traits>

#include "kernel_operator.h"

#include "byte_offsets.h"
#include "gather_for_rank1_tiling.h"

// An element in words of the vector unit, which has none of eight bytes: those are two words side by side.
template <uint32_t width>
struct WordsOf {
  using Word = typename std::conditional<width == 2, uint16_t, uint32_t>::type;
  static constexpr uint32_t PER_ELEMENT = width / sizeof(Word);
};

// What both ways of the lookup share: tiles of indices in, tiles of y out.
template <uint32_t width, typename Index, typename Lookup>
class GatherKernel {
 public:
  using Word = typename WordsOf<width>::Word;
  static constexpr uint32_t PER_ELEMENT = WordsOf<width>::PER_ELEMENT;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, GM_ADDR index, GM_ADDR y,
                              const GatherForRank1TilingData& tiling) {
    tiling_ = tiling;
    index_.SetGlobalBuffer(reinterpret_cast<__gm__ Index*>(index), static_cast<uint64_t>(tiling.count));
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ Word*>(y), static_cast<uint64_t>(tiling.count) * PER_ELEMENT);
    pipe->InitBuffer(indices_, 2, tiling.tileElements * sizeof(Index));
    pipe->InitBuffer(results_, 2, tiling.tileElements * width);
    lookup_.Init(pipe, x, tiling);
  }

  __aicore__ inline void Process() {
    const int64_t first = AscendC::GetBlockIdx() * tiling_.countPerCore;
    const int64_t rest = tiling_.count - first;
    const int64_t end = first + (rest < tiling_.countPerCore ? rest : tiling_.countPerCore);
    for (int64_t at = first; at < end; at += tiling_.tileElements) {
      const int64_t left = end - at;
      const uint32_t count = left < tiling_.tileElements ? static_cast<uint32_t>(left) : tiling_.tileElements;
      Tile(static_cast<uint64_t>(at), count);
    }
  }

 private:
  __aicore__ inline void Tile(uint64_t at, uint32_t count) {
    AscendC::LocalTensor<Index> indices = indices_.template AllocTensor<Index>();
    AscendC::DataCopyPad(indices, index_[at],
                         AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(Index)), 0, 0, 0),
                         AscendC::DataCopyPadExtParams<Index>(false, 0, 0, 0));
    indices_.EnQue(indices);
    indices = indices_.template DeQue<Index>();
    AscendC::LocalTensor<Word> results = results_.template AllocTensor<Word>();
    lookup_.Find(results, indices, count);
    indices_.FreeTensor(indices);
    results_.EnQue(results);
    results = results_.template DeQue<Word>();
    AscendC::DataCopyPad(y_[at * PER_ELEMENT], results, AscendC::DataCopyExtParams(1, count * width, 0, 0, 0));
    results_.FreeTensor(results);
  }

  GatherForRank1TilingData tiling_;
  AscendC::GlobalTensor<Index> index_;
  AscendC::GlobalTensor<Word> y_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> indices_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> results_;
  Lookup lookup_;
};

// x in the unified buffer between two blocks of zeros: the vector unit gathers.
template <uint32_t width, typename Index>
class ResidentTable {
 public:
  using Word = typename WordsOf<width>::Word;
  static constexpr uint32_t PER_ELEMENT = WordsOf<width>::PER_ELEMENT;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, const GatherForRank1TilingData& tiling) {
    pipe->InitBuffer(table_, tiling.tableBytes);
    pipe->InitBuffer(offsets_, tiling.tileElements * sizeof(int32_t));
    map_.Init(width, tiling.length);
    Load(x, tiling.length);
    if constexpr (PER_ELEMENT == 2) {
      const uint32_t words = tiling.tileElements * PER_ELEMENT;
      pipe->InitBuffer(pairs_, words * sizeof(int32_t));
      pipe->InitBuffer(twice_, words * sizeof(int32_t));
      pipe->InitBuffer(halves_, words * sizeof(int32_t));
      // twice: offset of the offset behind each word, 0 0 4 4 ...; halves: 0 4 0 4 ...
      gather::MakeStairs(halves_.template Get<int32_t>(), 2, 0, words);
      gather::MakeStairs(twice_.template Get<int32_t>(), 2, static_cast<int32_t>(sizeof(int32_t)), words);
      AscendC::Sub(twice_.template Get<int32_t>(), twice_.template Get<int32_t>(), halves_.template Get<int32_t>(),
                   static_cast<int32_t>(words));
      AscendC::PipeBarrier<PIPE_V>();
    }
  }

  __aicore__ inline void Find(const AscendC::LocalTensor<Word>& results, const AscendC::LocalTensor<Index>& indices,
                              uint32_t count) {
    const AscendC::LocalTensor<Word> table = table_.template Get<Word>();
    AscendC::LocalTensor<int32_t> offsets = offsets_.template Get<int32_t>();
    map_.Make(offsets, indices, count);
    if constexpr (PER_ELEMENT == 2) {
      AscendC::LocalTensor<int32_t> pairs = pairs_.template Get<int32_t>();
      AscendC::Gather(pairs, offsets, twice_.template Get<uint32_t>(), 0, count * PER_ELEMENT);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(pairs, pairs, halves_.template Get<int32_t>(), static_cast<int32_t>(count * PER_ELEMENT));
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Gather(results, table, pairs.template ReinterpretCast<uint32_t>(), 0, count * PER_ELEMENT);
    } else {
      AscendC::Gather(results, table, offsets.template ReinterpretCast<uint32_t>(), 0, count);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  __aicore__ inline void Load(GM_ADDR x, int64_t length) {
    constexpr uint32_t perBlock = gather::UB_BLOCK / sizeof(Word);
    const uint32_t words = static_cast<uint32_t>(length) * PER_ELEMENT;
    AscendC::LocalTensor<Word> table = table_.template Get<Word>();
    AscendC::GlobalTensor<Word> source;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ Word*>(x), words);
    AscendC::Duplicate<Word>(table, Word(0), static_cast<int32_t>(perBlock));
    AscendC::Duplicate<Word>(table[perBlock + words / perBlock * perBlock], Word(0),
                             static_cast<int32_t>(2 * perBlock));
    Fence<AscendC::HardEvent::V_MTE2>();
    if (words > 0) {
      // Padded to a whole block: what fills up an unpadded one is its first element, and an index beyond x reads it.
      const uint8_t padding = static_cast<uint8_t>((perBlock - words % perBlock) % perBlock);
      AscendC::DataCopyPad(table[perBlock], source,
                           AscendC::DataCopyExtParams(1, words * static_cast<uint32_t>(sizeof(Word)), 0, 0, 0),
                           AscendC::DataCopyPadExtParams<Word>(true, 0, padding, Word(0)));
    }
    Fence<AscendC::HardEvent::MTE2_V>();
  }

  template <AscendC::HardEvent event>
  static __aicore__ inline void Fence() {
    const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
    AscendC::SetFlag<event>(id);
    AscendC::WaitFlag<event>(id);
  }

  gather::TableOffsets map_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> table_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> offsets_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> pairs_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> twice_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> halves_;
};

// One transfer per index, each to a 32-byte slot; the vector unit puts the slots together.
template <uint32_t width, typename Index>
class DistantTable {
 public:
  using Word = typename WordsOf<width>::Word;
  static constexpr uint32_t PER_ELEMENT = WordsOf<width>::PER_ELEMENT;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, const GatherForRank1TilingData& tiling) {
    length_ = tiling.length;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ Word*>(x), static_cast<uint64_t>(tiling.length) * PER_ELEMENT);
    pipe->InitBuffer(slots_, tiling.tileElements * gather::UB_BLOCK);
    pipe->InitBuffer(places_, tiling.tileElements * PER_ELEMENT * sizeof(int32_t));
    gather::MakeStairs(places_.template Get<int32_t>(), static_cast<int32_t>(PER_ELEMENT),
                       static_cast<int32_t>(gather::UB_BLOCK), tiling.tileElements * PER_ELEMENT);
  }

  __aicore__ inline void Find(const AscendC::LocalTensor<Word>& results, const AscendC::LocalTensor<Index>& indices,
                              uint32_t count) {
    constexpr uint32_t perSlot = gather::UB_BLOCK / sizeof(Word);
    const AscendC::LocalTensor<Word> slots = slots_.template Get<Word>();
    AscendC::Duplicate<Word>(slots, Word(0), static_cast<int32_t>(count * perSlot));
    Fence<AscendC::HardEvent::V_MTE2>();
    Fence<AscendC::HardEvent::MTE2_S>();
    for (uint32_t i = 0; i < count; ++i) {
      const int64_t at = static_cast<int64_t>(indices.GetValue(i));
      if (at >= 0 && at < length_) {
        AscendC::DataCopyPad(slots[i * perSlot], x_[static_cast<uint64_t>(at) * PER_ELEMENT],
                             AscendC::DataCopyExtParams(1, width, 0, 0, 0),
                             AscendC::DataCopyPadExtParams<Word>(false, 0, 0, Word(0)));
      }
    }
    Fence<AscendC::HardEvent::S_V>();  // the indices have been read when the queue gets them back
    Fence<AscendC::HardEvent::MTE2_V>();
    AscendC::Gather(results, slots, places_.template Get<uint32_t>(), 0, count * PER_ELEMENT);
    AscendC::PipeBarrier<PIPE_V>();
  }

 private:
  template <AscendC::HardEvent event>
  static __aicore__ inline void Fence() {
    const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
    AscendC::SetFlag<event>(id);
    AscendC::WaitFlag<event>(id);
  }

  int64_t length_;
  AscendC::GlobalTensor<Word> x_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slots_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> places_;
};

template <uint32_t width, template <uint32_t, typename> class Table>
__aicore__ inline void RunGather(GM_ADDR x, GM_ADDR index, GM_ADDR y, const GatherForRank1TilingData& tiling) {
  AscendC::TPipe pipe;
  GatherKernel<width, DTYPE_INDEX, Table<width, DTYPE_INDEX>> kernel;
  kernel.Init(&pipe, x, index, y, tiling);
  kernel.Process();
}

extern "C" __global__ __aicore__ void gather_for_rank1(GM_ADDR x, GM_ADDR index, GM_ADDR y, GM_ADDR workspace,
                                                       GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(GatherForRank1TilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  if (TILING_KEY_IS(2)) {
    RunGather<2, ResidentTable>(x, index, y, tilingData);
  } else if (TILING_KEY_IS(4)) {
    RunGather<4, ResidentTable>(x, index, y, tilingData);
  } else if (TILING_KEY_IS(8)) {
    RunGather<8, ResidentTable>(x, index, y, tilingData);
  } else if (TILING_KEY_IS(12)) {
    RunGather<2, DistantTable>(x, index, y, tilingData);
  } else if (TILING_KEY_IS(14)) {
    RunGather<4, DistantTable>(x, index, y, tilingData);
  } else if (TILING_KEY_IS(18)) {
    RunGather<8, DistantTable>(x, index, y, tilingData);
  }
}
