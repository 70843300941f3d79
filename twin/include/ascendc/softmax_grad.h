// SoftmaxGrad and SoftmaxGradFront of the library layer: of rows in ND, or in NZ.
#pragma once
#include "ascendc/softmax.h"

namespace AscendC {
namespace twin_detail {

// The sum of grad * src of each row, all over a block of 32 bytes (`front`), or (grad - that sum) * src.
template <typename T, bool front, bool reusesSource>
void SoftMaxGradients(const SoftMaxCall<T>& call, const LocalTensor<T>& dst, const LocalTensor<T>& grad,
                      const LocalTensor<T>& src) {
  if constexpr (front) {
    call.CheckOperands(grad, src, dst);
  } else {
    call.CheckOperands(dst, src);
    call.CheckOperands(dst, grad);
  }
  call.UseScratch();
  for (uint32_t row = 0; row < call.Rows(); ++row) {
    bool defined = true;
    const std::vector<float> probabilities = call.Read(src, row, defined);
    std::vector<float> values = call.Read(grad, row, defined);
    float sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[i] * probabilities[i];
    }
    if constexpr (front) {
      WriteBlock(dst, row, sum, defined);
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = (values[i] - sum) * probabilities[i];
      }
      call.Write(dst, row, values, defined);
    }
  }
  if (reusesSource && !front) {
    call.LoseSource(src, dst);
  }
}

template <typename T, bool reusesSource, bool isBasicBlock, bool nz>
void SoftMaxGradOf(bool isFront, const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                   const LocalTensor<uint8_t>* scratch, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info) {
  const SoftMaxCall<T> call(isFront ? "SoftmaxGradFront" : "SoftmaxGrad", tiling, info, SOFTMAX_DEFAULT_CFG,
                            isBasicBlock, scratch, nz, "GetSoftMaxGradMinTmpSize");
  isFront ? SoftMaxGradients<T, true, reusesSource>(call, dst, grad, src)
          : SoftMaxGradients<T, false, reusesSource>(call, dst, grad, src);
}

}  // namespace twin_detail

// grad: of the result of a softmax, src: that result. isFront: only the sums, as SoftmaxGradFront.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false>
void SoftmaxGrad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor, const LocalTensor<T>& srcTensor,
                 const SoftMaxTiling& tiling, bool isFront = false, const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, T, T>();
  twin_detail::SoftMaxGradOf<T, isReuseSource, isBasicBlock, isDataFormatNZ>(isFront, dstTensor, gradTensor, srcTensor,
                                                                             nullptr, tiling, softmaxShapeInfo);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false>
void SoftmaxGrad(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor, const LocalTensor<T>& srcTensor,
                 const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isFront = false,
                 const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, T, T>();
  twin_detail::SoftMaxGradOf<T, isReuseSource, isBasicBlock, isDataFormatNZ>(
      isFront, dstTensor, gradTensor, srcTensor, &sharedTmpBuffer, tiling, softmaxShapeInfo);
}

template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>
void SoftmaxGradFront(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor,
                      const LocalTensor<T>& srcTensor, const SoftMaxTiling& tiling,
                      const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  SoftmaxGrad<T, false, isBasicBlock, isDataFormatNZ>(dstTensor, gradTensor, srcTensor, tiling, true, softmaxShapeInfo);
}
template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false>
void SoftmaxGradFront(const LocalTensor<T>& dstTensor, const LocalTensor<T>& gradTensor,
                      const LocalTensor<T>& srcTensor, const LocalTensor<uint8_t>& sharedTmpBuffer,
                      const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  SoftmaxGrad<T, false, isBasicBlock, isDataFormatNZ>(dstTensor, gradTensor, srcTensor, sharedTmpBuffer, tiling, true,
                                                      softmaxShapeInfo);
}

}  // namespace AscendC
