// Sums and extremes: of a whole tensor, of each repeat, of each block, of pairs.
#pragma once
#include <vector>

#include "ascendc/elementwise.h"

namespace AscendC {

enum class ReduceOrder {
  ORDER_VALUE_INDEX = 0,
  ORDER_INDEX_VALUE,
  ORDER_ONLY_VALUE,
  ORDER_ONLY_INDEX,
};

namespace twin_detail {

// A repeat's lanes, as a reduction reads them.
template <typename T>
struct Repeat {
  T values[128] = {};
  bool on[128] = {};
  bool defined = true;
  uint32_t lanes = 0;
};

template <typename T>
Repeat<T> ReadRepeat(const Operand<T>& src, const Lanes& work, uint32_t r) {
  Repeat<T> read;
  read.lanes = work.PerRepeat();
  const LaneMask on = work.On(r);
  const LaneValues<T> values = ReadLanes(src, r, on, read.lanes);
  for (uint32_t lane = 0; lane < read.lanes; ++lane) {
    read.on[lane] = on.On(lane);
    read.values[lane] = read.on[lane] ? values.of[lane] : T(0);
    read.defined = read.defined && (!read.on[lane] || values.Defined(lane));
  }
  return read;
}

// Adjacent pairs, then pairs of pairs; lanes that are off count as 0.
template <typename T>
T TreeSum(const T* values, uint32_t count) {
  std::vector<T> sums(values, values + count);
  for (uint32_t left = count; left > 1; left = (left + 1) / 2) {
    for (uint32_t i = 0; i < left; i += 2) {
      sums[i / 2] = i + 1 < left ? static_cast<T>(sums[i] + sums[i + 1]) : sums[i];
    }
  }
  return sums.empty() ? T(0) : sums[0];
}

template <bool largest, typename T>
bool Beats(T value, T best) {
  return largest ? value > best : value < best;
}

// The extreme of the lanes that are on, and where it is first; -1 where none is on.
template <bool largest, typename T>
int32_t Extreme(const Repeat<T>& read, uint32_t from, uint32_t to) {
  int32_t best = -1;
  for (uint32_t lane = from; lane < to; ++lane) {
    if (read.on[lane] && (best < 0 || Beats<largest>(read.values[lane], read.values[best]))) {
      best = static_cast<int32_t>(lane);
    }
  }
  return best;
}

// Indices are stored as bits in the place of a value: uint16_t beside half, uint32_t beside float.
template <typename T>
using IndexOf = typename std::conditional<sizeof(T) == 2, uint16_t, uint32_t>::type;

template <typename T>
void CheckReduced(const LocalTensor<T>& dst, uint32_t unit) {
  static_assert(kFloating<T>, "E-30: reductions take half and float");
  if (dst.GetPhyAddr() % unit != 0) {
    twin::Core::Current().Trap("E-01", "UB address 0x%llx of a reduction's result is not aligned to %u bytes",
                               static_cast<unsigned long long>(dst.GetPhyAddr()), unit);
  }
}

// What a reduction uses of its scratch is lost.
template <typename T>
void UseScratch(const LocalTensor<T>& scratch, uint64_t elements) {
  auto& core = twin::Core::Current();
  core.UbWrite(scratch.Range(), 0, elements * sizeof(T));
  core.Undefine(scratch.Range(), 0, elements * sizeof(T));
}

inline uint64_t RoundedUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

template <typename T>
uint64_t ExtremeScratch(uint64_t repeats, bool withIndex) {
  uint64_t total = 0;
  for (uint64_t n = repeats;;) {
    const uint64_t size = RoundedUp(2 * n, kLanesPerBlock<T>);
    total += size;
    n = (size + kLanesPerRepeat<T> - 1) / kLanesPerRepeat<T>;
    if (!withIndex || n <= 1) {
      return total;
    }
  }
}

// The lanes of a count form: whole repeats and a rest.
template <typename T>
std::vector<Repeat<T>> ReadCount(const LocalTensor<T>& src, uint64_t count) {
  auto& core = twin::Core::Current();
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src.Range(), 0, count * sizeof(T)));
  std::vector<Repeat<T>> repeats;
  for (uint64_t at = 0; at < count; at += kLanesPerRepeat<T>) {
    Repeat<T> read;
    read.lanes = kLanesPerRepeat<T>;
    for (uint32_t lane = 0; lane < read.lanes; ++lane) {
      read.on[lane] = at + lane < count;
      read.values[lane] = read.on[lane] ? from[at + lane] : T(0);
    }
    const uint64_t bytes = (count - at < read.lanes ? count - at : read.lanes) * sizeof(T);
    read.defined = core.Defined(src.Range(), at * sizeof(T), bytes);
    repeats.push_back(read);
  }
  return repeats;
}

template <typename T, typename M>
std::vector<Repeat<T>> ReadMasked(const LocalTensor<T>& src, M mask, int64_t repeatTime, uint32_t srcBlkStride,
                                  uint32_t srcRepStride, bool setsMask) {
  const Lanes work(mask, repeatTime, kLanesPerRepeat<T>, setsMask);
  const Operand<T> operand(src, srcBlkStride, srcRepStride);
  std::vector<Repeat<T>> repeats;
  for (uint32_t r = 0; r < work.Repeats(); ++r) {
    repeats.push_back(ReadRepeat(operand, work, r));
  }
  return repeats;
}

template <typename T>
void StoreSum(const LocalTensor<T>& dst, const LocalTensor<T>& scratch, const std::vector<Repeat<T>>& repeats,
              bool tree) {
  if (repeats.empty()) {
    return;
  }
  std::vector<T> sums;
  bool defined = true;
  for (const auto& repeat : repeats) {
    sums.push_back(TreeSum(repeat.values, repeat.lanes));
    defined = defined && repeat.defined;
  }
  T total = sums[0];
  if (tree) {
    total = TreeSum(sums.data(), static_cast<uint32_t>(sums.size()));
  } else {
    for (std::size_t i = 1; i < sums.size(); ++i) {
      total = static_cast<T>(total + sums[i]);
    }
  }
  UseScratch(scratch, RoundedUp(repeats.size(), kLanesPerBlock<T>));
  StoreBytes(dst, 0, &total, sizeof(T), defined);
}

template <bool largest, typename T>
void StoreExtreme(const LocalTensor<T>& dst, const LocalTensor<T>& scratch, const std::vector<Repeat<T>>& repeats,
                  bool withIndex) {
  int64_t index = -1;
  T best{};
  bool defined = true;
  for (std::size_t r = 0; r < repeats.size(); ++r) {
    defined = defined && repeats[r].defined;
    const int32_t lane = Extreme<largest>(repeats[r], 0, repeats[r].lanes);
    if (lane >= 0 && (index < 0 || Beats<largest>(repeats[r].values[lane], best))) {
      best = repeats[r].values[lane];
      index = static_cast<int64_t>(r) * kLanesPerRepeat<T> + lane;
    }
  }
  if (index < 0) {
    return;
  }
  UseScratch(scratch, ExtremeScratch<T>(repeats.size(), withIndex));
  StoreBytes(dst, 0, &best, sizeof(T), defined);
  if (withIndex) {
    const auto bits = static_cast<IndexOf<T>>(index);
    StoreBytes(dst, sizeof(T), &bits, sizeof(T), defined);
  }
}

template <bool largest, typename T>
void StoreExtremes(const LocalTensor<T>& dst, const std::vector<Repeat<T>>& repeats, int32_t dstRepStride,
                   ReduceOrder order) {
  for (std::size_t r = 0; r < repeats.size(); ++r) {
    const int32_t lane = Extreme<largest>(repeats[r], 0, repeats[r].lanes);
    if (lane < 0) {
      continue;
    }
    const T value = repeats[r].values[lane];
    const auto index = static_cast<IndexOf<T>>(lane);
    const auto wide = static_cast<uint32_t>(lane);
    const bool defined = repeats[r].defined;
    const uint64_t step = r * static_cast<uint64_t>(dstRepStride);
    switch (order) {
      case ReduceOrder::ORDER_VALUE_INDEX:
        StoreBytes(dst, step * 2 * sizeof(T), &value, sizeof(T), defined);
        StoreBytes(dst, step * 2 * sizeof(T) + sizeof(T), &index, sizeof(T), defined);
        break;
      case ReduceOrder::ORDER_INDEX_VALUE:
        StoreBytes(dst, step * 2 * sizeof(T), &index, sizeof(T), defined);
        StoreBytes(dst, step * 2 * sizeof(T) + sizeof(T), &value, sizeof(T), defined);
        break;
      case ReduceOrder::ORDER_ONLY_VALUE:
        StoreBytes(dst, step * sizeof(T), &value, sizeof(T), defined);
        break;
      default:
        StoreBytes(dst, step * sizeof(wide), &wide, sizeof(wide), defined);
        break;
    }
  }
}

template <typename T, typename M>
void SumRepeats(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int64_t repeatTime,
                int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, bool setsMask) {
  twin::Core::Current().Issue(PIPE_V, name);
  CheckReduced(dst, sizeof(T));
  const auto repeats = ReadMasked(src, mask, repeatTime, static_cast<uint32_t>(srcBlkStride),
                                  static_cast<uint32_t>(srcRepStride), setsMask);
  for (std::size_t r = 0; r < repeats.size(); ++r) {
    const T sum = TreeSum(repeats[r].values, repeats[r].lanes);
    StoreBytes(dst, r * static_cast<uint64_t>(dstRepStride) * sizeof(T), &sum, sizeof(T), repeats[r].defined);
  }
}

struct BlockSum {
  template <typename T>
  static T Of(const Repeat<T>& read, uint32_t from, uint32_t to) {
    return TreeSum(read.values + from, to - from);
  }
};
template <bool largest>
struct BlockExtreme {
  template <typename T>
  static T Of(const Repeat<T>& read, uint32_t from, uint32_t to) {
    return read.values[Extreme<largest>(read, from, to)];
  }
};

// One value for each 32-byte block; a block without a lane that is on keeps its old result.
template <typename Of, typename T, typename M>
void ReduceBlocks(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int64_t repeatTime,
                  int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, bool setsMask) {
  twin::Core::Current().Issue(PIPE_V, name);
  CheckReduced(dst, 8 * sizeof(T));
  const auto repeats = ReadMasked(src, mask, repeatTime, static_cast<uint32_t>(srcBlkStride),
                                  static_cast<uint32_t>(srcRepStride), setsMask);
  for (std::size_t r = 0; r < repeats.size(); ++r) {
    for (uint32_t block = 0; block < 8; ++block) {
      const uint32_t from = block * kLanesPerBlock<T>;
      if (Extreme<true>(repeats[r], from, from + kLanesPerBlock<T>) >= 0) {
        const T value = Of::Of(repeats[r], from, from + kLanesPerBlock<T>);
        const uint64_t at = (r * static_cast<uint64_t>(dstRepStride) * 8 + block) * sizeof(T);
        StoreBytes(dst, at, &value, sizeof(T), repeats[r].defined);
      }
    }
  }
}

template <typename T, typename M>
void SumPairs(const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int64_t repeatTime, int32_t dstRepStride,
              int32_t srcBlkStride, int32_t srcRepStride, bool setsMask) {
  twin::Core::Current().Issue(PIPE_V, "PairReduceSum");
  CheckReduced(dst, 32);
  const auto repeats = ReadMasked(src, mask, repeatTime, static_cast<uint32_t>(srcBlkStride),
                                  static_cast<uint32_t>(srcRepStride), setsMask);
  for (std::size_t r = 0; r < repeats.size(); ++r) {
    for (uint32_t pair = 0; pair < kLanesPerRepeat<T> / 2; ++pair) {
      const auto& read = repeats[r];
      if (read.on[2 * pair] || read.on[2 * pair + 1]) {
        const T sum = static_cast<T>(read.values[2 * pair] + read.values[2 * pair + 1]);
        StoreBytes(dst, r * static_cast<uint64_t>(dstRepStride) * 128 + pair * sizeof(T), &sum, sizeof(T),
                   read.defined);
      }
    }
  }
}

}  // namespace twin_detail
}  // namespace AscendC
