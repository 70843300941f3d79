// TransDataTo5HD: 16 blocks of 32 bytes, transposed element by element.
#pragma once
#include "ascendc/lanes.h"

namespace AscendC {

constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

struct TransDataTo5HDParams {
  TransDataTo5HDParams() = default;
  TransDataTo5HDParams(bool dstHigh, bool srcHigh, uint8_t repeats, uint16_t dstRepeat, uint16_t srcRepeat)
      : dstHighHalf(dstHigh),
        srcHighHalf(srcHigh),
        repeatTimes(repeats),
        dstRepStride(dstRepeat),
        srcRepStride(srcRepeat) {}
  bool dstHighHalf = false;  // elements of one byte take half of each block
  bool srcHighHalf = false;
  uint8_t repeatTimes = 1;
  uint16_t dstRepStride = 0;  // in blocks
  uint16_t srcRepStride = 0;
};

namespace twin_detail {

constexpr uint32_t kTransBlocks = NCHW_CONV_ADDR_LIST_SIZE;

// The blocks of a repeat are those of the source, each in its place, or apart from all of them.
inline void CheckTransOverlap(const twin::UbRange (&dst)[kTransBlocks], const twin::UbRange (&src)[kTransBlocks]) {
  bool same = true, meet = false;
  for (uint32_t i = 0; i < kTransBlocks; ++i) {
    same = same && dst[i].address == src[i].address;
    for (uint32_t j = 0; j < kTransBlocks; ++j) {
      meet = meet || dst[i].address == src[j].address;
    }
  }
  if (meet && !same) {
    twin::Core::Current().Trap("E-27", "TransDataTo5HD: blocks of the destination are some of the source's");
  }
}

// Two bytes: block j has element j of each source. Four: blocks 2 j and 2 j + 1 have it, eight sources each. One: half
// of block j has it, of half the source.
template <typename T>
void TransBlocks(const twin::UbRange (&dst)[kTransBlocks], const twin::UbRange (&src)[kTransBlocks],
                 const TransDataTo5HDParams& params) {
  static_assert(kOneOf<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                "E-30: TransDataTo5HD does not take this type");
  auto& core = twin::Core::Current();
  if (sizeof(T) != 1 && (params.dstHighHalf || params.srcHighHalf)) {
    core.Trap("E-25", "TransDataTo5HD: dstHighHalf and srcHighHalf are for elements of one byte");
  }
  if (params.repeatTimes == 1 && (params.dstRepStride != 0 || params.srcRepStride != 0)) {
    core.Trap("E-25",
              "TransDataTo5HD of one repeat begins a stride behind its addresses: dstRepStride %u and "
              "srcRepStride %u have to be 0",
              params.dstRepStride, params.srcRepStride);
  }
  CheckTransOverlap(dst, src);
  constexpr uint32_t bytes = sizeof(T) == 1 ? 16 : twin::kUbBlock;
  constexpr uint32_t columns = bytes / sizeof(T);          // of a source block
  constexpr uint32_t blocksEach = kTransBlocks / columns;  // destination blocks that a column fills
  constexpr uint32_t rows = kTransBlocks / blocksEach;     // sources in one of them
  const uint64_t srcHalf = params.srcHighHalf ? bytes : 0, dstHalf = params.dstHighHalf ? bytes : 0;
  for (uint32_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
    T values[kTransBlocks][columns];
    bool defined[kTransBlocks][columns];
    const uint64_t from = static_cast<uint64_t>(repeat) * params.srcRepStride * twin::kUbBlock + srcHalf;
    const uint64_t to = static_cast<uint64_t>(repeat) * params.dstRepStride * twin::kUbBlock + dstHalf;
    for (uint32_t i = 0; i < kTransBlocks; ++i) {
      if (core.UbWrittenNow(src[i], from, bytes)) {
        core.Trap("E-27", "a repeat reads UB 0x%llx, which an earlier repeat of the instruction has written",
                  static_cast<unsigned long long>(src[i].address + from));
      }
      std::memcpy(values[i], core.UbRead(src[i], from, bytes, bytes), bytes);
      for (uint32_t c = 0; c < columns; ++c) {
        defined[i][c] = core.Defined(src[i], from + c * sizeof(T), sizeof(T));
      }
    }
    for (uint32_t block = 0; block < kTransBlocks; ++block) {
      auto* out = core.UbWrite(dst[block], to, bytes, bytes);
      for (uint32_t row = 0; row < rows; ++row) {
        const uint32_t source = block % blocksEach * rows + row, column = block / blocksEach;
        std::memcpy(out + row * sizeof(T), &values[source][column], sizeof(T));
        defined[source][column] ? core.Define(dst[block], to + row * sizeof(T), sizeof(T))
                                : core.Undefine(dst[block], to + row * sizeof(T), sizeof(T));
      }
    }
  }
}

inline twin::UbRange TransBlock(uint64_t address) {
  auto& core = twin::Core::Current();
  if (address % twin::kUbBlock != 0) {
    core.Trap("E-01", "UB address 0x%llx is not aligned to 32 bytes", static_cast<unsigned long long>(address));
  }
  return core.UbAt(address, "TransDataTo5HD");
}

}  // namespace twin_detail

template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE], const TransDataTo5HDParams& params) {
  twin::Core::Current().Issue(PIPE_V, "TransDataTo5HD");
  twin::UbRange dst[twin_detail::kTransBlocks], src[twin_detail::kTransBlocks];
  for (uint32_t i = 0; i < twin_detail::kTransBlocks; ++i) {
    twin_detail::CheckLaneOperand(dstList[i]);
    twin_detail::CheckLaneOperand(srcList[i]);
    dst[i] = dstList[i].Range();
    src[i] = srcList[i].Range();
  }
  twin_detail::TransBlocks<T>(dst, src, params);
}

// Addresses, as GetPhyAddr gives them.
template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& params) {
  twin::Core::Current().Issue(PIPE_V, "TransDataTo5HD");
  twin::UbRange dst[twin_detail::kTransBlocks], src[twin_detail::kTransBlocks];
  for (uint32_t i = 0; i < twin_detail::kTransBlocks; ++i) {
    dst[i] = twin_detail::TransBlock(dstList[i]);
    src[i] = twin_detail::TransBlock(srcList[i]);
  }
  twin_detail::TransBlocks<T>(dst, src, params);
}

// Addresses that lie in the unified buffer.
template <typename T>
void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                    const TransDataTo5HDParams& params) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "TransDataTo5HD");
  constexpr uint64_t bytes = twin_detail::kTransBlocks * sizeof(uint64_t);
  const auto* to = reinterpret_cast<const uint64_t*>(core.UbRead(dst.Range(), 0, bytes));
  const auto* from = reinterpret_cast<const uint64_t*>(core.UbRead(src.Range(), 0, bytes));
  core.RequireDefined(dst.Range(), 0, bytes);
  core.RequireDefined(src.Range(), 0, bytes);
  twin::UbRange dstList[twin_detail::kTransBlocks], srcList[twin_detail::kTransBlocks];
  for (uint32_t i = 0; i < twin_detail::kTransBlocks; ++i) {
    dstList[i] = twin_detail::TransBlock(to[i]);
    srcList[i] = twin_detail::TransBlock(from[i]);
  }
  twin_detail::TransBlocks<T>(dstList, srcList, params);
}

}  // namespace AscendC
