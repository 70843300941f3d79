// Element-wise arithmetic: each output element depends on the elements at the same place.
#include "call.h"
#include "check.h"
#include "patterns.h"

using namespace twin::opapi;

UNARY(aclnnAbs, at::abs)
UNARY(aclnnCeil, at::ceil)
UNARY(aclnnCos, at::cos)
UNARY(aclnnErf, at::erf)
UNARY(aclnnExp, at::exp)
UNARY(aclnnExpm1, at::expm1)
UNARY(aclnnFloor, at::floor)
UNARY(aclnnIsFinite, at::isfinite)
UNARY(aclnnIsPosInf, at::isposinf)
UNARY(aclnnLog, at::log)
UNARY(aclnnLog10, at::log10)
UNARY(aclnnLog1p, at::log1p)
UNARY(aclnnLog2, at::log2)
UNARY(aclnnNeg, at::neg)
UNARY(aclnnReciprocal, at::reciprocal)
UNARY(aclnnRound, at::round)
UNARY(aclnnRsqrt, at::rsqrt)
UNARY(aclnnSign, at::sgn)
UNARY(aclnnSin, at::sin)
UNARY(aclnnSqrt, at::sqrt)
UNARY(aclnnTrunc, at::trunc)

UNARY_IN_PLACE(aclnnInplaceCeil, ceil_)
UNARY_IN_PLACE(aclnnInplaceCos, cos_)
UNARY_IN_PLACE(aclnnInplaceErf, erf_)
UNARY_IN_PLACE(aclnnInplaceExp, exp_)
UNARY_IN_PLACE(aclnnInplaceExpm1, expm1_)
UNARY_IN_PLACE(aclnnInplaceLog10, log10_)
UNARY_IN_PLACE(aclnnInplaceLog1p, log1p_)
UNARY_IN_PLACE(aclnnInplaceLog2, log2_)
UNARY_IN_PLACE(aclnnInplaceSin, sin_)
UNARY_IN_PLACE(aclnnInplaceTrunc, trunc_)
UNARY_IN_PLACE(aclnnInplaceLog, log_)
UNARY_IN_PLACE(aclnnInplaceSqrt, sqrt_)
UNARY_IN_PLACE(aclnnInplaceRsqrt, rsqrt_)
UNARY_IN_PLACE(aclnnInplaceReciprocal, reciprocal_)
UNARY_IN_PLACE(aclnnInplaceRound, round_)
UNARY_IN_PLACE(aclnnInplaceFloor, floor_)

BINARY(aclnnMul, at::mul)
BINARY(aclnnDiv, at::div)
BINARY(aclnnFloorDivide, at::floor_divide)
BINARY(aclnnRemainderTensorTensor, at::remainder)
BINARY(aclnnFmodTensor, at::fmod)
BINARY(aclnnPowTensorTensor, at::pow)
BINARY(aclnnMaximum, at::maximum)
BINARY(aclnnMinimum, at::minimum)
BINARY(aclnnAtan2, at::atan2)

BINARY_SCALAR(aclnnMuls, at::mul)
BINARY_SCALAR(aclnnDivs, at::div)
BINARY_SCALAR(aclnnFloorDivides, at::floor_divide)
BINARY_SCALAR(aclnnRemainderTensorScalar, at::remainder)
BINARY_SCALAR(aclnnFmodScalar, at::fmod)
BINARY_SCALAR(aclnnPowTensorScalar, at::pow)

BINARY_IN_PLACE(aclnnInplaceMul, mul_)
BINARY_IN_PLACE(aclnnInplaceDiv, div_)
BINARY_IN_PLACE(aclnnInplaceFloorDivide, floor_divide_)
BINARY_IN_PLACE(aclnnInplaceRemainderTensorTensor, remainder_)
BINARY_IN_PLACE(aclnnInplaceFmodTensor, fmod_)
BINARY_IN_PLACE(aclnnInplacePowTensorTensor, pow_)
SCALAR_IN_PLACE(aclnnInplaceFloorDivides, floor_divide_)
SCALAR_IN_PLACE(aclnnInplaceRemainderTensorScalar, remainder_)
SCALAR_IN_PLACE(aclnnInplaceFmodScalar, fmod_)
SCALAR_IN_PLACE(aclnnInplaceMuls, mul_)
SCALAR_IN_PLACE(aclnnInplaceDivs, div_)
SCALAR_IN_PLACE(aclnnInplacePowTensorScalar, pow_)

// x * log(y), and 0 where x is 0.
BINARY(aclnnXLogYTensor, at::xlogy)
BINARY_SCALAR(aclnnXLogYScalarOther, at::xlogy)
SCALAR_IN_PLACE(aclnnInplaceXLogYScalarOther, xlogy_)

ACLNN_CHECKED(aclnnXLogYScalarSelf, BROADCAST, (Number, self), (In, other), (Out, out)) {
  out = at::xlogy(self, other);
}

ACLNN_CHECKED(aclnnPowScalarTensor, BROADCAST, (Number, self), (In, exponent), (Out, out)) {
  out = at::pow(self, exponent);
}

// Sums and differences carry alpha, the factor of `other`.
ACLNN_CHECKED(aclnnAdd, BROADCAST, (In, self), (In, other), (Number, alpha), (Out, out)) {
  out = at::add(self, other, alpha);
}

ACLNN_CHECKED(aclnnAdds, BROADCAST, (In, self), (Number, other), (Number, alpha), (Out, out)) {
  out = at::add(self, other, alpha);
}

ACLNN_CHECKED(aclnnSub, BROADCAST, (In, self), (In, other), (Number, alpha), (Out, out)) {
  out = at::sub(self, other, alpha);
}

ACLNN_CHECKED(aclnnSubs, BROADCAST, (In, self), (Number, other), (Number, alpha), (Out, out)) {
  out = at::sub(self, other, alpha);
}

ACLNN_CHECKED(aclnnRsub, BROADCAST, (In, self), (In, other), (Number, alpha), (Out, out)) {
  out = at::rsub(self, other, alpha);
}

ACLNN_CHECKED(aclnnRsubs, BROADCAST, (In, self), (Number, other), (Number, alpha), (Out, out)) {
  out = at::rsub(self, other, alpha);
}

ACLNN_CHECKED(aclnnInplaceAdd, BROADCAST_INTO_SELF, (InOut, self), (In, other), (Number, alpha)) {
  self.add_(other, alpha);
}

ACLNN(aclnnInplaceAdds, (InOut, self), (Number, other), (Number, alpha)) { self.add_(other, alpha); }

ACLNN_CHECKED(aclnnInplaceSub, BROADCAST_INTO_SELF, (InOut, self), (In, other), (Number, alpha)) {
  self.sub_(other, alpha);
}

ACLNN(aclnnInplaceSubs, (InOut, self), (Number, other), (Number, alpha)) { self.sub_(other, alpha); }

// Division with rounding: 0 none, 1 towards zero, 2 towards minus infinity.
static std::optional<c10::string_view> RoundingMode(int mode) {
  switch (mode) {
    case 0:
      return std::nullopt;
    case 1:
      return "trunc";
    case 2:
      return "floor";
    default:
      TORCH_CHECK(false, "rounding mode ", mode, " is not 0, 1 or 2");
  }
}

ACLNN_CHECKED(aclnnDivMod, BROADCAST, (In, self), (In, other), (int, mode), (Out, out)) {
  out = at::div(self, other, RoundingMode(mode));
}

ACLNN_CHECKED(aclnnDivMods, BROADCAST, (In, self), (Number, other), (int, mode), (Out, out)) {
  out = at::div(self, other, RoundingMode(mode));
}

ACLNN_CHECKED(aclnnInplaceDivMod, BROADCAST_INTO_SELF, (InOut, self), (In, other), (int, mode)) {
  self.div_(other, RoundingMode(mode));
}

ACLNN(aclnnInplaceDivMods, (InOut, self), (Number, other), (int, mode)) { self.div_(other, RoundingMode(mode)); }

// Three operands.
ACLNN_CHECKED(aclnnLerp, BROADCAST, (In, self), (In, end), (In, weight), (Out, out)) {
  out = at::lerp(self, end, weight);
}

ACLNN_CHECKED(aclnnLerps, BROADCAST, (In, self), (In, end), (Number, weight), (Out, out)) {
  out = at::lerp(self, end, weight);
}

ACLNN_CHECKED(aclnnInplaceLerp, BROADCAST_INTO_SELF, (InOut, self), (In, end), (In, weight)) {
  self.lerp_(end, weight);
}

ACLNN_CHECKED(aclnnInplaceLerps, BROADCAST_INTO_SELF, (InOut, self), (In, end), (Number, weight)) {
  self.lerp_(end, weight);
}

ACLNN_CHECKED(aclnnAddcmul, BROADCAST, (In, self), (In, tensor1), (In, tensor2), (Number, value), (Out, out)) {
  out = at::addcmul(self, tensor1, tensor2, value);
}

ACLNN_CHECKED(aclnnAddcdiv, BROADCAST, (In, self), (In, tensor1), (In, tensor2), (Number, value), (Out, out)) {
  out = at::addcdiv(self, tensor1, tensor2, value);
}

ACLNN_CHECKED(aclnnInplaceAddcmul, BROADCAST_INTO_SELF, (InOut, self), (In, tensor1), (In, tensor2), (Number, value)) {
  self.addcmul_(tensor1, tensor2, value);
}

ACLNN_CHECKED(aclnnInplaceAddcdiv, BROADCAST_INTO_SELF, (InOut, self), (In, tensor1), (In, tensor2), (Number, value)) {
  self.addcdiv_(tensor1, tensor2, value);
}

// Bounds and missing values.
ACLNN_CHECKED(aclnnClamp, BROADCAST, (In, self), (OptionalNumber, min), (OptionalNumber, max), (Out, out)) {
  out = at::clamp(self, min, max);
}

ACLNN_CHECKED(aclnnClampTensor, BROADCAST, (In, self), (OptionalIn, min), (OptionalIn, max), (Out, out)) {
  out = at::clamp(self, min, max);
}

BINARY_SCALAR(aclnnClampMin, at::clamp_min)
BINARY_SCALAR(aclnnClampMax, at::clamp_max)
BINARY(aclnnClampMinTensor, at::clamp_min)
BINARY(aclnnClampMaxTensor, at::clamp_max)
SCALAR_IN_PLACE(aclnnInplaceClampMax, clamp_max_)
BINARY_IN_PLACE(aclnnInplaceClampMinTensor, clamp_min_)
BINARY_IN_PLACE(aclnnInplaceClampMaxTensor, clamp_max_)

ACLNN_CHECKED(aclnnNanToNum, BROADCAST, (In, self), (float, nan), (float, posinf), (float, neginf), (Out, out)) {
  out = at::nan_to_num(self, nan, posinf, neginf);
}

ACLNN(aclnnInplaceNanToNum, (InOut, self), (float, nan), (float, posinf), (float, neginf)) {
  self.nan_to_num_(nan, posinf, neginf);
}

ACLNN_CHECKED(aclnnComplex, BROADCAST, (In, real), (In, imag), (Out, out)) {
  out = at::complex(real.contiguous(), imag.contiguous());
}

ACLNN_CHECKED(aclnnSWhere, BROADCAST, (In, condition), (In, self), (In, other), (Out, out)) {
  out = at::where(condition.to(at::kBool), self, other);
}
