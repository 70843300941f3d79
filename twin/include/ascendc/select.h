// Comparisons to bits and selection by bits, count forms.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

namespace twin_detail {

template <typename T>
bool Holds(T a, T b, CMPMODE mode) {
  switch (mode) {
    case CMPMODE::LT:
      return a < b;
    case CMPMODE::GT:
      return a > b;
    case CMPMODE::EQ:
      return a == b;
    case CMPMODE::LE:
      return a <= b;
    case CMPMODE::GE:
      return a >= b;
    default:
      return a != b;
  }
}

template <typename T>
void CheckWholeRepeats(uint32_t count) {
  if (count * sizeof(T) % 256 != 0) {
    twin::Core::Current().Trap("E-26", "%u elements of %zu bytes are no whole repeats of 256 bytes", count, sizeof(T));
  }
}

template <typename T, typename U, typename F>
void CompareBits(const LocalTensor<U>& dst, const LocalTensor<T>& src0, uint32_t count, CMPMODE mode, F right) {
  static_assert(kOneOf<U, uint8_t, int8_t>, "E-30: comparisons write bits into bytes");
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: comparisons do not take this type");
  auto& core = twin::Core::Current();
  if (std::is_same<T, int32_t>::value && mode != CMPMODE::EQ) {
    core.Trap("E-30", "int32_t is compared for equality only");
  }
  CheckWholeRepeats<T>(count);
  if (count == 0) {
    return;
  }
  const auto* left = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, count * sizeof(T)));
  auto* bits = core.UbWrite(dst.Range(), 0, count / 8);
  for (uint32_t i = 0; i < count; i += 8) {
    unsigned byte = 0;
    for (uint32_t lane = 0; lane < 8; ++lane) {
      byte |= static_cast<unsigned>(Holds(left[i + lane], right(i + lane), mode)) << lane;
    }
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
  core.Defined(src0.Range(), 0, count * sizeof(T)) ? core.Define(dst.Range(), 0, count / 8)
                                                   : core.Undefine(dst.Range(), 0, count / 8);
}

template <typename T, typename U, typename F>
void SelectBits(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, uint32_t count,
                bool rightDefined, F right) {
  static_assert(kOneOf<T, half, float>, "E-30: Select does not take this type");
  static_assert(kOneOf<U, uint8_t, uint16_t, uint32_t, uint64_t>, "E-30: Select does not take this type of mask");
  auto& core = twin::Core::Current();
  core.UseSelectScratch();
  CheckWholeRepeats<T>(count);
  if (count == 0) {
    return;
  }
  const auto* bits = core.UbRead(selMask.Range(), 0, count / 8);
  const auto* left = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, count * sizeof(T)));
  const bool defined =
      rightDefined && core.Defined(src0.Range(), 0, count * sizeof(T)) && core.Defined(selMask.Range(), 0, count / 8);
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint32_t i = 0; i < count; ++i) {
    to[i] = ((bits[i / 8] >> (i % 8)) & 1u) != 0 ? left[i] : right(i);
  }
  defined ? core.Define(dst.Range(), 0, count * sizeof(T)) : core.Undefine(dst.Range(), 0, count * sizeof(T));
}

}  // namespace twin_detail

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             uint32_t count) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Compare");
  const auto* right = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, count * sizeof(T)));
  twin_detail::CompareBits(dst, src0, count, mode, [right](uint32_t i) { return right[i]; });
}

template <typename T, typename U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                   uint32_t count) {
  twin::Core::Current().Issue(PIPE_V, "CompareScalar");
  twin_detail::CompareBits(dst, src0, count, mode, [scalar](uint32_t) { return scalar; });
}

template <typename T, typename U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode, uint32_t count) {
  CompareScalar(dst, src0, scalar, mode, count);
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, uint32_t count) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Select");
  if (mode != SELMODE::VSEL_TENSOR_TENSOR_MODE) {
    core.Trap("E-26", "Select of two tensors in this twin: VSEL_TENSOR_TENSOR_MODE");
  }
  const auto* right = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, count * sizeof(T)));
  twin_detail::SelectBits(dst, selMask, src0, count, core.Defined(src1.Range(), 0, count * sizeof(T)),
                          [right](uint32_t i) { return right[i]; });
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const T src1,
            SELMODE mode, uint32_t count) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Select");
  if (mode != SELMODE::VSEL_TENSOR_SCALAR_MODE) {
    core.Trap("E-26", "Select of a tensor and a scalar: VSEL_TENSOR_SCALAR_MODE");
  }
  twin_detail::SelectBits(dst, selMask, src0, count, true, [src1](uint32_t) { return src1; });
}

}  // namespace AscendC
