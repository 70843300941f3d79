// Which data types the arguments of the aclnn functions may have on an Atlas A2, after the vendor's published operator
// documentation. The first row that names the function and the argument decides; "*" stands for any. Where
// the documentation allows what PyTorch does, or where we have not checked it, the last row leaves all types.
#include <string_view>

#include "signature.h"

namespace twin::opapi {
namespace {

constexpr TypeSet Bit(at::ScalarType type) { return TypeSet{1} << static_cast<int>(type); }

constexpr TypeSet ANY = ~TypeSet{0};
constexpr TypeSet FLOATS = Bit(at::kFloat) | Bit(at::kHalf) | Bit(at::kBFloat16);
constexpr TypeSet FLOATS_AND_DOUBLE = FLOATS | Bit(at::kDouble);
constexpr TypeSet INDEX = Bit(at::kInt) | Bit(at::kLong);
constexpr TypeSet MASK = Bit(at::kBool) | Bit(at::kByte);
constexpr TypeSet BOOL = Bit(at::kBool);
constexpr TypeSet BYTES = Bit(at::kByte);
constexpr TypeSet BITS =
    INDEX | MASK | Bit(at::kChar) | Bit(at::kShort) | Bit(at::kUInt16) | Bit(at::kUInt32) | Bit(at::kUInt64);

struct Rule {
  std::string_view functions;
  std::string_view arguments;
  TypeSet types;
};

constexpr Rule RULES[] = {
    // torch_npu passes ':' as an empty tensor of self's type, and masks as they are.
    {"aclnnIndex aclnnIndexPutImpl", "indices", ANY},
    {"aclnnEmbeddingDenseBackward", "indices", ANY ^ Bit(at::kBFloat16)},
    // fused attention, before the rows of any function that name the same arguments
    {"aclnnFlashAttentionScore aclnnFlashAttentionVarLenScore aclnnFlashAttentionScoreGrad "
     "aclnnFlashAttentionUnpaddingScoreGrad aclnnFlashAttentionScoreV2 aclnnFlashAttentionVarLenScoreV2 "
     "aclnnFlashAttentionScoreGradV2 aclnnFlashAttentionUnpaddingScoreGradV2",
     "query key value pse dy attentionIn out dq dk dv dpse", FLOATS},
    {"*", "attenMask", MASK},
    {"*", "dropMask", BYTES},
    {"*", "softmaxMax softmaxSum", Bit(at::kFloat)},
    {"aclnnMaxPool2dWithMask aclnnMaxPool2dWithMaskBackward", "indices", Bit(at::kChar)},
    {"*", "index indices offsets repeats", INDEX},
    {"*", "inverse counts offsetToBag bagSize", INDEX},
    {"aclnnDropoutGenMaskV2 aclnnDropoutDoMask", "mask", BYTES},
    {"*", "mask condition", MASK},

    // truth values
    {"aclnnEqTensor aclnnNeTensor aclnnLtTensor aclnnLeTensor aclnnGtTensor aclnnGeTensor aclnnEqual "
     "aclnnIsFinite aclnnIsPosInf aclnnIsInTensorScalar aclnnIsInScalarTensor",
     "out", BOOL},
    {"aclnnAll aclnnAny", "out", MASK},
    {"aclnnBitwiseNot aclnnBitwiseAndTensor aclnnBitwiseOrTensor aclnnBitwiseXorTensor aclnnBitwiseAndScalar "
     "aclnnBitwiseOrScalar aclnnBitwiseXorScalar aclnnInplaceBitwiseAndTensor aclnnInplaceBitwiseOrTensor "
     "aclnnInplaceBitwiseXorTensor aclnnInplaceBitwiseAndScalar aclnnInplaceBitwiseOrScalar "
     "aclnnInplaceBitwiseXorScalar",
     "*", BITS},
    {"aclnnArgMax aclnnArgMin aclnnSearchSorted aclnnSearchSorteds aclnnNonzero aclnnNonzeroV2", "out", INDEX},

    // the matrix unit
    {"aclnnMatmul aclnnMm aclnnBatchMatMul aclnnAddmm aclnnBaddbmm aclnnInplaceAddmm aclnnConvolution "
     "aclnnConvolutionBackward",
     "*", FLOATS},

    {"aclStft", "*", Bit(at::kFloat) | Bit(at::kDouble) | Bit(at::kComplexFloat) | Bit(at::kComplexDouble)},

    // activations
    {"aclnnGelu aclnnGeluV2 aclnnGeluBackward aclnnGeluBackwardV2 aclnnSilu aclnnSiluBackward aclnnSwiGlu "
     "aclnnSwiGluGrad aclnnHardswish aclnnSoftplus aclnnSoftplusBackward aclnnLogSigmoid aclnnLogSigmoidForward "
     "aclnnLogSigmoidBackward",
     "*", FLOATS},
    {"aclnnSoftmax aclnnSoftmaxBackward aclnnLogSoftmax aclnnLogSoftmaxBackward aclnnLeakyRelu "
     "aclnnLeakyReluBackward aclnnInplaceLeakyRelu aclnnElu aclnnEluBackward aclnnInplaceElu aclnnGlu "
     "aclnnGluBackward",
     "*", FLOATS_AND_DOUBLE},

    // pooling
    {"aclnnAvgPool2d aclnnAvgPool2dBackward aclnnAvgPool3d aclnnAvgPool3dBackward aclnnMaxPool2dWithMask "
     "aclnnMaxPool2dWithMaskBackward aclnnMaxPool3dWithArgmax aclnnMaxPool3dWithArgmaxBackward aclnnAdaptiveAvgPool2d "
     "aclnnAdaptiveAvgPool2dBackward aclnnAdaptiveAvgPool3d aclnnAdaptiveAvgPool3dBackward",
     "self out gradOutput gradInput", FLOATS},

    // normalisation and losses
    {"aclnnLayerNorm aclnnLayerNormBackward aclnnRmsNorm aclnnRmsNormGrad aclnnGroupNorm aclnnGroupNormBackward "
     "aclnnBatchNorm aclnnBatchNormBackward",
     "*", FLOATS},
    {"aclnnBinaryCrossEntropy aclnnBinaryCrossEntropyBackward aclnnBinaryCrossEntropyWithLogits "
     "aclnnBinaryCrossEntropyWithLogitsBackward aclnnMseLoss aclnnMseLossBackward aclnnSmoothL1Loss "
     "aclnnSmoothL1LossBackward aclnnKlDiv aclnnKlDivBackward",
     "*", FLOATS},
    {"aclnnNLLLoss aclnnNLLLossBackward aclnnNLLLoss2d aclnnNLLLoss2dBackward", "target", INDEX | BYTES},
    {"aclnnNLLLoss aclnnNLLLossBackward aclnnNLLLoss2d aclnnNLLLoss2dBackward", "*", FLOATS},

    // embeddings and optimizers
    {"aclnnEmbeddingDenseBackward", "grad out", FLOATS},
    {"aclnnEmbeddingRenorm", "self", FLOATS},
    {"aclnnEmbeddingBag", "weight out perSample", FLOATS},
    {"aclnnApplyAdamWV2", "step", FLOATS | INDEX},
    {"aclnnApplyAdamWV2", "*", FLOATS},

    // random numbers
    {"aclnnInplaceNormal aclnnNormalFloatFloat aclnnNormalFloatTensor aclnnNormalTensorFloat "
     "aclnnNormalTensorTensor aclnnMultinomial",
     "self mean std", FLOATS_AND_DOUBLE},
    {"aclnnMultinomial", "out", INDEX},
};

// Whether the blank-separated `list` has `word`.
bool Has(std::string_view list, std::string_view word) {
  for (size_t start = 0; start < list.size();) {
    const auto end = std::min(list.find(' ', start), list.size());
    const auto entry = list.substr(start, end - start);
    if (entry == word || entry == "*") {
      return true;
    }
    start = end + 1;
  }
  return false;
}

}  // namespace

TypeSet TypesOf(const std::string& function, const std::string& argument) {
  for (const auto& rule : RULES) {
    if (Has(rule.functions, function) && Has(rule.arguments, argument)) {
      return rule.types;
    }
  }
  return ANY;
}

}  // namespace twin::opapi
