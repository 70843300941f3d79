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

// What one instruction works on. In counter mode the mask is the number of elements of all repeats.
class Lanes {
 public:
  Lanes(uint64_t mask, int64_t repeat, uint32_t lanes, bool setsMask) : lanes_(lanes) {
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
  Lanes(const uint64_t* mask, int64_t repeat, uint32_t lanes, bool setsMask) : lanes_(lanes) {
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
  bool On(uint32_t repeat, uint32_t lane) const {
    return counted_ ? static_cast<uint64_t>(repeat) * lanes_ + lane < total_
                    : ((bits_[lane / 64] >> (lane % 64)) & 1u) != 0;
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
  // A source block is the destination's block of the same lanes, or apart from all of its blocks.
  void CheckAgainst(const LaneBlocks& to) const {
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
  LaneBlocks Blocks(uint32_t repeat) const { return LaneBlocks(tensor, repeat, blockStride, repeatStride); }

  const LocalTensor<T>& tensor;
  uint32_t blockStride;
  uint32_t repeatStride;
  bool chained;  // it may read what an earlier repeat of the same instruction has written
};

template <typename T>
T LoadLane(const Operand<T>& source, const LaneBlocks& blocks, uint32_t lane, bool& defined) {
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
void StoreBytes(const LocalTensor<T>& dst, uint64_t at, const void* value, uint32_t bytes, bool defined) {
  auto& core = twin::Core::Current();
  std::memcpy(core.UbWrite(dst.Range(), at, bytes, bytes), value, bytes);
  defined ? core.Define(dst.Range(), at, bytes) : core.Undefine(dst.Range(), at, bytes);
}

template <typename D, typename S>
void CheckBlocks(const LaneBlocks& to, const LaneBlocks& from) {
  if (sizeof(D) == sizeof(S)) {
    from.CheckAgainst(to);
  }
}

// dst = f(sources...) on each lane. A repeat reads all of its lanes before it writes one.
template <typename D, typename F, typename... S>
void OverLanes(const Lanes& work, const Operand<D>& dst, F f, const Operand<S>&... sources) {
  CheckStride(dst.blockStride);
  D results[128] = {};
  bool defined[128] = {};
  const uint32_t lanes = work.PerRepeat();
  for (uint32_t r = 0; r < work.Repeats(); ++r) {
    const LaneBlocks to = dst.Blocks(r);
    const auto evaluate = [&](const auto&... blocks) {
      (CheckBlocks<D, S>(to, blocks), ...);
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        if (work.On(r, lane)) {
          defined[lane] = true;
          results[lane] = f(LoadLane(sources, blocks, lane, defined[lane])...);
        }
      }
    };
    evaluate(sources.Blocks(r)...);
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (work.On(r, lane)) {
        StoreBytes(dst.tensor, to.Offset(lane, kLanesPerBlock<D>, sizeof(D)), &results[lane], sizeof(D), defined[lane]);
      }
    }
  }
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
