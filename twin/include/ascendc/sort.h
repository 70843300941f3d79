// Sorting: records of a key and an index, 8 bytes each, by descending keys; equal keys keep their order.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "ascendc/lanes.h"
#include "ascendc/library.h"

namespace AscendC {

struct MrgSort4Info {
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspends, uint16_t valid, uint16_t repeats)
      : ifExhaustedSuspension(suspends), validBit(valid), repeatTimes(repeats) {
    std::copy(lengths, lengths + 4, elementLengths);
  }
  uint16_t elementLengths[4] = {};  // records of each list
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  uint16_t repeatTimes = 1;
};

template <typename T>
struct MrgSortSrcList {
  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& first, const LocalTensor<T>& second, const LocalTensor<T>& third,
                 const LocalTensor<T>& fourth)
      : src1(first), src2(second), src3(third), src4(fourth) {}
  LocalTensor<T> src1, src2, src3, src4;
};

namespace twin_detail {

constexpr uint32_t kSorted = 32;  // elements that Sort32 sorts in a repeat
constexpr uint64_t kRecordBytes = 8;
constexpr uint64_t kIndexAt = 4;
constexpr uint16_t kMostRecords = 4095;

// A key of two bytes lies in the low half of the first four; the two above it are zero.
template <typename T>
struct SortRecord {
  T key;
  uint32_t index;
  bool indexDefined;
};

template <typename T>
void SortDescending(std::vector<SortRecord<T>>& records, std::size_t first, std::size_t count) {
  const auto begin = records.begin() + static_cast<std::ptrdiff_t>(first);
  std::stable_sort(begin, begin + static_cast<std::ptrdiff_t>(count),
                   [](const SortRecord<T>& a, const SortRecord<T>& b) { return a.key > b.key; });
}

template <typename T>
void WriteRecord(const LocalTensor<T>& dst, uint64_t place, const SortRecord<T>& record) {
  uint8_t bytes[kRecordBytes] = {};
  std::memcpy(bytes, &record.key, sizeof(T));
  std::memcpy(bytes + kIndexAt, &record.index, sizeof(record.index));
  StoreBytes(dst, place * kRecordBytes, bytes, kRecordBytes, true);
  if (!record.indexDefined) {
    twin::Core::Current().Undefine(dst.Range(), place * kRecordBytes + kIndexAt, sizeof(record.index));
  }
}

template <typename T>
SortRecord<T> ReadRecord(const LocalTensor<T>& src, uint64_t place) {
  auto& core = twin::Core::Current();
  const uint64_t at = place * kRecordBytes;
  const uint8_t* bytes = core.UbRead(src.Range(), at, kRecordBytes, kRecordBytes);
  core.RequireDefined(src.Range(), at, sizeof(T));
  SortRecord<T> record;
  std::memcpy(&record.key, bytes, sizeof(T));
  std::memcpy(&record.index, bytes + kIndexAt, sizeof(record.index));
  record.indexDefined = core.Defined(src.Range(), at + kIndexAt, sizeof(record.index));
  return record;
}

// `repeats` groups of 32 keys and indices, each group sorted, or all together.
template <typename T>
void SortGroups(const LocalTensor<T>& dst, const LocalTensor<T>& keys, const LocalTensor<uint32_t>& indices,
                int32_t repeats, bool together) {
  static_assert(kFloating<T>, "E-30: keys to sort are half or float");
  CheckRepeat(repeats);
  const uint64_t count = static_cast<uint64_t>(repeats) * kSorted;
  if (count == 0) {
    return;
  }
  const char* overlaps = "the destination of a sort";
  CheckApart(overlaps, dst, count * kRecordBytes, keys, count * sizeof(T));
  CheckApart(overlaps, dst, count * kRecordBytes, indices, count * sizeof(uint32_t));
  auto& core = twin::Core::Current();
  const auto* key = reinterpret_cast<const T*>(core.UbRead(keys.Range(), 0, count * sizeof(T)));
  const auto* index = reinterpret_cast<const uint32_t*>(core.UbRead(indices.Range(), 0, count * sizeof(uint32_t)));
  core.RequireDefined(keys.Range(), 0, count * sizeof(T));
  std::vector<SortRecord<T>> records;
  for (uint64_t i = 0; i < count; ++i) {
    records.push_back({key[i], index[i], core.Defined(indices.Range(), i * sizeof(uint32_t), sizeof(uint32_t))});
  }
  const uint64_t group = together ? count : kSorted;
  for (uint64_t first = 0; first < count; first += group) {
    SortDescending(records, first, group);
  }
  CheckLaneOperand(dst);
  for (uint64_t i = 0; i < count; ++i) {
    WriteRecord(dst, i, records[i]);
  }
}

// Lists of records that lie one after another in their tensors, from record `first` of each.
template <typename T>
class SortedLists {
 public:
  SortedLists(const MrgSortSrcList<T>& src, const MrgSort4Info& info)
      : lists_{&src.src1, &src.src2, &src.src3, &src.src4},
        count_(info.validBit == 3    ? 2
               : info.validBit == 7  ? 3
               : info.validBit == 15 ? 4
                                     : 0) {
    auto& core = twin::Core::Current();
    if (count_ == 0) {
      core.Trap("E-25", "MrgSort: validBit %u is not 3, 7 or 15", info.validBit);
    }
    for (int list = 0; list < count_; ++list) {
      length_[list] = info.elementLengths[list];
      if (length_[list] > kMostRecords) {
        core.Trap("E-23", "MrgSort: a list of %u records; at most %u", length_[list], kMostRecords);
      }
      CheckLaneOperand(*lists_[list]);
    }
    const bool even = std::all_of(length_, length_ + 4, [this](uint16_t length) { return length == length_[0]; });
    if (info.repeatTimes > 1 && (count_ < 4 || !even || info.ifExhaustedSuspension)) {
      core.Trap("E-25", "MrgSort: more than one repeat needs four lists of one length, and no suspension");
    }
  }

  uint64_t Records() const { return static_cast<uint64_t>(length_[0]) + length_[1] + length_[2] + length_[3]; }

  // Four lists lie side by side in each repeat: the next one's begin behind the fourth.
  std::vector<SortRecord<T>> Merge(uint64_t repeat, bool suspends, uint16_t (&taken)[4]) const {
    std::vector<SortRecord<T>> heads(4), merged;
    std::fill(taken, taken + 4, uint16_t{0});
    const uint64_t first = repeat * Records();
    const auto load = [&](int list) {
      if (taken[list] < length_[list]) {
        heads[static_cast<std::size_t>(list)] = ReadRecord(*lists_[list], first + taken[list]);
      }
    };
    for (int list = 0; list < count_; ++list) {
      load(list);
    }
    for (;;) {
      int best = -1;
      bool exhausted = false;
      for (int list = 0; list < count_; ++list) {
        if (taken[list] == length_[list]) {
          exhausted = true;
        } else if (best < 0 || heads[static_cast<std::size_t>(list)].key > heads[static_cast<std::size_t>(best)].key) {
          best = list;
        }
      }
      if (best < 0 || (exhausted && suspends)) {
        return merged;
      }
      merged.push_back(heads[static_cast<std::size_t>(best)]);
      ++taken[best];
      load(best);
    }
  }

  void CheckAgainst(const LocalTensor<T>& dst, uint64_t repeats) const {
    for (int list = 0; list < count_; ++list) {
      CheckApart("the destination of MrgSort", dst, repeats * Records() * kRecordBytes, *lists_[list],
                 ((repeats - 1) * Records() + length_[list]) * kRecordBytes);
    }
  }

 private:
  const LocalTensor<T>* lists_[4];
  int count_;
  uint16_t length_[4] = {};
};

}  // namespace twin_detail

// The size of a record, in elements of T.
template <typename T>
uint32_t GetSortOffset(const uint32_t elemOffset) {
  return elemOffset * static_cast<uint32_t>(twin_detail::kRecordBytes / sizeof(T));
}

template <typename T>
uint32_t GetSortLen(const uint32_t elemCount) {
  return GetSortOffset<T>(elemCount);
}

template <typename T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
            const int32_t repeatTime) {
  twin::Core::Current().Issue(PIPE_V, "Sort32");
  twin_detail::SortGroups(dst, src0, src1, repeatTime, false);
}

template <typename T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params) {
  static_assert(twin_detail::kFloating<T>, "E-30: keys to sort are half or float");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "MrgSort");
  const twin_detail::SortedLists<T> lists(src, params);
  if (params.repeatTimes == 0) {
    return;
  }
  lists.CheckAgainst(dst, params.repeatTimes);
  twin_detail::CheckLaneOperand(dst);
  for (uint64_t repeat = 0; repeat < params.repeatTimes; ++repeat) {
    const auto merged = lists.Merge(repeat, params.ifExhaustedSuspension, core.Mask().merged);
    for (uint64_t i = 0; i < merged.size(); ++i) {
      twin_detail::WriteRecord(dst, repeat * lists.Records() + i, merged[i]);
    }
  }
}

// Records that the last MrgSort took from each of its lists.
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3,
                             uint16_t& mrgSortList4) {
  auto& core = twin::Core::Current();
  core.KnowFinished(PIPE_S, PIPE_V);
  const auto& merged = core.Mask().merged;
  mrgSortList1 = merged[0];
  mrgSortList2 = merged[1];
  mrgSortList3 = merged[2];
  mrgSortList4 = merged[3];
}

// The library layer. Atlas A2 needs no other layout of the keys: `concat` names them, without a copy.
template <typename T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, const int32_t) {
  concat = src;
}

template <typename T, bool isFullSort>
void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
          LocalTensor<T>& tmp, const int32_t repeatTimes) {
  twin::Core::Current().Issue(PIPE_V, "Sort");
  twin_detail::SortGroups(dst, concat, index, repeatTimes, isFullSort);
  if (isFullSort && repeatTimes > 1) {
    twin_detail::LoseScratch(tmp.template ReinterpretCast<uint8_t>());
  }
}

template <typename T>
void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted,
             const int32_t repeatTimes) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Extract");
  twin_detail::CheckRepeat(repeatTimes);
  for (uint64_t i = 0; i < static_cast<uint64_t>(repeatTimes) * twin_detail::kSorted; ++i) {
    const auto record = twin_detail::ReadRecord(sorted, i);
    twin_detail::StoreBytes(dstValue, i * sizeof(T), &record.key, sizeof(T), true);
    twin_detail::StoreBytes(dstIndex, i * sizeof(uint32_t), &record.index, sizeof(uint32_t), record.indexDefined);
  }
}

}  // namespace AscendC
