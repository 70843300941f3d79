// The mask and repeat forms of vector instructions: which lanes of which repeats work, and where their operands lie.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

constexpr uint64_t MASK_PLACEHOLDER = 0;

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep, bool half = false)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep), halfBlock(half) {}
  uint16_t dstBlkStride = 1;
  uint16_t srcBlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t srcRepStride = 8;
  bool halfBlock = false;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
      : dstBlkStride(dstBlk),
        src0BlkStride(src0Blk),
        src1BlkStride(src1Blk),
        dstRepStride(dstRep),
        src0RepStride(src0Rep),
        src1RepStride(src1Rep) {}
  uint8_t dstBlkStride = 1;
  uint8_t src0BlkStride = 1;
  uint8_t src1BlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t src0RepStride = 8;
  uint8_t src1RepStride = 8;
};

inline void SetMaskCount() { twin::Core::Current().Mask().counter = true; }
inline void SetMaskNorm() { twin::Core::Current().Mask().counter = false; }
inline void ResetMask() {
  auto& mask = twin::Core::Current().Mask();
  mask.high = ~0ull;
  mask.low = ~0ull;
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
  auto& mask = twin::Core::Current().Mask();
  mask.high = maskHigh;
  mask.low = maskLow;
}

namespace twin_detail {

template <typename T>
inline constexpr uint32_t kLanesPerRepeat = 256 / sizeof(T);
template <typename T>
inline constexpr uint32_t kLanesPerBlock = 32 / sizeof(T);

// Compiled once in a kernel's unit, not into each of its instructions.
#define TWIN_SHARED __attribute__((noinline))

inline void CheckRepeat(int64_t repeat) {
  if (repeat < 0 || repeat > 255) {
    twin::Core::Current().Trap("E-23", "repeatTime %lld is outside 0..255", static_cast<long long>(repeat));
  }
}

inline void CheckStride(uint32_t dstBlkStride) {
  if (dstBlkStride == 0) {
    twin::Core::Current().Trap("E-25", "dstBlkStride must not be 0");
  }
}

inline void ContiguousMask(uint64_t count, uint32_t lanes, uint64_t (&bits)[2]) {
  if (count > lanes || count > 128) {
    twin::Core::Current().Trap("E-24", "mask %llu is above the %u lanes of a repeat",
                               static_cast<unsigned long long>(count), lanes);
  }
  bits[0] = count >= 64 ? ~0ull : (1ull << count) - 1;
  bits[1] = count <= 64 ? 0 : (count == 128 ? ~0ull : (1ull << (count - 64)) - 1);
}

// The lanes of one repeat that work.
struct LaneMask {
  uint64_t bits[2] = {};

  bool On(uint32_t lane) const { return ((bits[lane / 64] >> (lane % 64)) & 1u) != 0; }
  bool All(uint32_t lanes) const {
    return lanes <= 64 ? (~bits[0] << (64 - lanes)) == 0 : (~bits[0] | (~bits[1] << (128 - lanes))) == 0;
  }
};

// What one instruction works on. In counter mode the mask is the number of elements of all repeats.
class Lanes {
 public:
  TWIN_SHARED Lanes(uint64_t mask, int64_t repeat, uint32_t lanes, bool setsMask) : lanes_(lanes) {
    auto& current = twin::Core::Current().Mask();
    if (!setsMask) {
      FromRegister(repeat);
    } else if (current.counter) {
      current.low = mask;
      FromRegister(repeat);
    } else {
      CheckRepeat(repeat);
      repeats_ = static_cast<uint32_t>(repeat);
      ContiguousMask(mask, lanes, bits_);
      Keep();
    }
  }
  TWIN_SHARED Lanes(const uint64_t* mask, int64_t repeat, uint32_t lanes, bool setsMask) : lanes_(lanes) {
    if (!setsMask) {
      FromRegister(repeat);
      return;
    }
    CheckRepeat(repeat);
    repeats_ = static_cast<uint32_t>(repeat);
    bits_[0] = mask[0];
    bits_[1] = lanes > 64 ? mask[1] : 0;
    const uint64_t beyond = lanes < 64 ? ~0ull << (lanes % 64) : 0;
    if ((bits_[0] & beyond) != 0 || (lanes == 64 && mask[1] != 0)) {
      twin::Core::Current().Trap("E-24", "mask names lanes beyond %u", lanes);
    }
    Keep();
  }

  uint32_t Repeats() const { return repeats_; }
  uint32_t PerRepeat() const { return lanes_; }
  LaneMask On(uint32_t repeat) const {
    LaneMask on;
    if (!counted_) {
      on.bits[0] = bits_[0];
      on.bits[1] = bits_[1];
      return on;
    }
    const uint64_t left = total_ - static_cast<uint64_t>(repeat) * lanes_;
    ContiguousMask(left < lanes_ ? left : lanes_, lanes_, on.bits);
    return on;
  }

 private:
  void FromRegister(int64_t repeat) {
    const auto& mask = twin::Core::Current().Mask();
    counted_ = mask.counter;
    if (counted_) {
      total_ = mask.low;
      repeats_ = static_cast<uint32_t>((total_ + lanes_ - 1) / lanes_);
    } else {
      CheckRepeat(repeat);
      repeats_ = static_cast<uint32_t>(repeat);
      bits_[0] = mask.low;
      bits_[1] = mask.high;
    }
  }
  // The register keeps what an instruction has set.
  void Keep() const {
    auto& mask = twin::Core::Current().Mask();
    mask.low = bits_[0];
    mask.high = bits_[1];
  }

  uint32_t lanes_;
  uint32_t repeats_ = 0;
  bool counted_ = false;
  uint64_t total_ = 0;
  uint64_t bits_[2] = {};
};

// The eight blocks that one repeat of an operand touches, by byte offsets from the tensor's start.
class LaneBlocks {
 public:
  template <typename T>
  LaneBlocks(const LocalTensor<T>& tensor, uint32_t repeat, uint32_t blockStride, uint32_t repeatStride)
      : address_(tensor.GetPhyAddr()) {
    for (uint32_t block = 0; block < 8; ++block) {
      offsets_[block] = 32ull * (static_cast<uint64_t>(repeat) * repeatStride + block * blockStride);
    }
  }
  uint64_t Offset(uint32_t lane, uint32_t lanesPerBlock, std::size_t element) const {
    return offsets_[lane / lanesPerBlock] + (lane % lanesPerBlock) * element;
  }
  const uint64_t (&Offsets() const)[8] { return offsets_; }
  // A source block is the destination's block of the same lanes, or apart from all of its blocks.
  TWIN_SHARED void CheckAgainst(const LaneBlocks& to) const {
    if (Behind(to) || to.Behind(*this) || Same(to)) {
      return;
    }
    for (uint32_t i = 0; i < 8; ++i) {
      for (uint32_t j = 0; j < 8; ++j) {
        const uint64_t s = address_ + offsets_[i];
        if (i != j && s == to.address_ + to.offsets_[j]) {
          twin::Core::Current().Trap("E-27", "block %u of a source is block %u of the destination, at UB 0x%llx", i, j,
                                     static_cast<unsigned long long>(s));
        }
      }
    }
  }

 private:
  bool Behind(const LaneBlocks& other) const { return address_ + offsets_[0] > other.address_ + other.offsets_[7]; }
  // Block for block, no two of them the same.
  bool Same(const LaneBlocks& other) const {
    bool same = offsets_[0] != offsets_[1];
    for (uint32_t block = 0; block < 8; ++block) {
      same = same && address_ + offsets_[block] == other.address_ + other.offsets_[block];
    }
    return same;
  }

  uint64_t address_;
  uint64_t offsets_[8];
};

template <typename T>
void CheckLaneOperand(const LocalTensor<T>& tensor) {
  if (tensor.GetPhyAddr() % twin::kUbBlock != 0) {
    twin::Core::Current().Trap("E-01", "UB address 0x%llx is not aligned to 32 bytes",
                               static_cast<unsigned long long>(tensor.GetPhyAddr()));
  }
}

// `call` names the destination in the report.
template <typename D, typename S>
void CheckApart(const char* call, const LocalTensor<D>& dst, uint64_t dstBytes, const LocalTensor<S>& src,
                uint64_t srcBytes) {
  const uint64_t to = dst.GetPhyAddr(), from = src.GetPhyAddr();
  if (from < to + dstBytes && to < from + srcBytes) {
    twin::Core::Current().Trap("E-27", "%s at UB 0x%llx overlaps a source", call, static_cast<unsigned long long>(to));
  }
}

// One operand of an instruction: strides in blocks, from start to start.
template <typename T>
struct Operand {
  Operand(const LocalTensor<T>& t, uint32_t block, uint32_t repeat, bool readsResults = false)
      : tensor(t), blockStride(block), repeatStride(repeat), chained(readsResults) {
    CheckLaneOperand(tensor);
  }
  TWIN_SHARED LaneBlocks Blocks(uint32_t repeat) const { return LaneBlocks(tensor, repeat, blockStride, repeatStride); }

  const LocalTensor<T>& tensor;
  uint32_t blockStride;
  uint32_t repeatStride;
  bool chained;  // it may read what an earlier repeat of the same instruction has written
};

template <typename T>
TWIN_SHARED T LoadLane(const Operand<T>& source, const LaneBlocks& blocks, uint32_t lane, bool& defined) {
  auto& core = twin::Core::Current();
  const uint64_t at = blocks.Offset(lane, kLanesPerBlock<T>, sizeof(T));
  if (!source.chained && core.UbWrittenNow(source.tensor.Range(), at, sizeof(T))) {
    core.Trap("E-27", "a repeat reads UB 0x%llx, which an earlier repeat of the instruction has written",
              static_cast<unsigned long long>(source.tensor.GetPhyAddr() + at));
  }
  T value;
  std::memcpy(&value, core.UbRead(source.tensor.Range(), at, sizeof(T), sizeof(T)), sizeof(T));
  defined = defined && core.Defined(source.tensor.Range(), at, sizeof(T));
  return value;
}

template <typename T>
TWIN_SHARED void StoreBytes(const LocalTensor<T>& dst, uint64_t at, const void* value, uint32_t bytes, bool defined) {
  auto& core = twin::Core::Current();
  std::memcpy(core.UbWrite(dst.Range(), at, bytes, bytes), value, bytes);
  defined ? core.Define(dst.Range(), at, bytes) : core.Undefine(dst.Range(), at, bytes);
}

template <typename D, typename S>
TWIN_SHARED void CheckBlocks(const Lanes& work, const Operand<D>& dst, const Operand<S>& source) {
  for (uint32_t r = 0; sizeof(D) == sizeof(S) && r < work.Repeats(); ++r) {
    source.Blocks(r).CheckAgainst(dst.Blocks(r));
  }
}

// The bytes of each block that lanes of T lie in.
template <typename T>
struct LaneBytes {
  LaneBytes(const LaneMask& on, uint32_t lanes) {
    constexpr uint32_t perBlock = kLanesPerBlock<T>;
    if (on.All(lanes)) {
      for (uint32_t block = 0; block < lanes / perBlock; ++block) {
        of[block] = ~0u;
      }
      return;
    }
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      const uint32_t bytes = static_cast<uint32_t>(on.On(lane)) * ((1ull << sizeof(T)) - 1);
      of[lane / perBlock] |= bytes << (lane % perBlock * sizeof(T));
    }
  }

  uint32_t of[8] = {};
};

// Values of one repeat's lanes; `defined` is told of each lane where not all of them are.
template <typename T>
struct LaneValues {
  T of[128] = {};
  bool allDefined = true;
  bool defined[128] = {};

  bool Defined(uint32_t lane) const { return allDefined || defined[lane]; }
};

// Lane by lane where a block has an undefined byte, or an access that traps: which lane's it is, the trap says.
template <typename T>
TWIN_SHARED void ReadLanes(const Operand<T>& source, uint32_t repeat, const LaneMask& on, uint32_t lanes,
                           LaneValues<T>& values) {
  auto& core = twin::Core::Current();
  const LaneBlocks blocks = source.Blocks(repeat);
  const LaneBytes<T> bytes(on, lanes);
  if (const uint8_t* from = core.UbReadBlocks(source.tensor.Range(), blocks.Offsets(), bytes.of, source.chained)) {
    constexpr uint32_t perBlock = kLanesPerBlock<T>;
    for (uint32_t lane = 0; lane < lanes; lane += perBlock) {
      if (bytes.of[lane / perBlock] != 0) {
        std::memcpy(values.of + lane, from + blocks.Offsets()[lane / perBlock], twin::kUbBlock);
      }
    }
    values.allDefined = true;
    return;
  }
  values.allDefined = false;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (on.On(lane)) {
      values.defined[lane] = true;
      values.of[lane] = LoadLane(source, blocks, lane, values.defined[lane]);
    }
  }
}

template <typename T>
LaneValues<T> ReadLanes(const Operand<T>& source, uint32_t repeat, const LaneMask& on, uint32_t lanes) {
  LaneValues<T> values;
  ReadLanes(source, repeat, on, lanes, values);
  return values;
}

template <typename T>
TWIN_SHARED void WriteLanes(const Operand<T>& dst, uint32_t repeat, const LaneMask& on, uint32_t lanes,
                            const LaneValues<T>& values) {
  auto& core = twin::Core::Current();
  const LaneBlocks blocks = dst.Blocks(repeat);
  constexpr uint32_t perBlock = kLanesPerBlock<T>;
  const LaneBytes<T> bytes(on, lanes);
  uint8_t* to = values.allDefined ? core.UbWriteBlocks(dst.tensor.Range(), blocks.Offsets(), bytes.of) : nullptr;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (to != nullptr && bytes.of[lane / perBlock] == ~0u) {
      std::memcpy(to + blocks.Offsets()[lane / perBlock], values.of + lane, twin::kUbBlock);
      lane += perBlock - 1;
    } else if (on.On(lane)) {
      const uint64_t at = blocks.Offset(lane, perBlock, sizeof(T));
      to != nullptr ? static_cast<void>(std::memcpy(to + at, &values.of[lane], sizeof(T)))
                    : StoreBytes(dst.tensor, at, &values.of[lane], sizeof(T), values.Defined(lane));
    }
  }
}

template <typename D, typename... S>
TWIN_SHARED void DefineLanes(LaneValues<D>& results, uint32_t lanes, const LaneValues<S>&... values) {
  results.allDefined = (values.allDefined && ...);
  for (uint32_t lane = 0; !results.allDefined && lane < lanes; ++lane) {
    results.defined[lane] = (values.Defined(lane) && ...);
  }
}

// dst = f(repeat, lane, sources...) on each lane. A repeat reads all of its lanes before it writes one.
template <typename D, typename F, typename... S>
void OverNumberedLanes(const Lanes& work, const Operand<D>& dst, F f, const Operand<S>&... sources) {
  const uint32_t lanes = work.PerRepeat();
  const auto evaluate = [&](LaneValues<D>&& results, LaneValues<S>&&... values) {
    for (uint32_t r = 0; r < work.Repeats(); ++r) {
      const LaneMask on = work.On(r);
      (ReadLanes(sources, r, on, lanes, values), ...);
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        if (on.On(lane)) {
          results.of[lane] = f(r, lane, values.of[lane]...);
        }
      }
      DefineLanes(results, lanes, values...);
      WriteLanes(dst, r, on, lanes, results);
    }
  };
  evaluate(LaneValues<D>(), LaneValues<S>()...);
}

// dst = f(sources...) on each lane.
template <typename D, typename F, typename... S>
void OverLanes(const Lanes& work, const Operand<D>& dst, F f, const Operand<S>&... sources) {
  CheckStride(dst.blockStride);
  (CheckBlocks<D, S>(work, dst, sources), ...);
  OverNumberedLanes(work, dst, [f](uint32_t, uint32_t, const S&... values) { return f(values...); }, sources...);
}

}  // namespace twin_detail

// A number of leading lanes; in counter mode, of elements.
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t length) {
  auto& mask = twin::Core::Current().Mask();
  if (mode == MaskMode::COUNTER) {
    mask.low = static_cast<uint64_t>(length);
    return;
  }
  uint64_t bits[2];
  twin_detail::ContiguousMask(static_cast<uint64_t>(length), twin_detail::kLanesPerRepeat<T>, bits);
  mask.low = bits[0];
  mask.high = bits[1];
}

}  // namespace AscendC
