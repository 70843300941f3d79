// Rows of tensors in the unified buffer as library functions take them: computed in float, rounded when they are
// written.
#pragma once
#include <vector>

#include "ascendc/library.h"

namespace AscendC {
namespace twin_detail {

// The first `counted` elements of a row of `columns`. `defined` stays true if all of them are.
template <typename T>
std::vector<float> ReadRow(const LocalTensor<T>& src, uint64_t row, uint32_t columns, uint32_t counted, bool& defined) {
  auto& core = twin::Core::Current();
  const uint64_t at = row * columns * sizeof(T);
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src.Range(), at, columns * sizeof(T)));
  defined = defined && core.Defined(src.Range(), at, counted * sizeof(T));
  std::vector<float> values(counted);
  for (uint32_t i = 0; i < counted; ++i) {
    values[i] = static_cast<float>(from[i]);
  }
  return values;
}

// What is behind the values in their row is not to be relied on.
template <typename T>
void WriteRow(const LocalTensor<T>& dst, uint64_t row, uint32_t columns, const std::vector<float>& values,
              bool defined) {
  auto& core = twin::Core::Current();
  const uint64_t at = row * columns * sizeof(T);
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), at, columns * sizeof(T)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    to[i] = static_cast<T>(values[i]);
  }
  core.Undefine(dst.Range(), at, columns * sizeof(T));
  if (defined) {
    core.Define(dst.Range(), at, values.size() * sizeof(T));
  }
}

// One value of each row, beside the others.
template <typename T>
void WriteValue(const LocalTensor<T>& dst, uint64_t row, float value, bool defined) {
  const T rounded = static_cast<T>(value);
  StoreBytes(dst, row * sizeof(T), &rounded, sizeof(T), defined);
}

// One value for each row, all over a block of 32 bytes.
template <typename T>
float ReadBlock(const LocalTensor<T>& src, uint64_t row, bool& defined) {
  return ReadRow(src, row, kLanesPerBlock<T>, 1, defined)[0];
}
template <typename T>
void WriteBlock(const LocalTensor<T>& dst, uint64_t row, float value, bool defined) {
  WriteRow(dst, row, kLanesPerBlock<T>, std::vector<float>(kLanesPerBlock<T>, value), defined);
}

// The same bytes, or none of each other's.
template <typename D, typename S>
void CheckSameOrApart(const char* call, const LocalTensor<D>& dst, const LocalTensor<S>& src, uint64_t elements) {
  if (dst.GetPhyAddr() != src.GetPhyAddr()) {
    CheckApart(call, dst, elements * sizeof(D), src, elements * sizeof(S));
  }
}

inline void CheckRowBytes(const char* call, uint32_t columns, uint32_t counted, std::size_t bytes) {
  if (counted > columns || columns * bytes % twin::kUbBlock != 0) {
    twin::Core::Current().Trap("E-25",
                               "%s of rows of %u elements, %u of them counted: rows are whole blocks of 32 bytes", call,
                               columns, counted);
  }
}

// Scratch that a call is given, or (null) that it finds behind the buffers. What it held is lost.
inline void UseScratch(const char* call, const LocalTensor<uint8_t>* scratch, uint64_t bytes) {
  auto& core = twin::Core::Current();
  if (scratch == nullptr) {
    if (core.UbUnused() < bytes) {
      core.Trap("E-03", "%s finds %u bytes of scratch behind the buffers, it takes %llu", call, core.UbUnused(),
                static_cast<unsigned long long>(bytes));
    }
    return;
  }
  if (scratch->Range().bytes < bytes) {
    core.Trap("E-25", "%s is given %u bytes of scratch, it takes %llu", call, scratch->Range().bytes,
              static_cast<unsigned long long>(bytes));
  }
  LoseScratch(*scratch);
}
template <typename T>
void CheckScratch(const char* call, const LocalTensor<uint8_t>* scratch, const LocalTensor<T>& operand,
                  uint64_t elements) {
  if (scratch != nullptr && scratch->GetPhyAddr() < operand.GetPhyAddr() + elements * sizeof(T) &&
      operand.GetPhyAddr() < scratch->GetPhyAddr() + scratch->Range().bytes) {
    twin::Core::Current().Trap("E-27", "the scratch of %s overlaps an operand, at UB 0x%llx", call,
                               static_cast<unsigned long long>(operand.GetPhyAddr()));
  }
}

// A source that may be overwritten (isReuseSource) is lost, where it is no destination.
template <typename T>
void LoseSource(const LocalTensor<T>& src, const LocalTensor<T>& dst, uint64_t elements) {
  if (src.GetPhyAddr() != dst.GetPhyAddr()) {
    auto& core = twin::Core::Current();
    core.UbWrite(src.Range(), 0, elements * sizeof(T));
    core.Undefine(src.Range(), 0, elements * sizeof(T));
  }
}

}  // namespace twin_detail
}  // namespace AscendC
