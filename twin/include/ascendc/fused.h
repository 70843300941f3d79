// Elementwise instructions of two steps: products that are added, sums that are rectified.
#pragma once
#include "ascendc/elementwise.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
T Rectified(T x) {
  return x > T(0) ? x : T(0);
}
struct AddReluOp {
  template <typename T>
  T operator()(T a, T b) const {
    return Rectified(AddOp{}(a, b));
  }
};
struct SubReluOp {
  template <typename T>
  T operator()(T a, T b) const {
    return Rectified(SubOp{}(a, b));
  }
};
// dst + a * b; half sources may go to a float destination.
struct MulAddDstOp {
  template <typename D, typename S>
  D operator()(D dst, S a, S b) const {
    return static_cast<D>(static_cast<float>(dst) + static_cast<float>(a) * static_cast<float>(b));
  }
};
struct FusedMulAddOp {
  template <typename T>
  T operator()(T dst, T a, T b) const {
    return static_cast<T>(static_cast<float>(a) * static_cast<float>(dst) + static_cast<float>(b));
  }
};
struct FusedMulAddReluOp {
  template <typename T>
  T operator()(T dst, T a, T b) const {
    return Rectified(FusedMulAddOp{}(dst, a, b));
  }
};

template <typename D, typename S>
inline constexpr bool kAccumulated =
    (std::is_same<D, S>::value && kFloating<D>) || (std::is_same<D, float>::value && std::is_same<S, half>::value);
template <typename T>
inline constexpr bool kRectifiedSum = kOneOf<T, int16_t, half, float>;

// dst = f(dst, sources...) over a count of elements.
template <typename D, typename F, typename... S>
void OntoCount(const char* name, const LocalTensor<D>& dst, int64_t countIn, F f, const LocalTensor<S>&... sources) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint64_t count = CheckCount(countIn);
  if (count == 0) {
    return;
  }
  (CheckOverlap(dst, sources, count), ...);
  const auto* old = reinterpret_cast<const D*>(core.UbRead(dst.Range(), 0, count * sizeof(D)));
  const auto from = [&](const auto*... data) {
    auto* to = reinterpret_cast<D*>(core.UbWrite(dst.Range(), 0, count * sizeof(D)));
    for (uint64_t i = 0; i < count; ++i) {
      const bool defined = core.Defined(dst.Range(), i * sizeof(D), sizeof(D)) &&
                           (core.Defined(sources.Range(), i * sizeof(S), sizeof(S)) && ...);
      to[i] = f(old[i], data[i]...);
      if (!defined) {
        core.Undefine(dst.Range(), i * sizeof(D), sizeof(D));
      }
    }
  };
  from(reinterpret_cast<const S*>(core.UbRead(sources.Range(), 0, count * sizeof(S)))...);
}

template <typename D, typename S, typename M, typename F>
void OntoUnaryLanes(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& src, M mask, int64_t repeatTime,
                    const UnaryRepeatParams& p, bool setsMask, F f) {
  twin::Core::Current().Issue(PIPE_V, name);
  const Lanes work(mask, repeatTime, kLanesPerRepeat<D>, setsMask);
  OverLanes(work, Operand<D>(dst, p.dstBlkStride, p.dstRepStride), f,
            Operand<D>(dst, p.dstBlkStride, p.dstRepStride, p.dstRepStride == 0),
            Operand<S>(src, p.srcBlkStride, p.srcRepStride));
}

template <typename D, typename S, typename M, typename F>
void OntoBinaryLanes(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& src0,
                     const LocalTensor<S>& src1, M mask, int64_t repeatTime, const BinaryRepeatParams& p, bool setsMask,
                     F f) {
  twin::Core::Current().Issue(PIPE_V, name);
  const Lanes work(mask, repeatTime, kLanesPerRepeat<D>, setsMask);
  OverLanes(work, Operand<D>(dst, p.dstBlkStride, p.dstRepStride), f,
            Operand<D>(dst, p.dstBlkStride, p.dstRepStride, p.dstRepStride == 0),
            Operand<S>(src0, p.src0BlkStride, p.src0RepStride), Operand<S>(src1, p.src1BlkStride, p.src1RepStride));
}

}  // namespace twin_detail

template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalar, const int32_t& count) {
  static_assert(twin_detail::kAccumulated<T, U>, "E-30: Axpy does not take these types");
  twin_detail::OntoCount(
      "Axpy", dst, count, [scalar](T old, U x) { return twin_detail::MulAddDstOp{}(old, x, scalar); }, src);
}

template <typename T, typename U>
void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
               const int32_t& count) {
  static_assert(twin_detail::kAccumulated<T, U>, "E-30: MulAddDst does not take these types");
  twin_detail::OntoCount("MulAddDst", dst, count, twin_detail::MulAddDstOp{}, src0, src1);
}

template <typename T>
void FusedMulAdd(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const int32_t& count) {
  static_assert(twin_detail::kFloating<T>, "E-30: FusedMulAdd does not take this type");
  twin_detail::OntoCount("FusedMulAdd", dst, count, twin_detail::FusedMulAddOp{}, src0, src1);
}

template <typename T>
void FusedMulAddRelu(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                     const int32_t& count) {
  static_assert(twin_detail::kFloating<T>, "E-30: FusedMulAddRelu does not take this type");
  twin_detail::OntoCount("FusedMulAddRelu", dst, count, twin_detail::FusedMulAddReluOp{}, src0, src1);
}

template <typename T>
void AddRelu(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) {
  static_assert(twin_detail::kRectifiedSum<T>, "E-30: AddRelu does not take this type");
  twin_detail::Binary("AddRelu", dst, src0, src1, count, twin_detail::AddReluOp{});
}

template <typename T>
void SubRelu(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) {
  static_assert(twin_detail::kRectifiedSum<T>, "E-30: SubRelu does not take this type");
  twin_detail::Binary("SubRelu", dst, src0, src1, count, twin_detail::SubReluOp{});
}

#define TWIN_FUSED(MASK)                                                                                           \
  template <typename T, typename U, bool isSetMask = true>                                                         \
  void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalar, MASK, const int64_t repeatTime, \
            const UnaryRepeatParams& params) {                                                                     \
    static_assert(twin_detail::kAccumulated<T, U>, "E-30: Axpy does not take these types");                        \
    twin_detail::OntoUnaryLanes("Axpy", dst, src, mask, repeatTime, params, isSetMask,                             \
                                [scalar](T old, U x) { return twin_detail::MulAddDstOp{}(old, x, scalar); });      \
  }                                                                                                                \
  template <typename T, typename U, bool isSetMask = true>                                                         \
  void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, MASK,          \
                 const int64_t repeatTime, const BinaryRepeatParams& params) {                                     \
    static_assert(twin_detail::kAccumulated<T, U>, "E-30: MulAddDst does not take these types");                   \
    twin_detail::OntoBinaryLanes("MulAddDst", dst, src0, src1, mask, repeatTime, params, isSetMask,                \
                                 twin_detail::MulAddDstOp{});                                                      \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  void FusedMulAdd(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, MASK,        \
                   const int64_t repeatTime, const BinaryRepeatParams& params) {                                   \
    static_assert(twin_detail::kFloating<T>, "E-30: FusedMulAdd does not take this type");                         \
    twin_detail::OntoBinaryLanes("FusedMulAdd", dst, src0, src1, mask, repeatTime, params, isSetMask,              \
                                 twin_detail::FusedMulAddOp{});                                                    \
  }
TWIN_FUSED(uint64_t mask)
TWIN_FUSED(const uint64_t mask[])
#undef TWIN_FUSED

}  // namespace AscendC
