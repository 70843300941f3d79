// Element-wise functions beyond arithmetic: error functions, parts of a number, sums of exponentials, closeness.
#include "call.h"
#include "check.h"
#include "patterns.h"

using namespace twin::opapi;

UNARY(aclnnAngleV2, at::angle)
UNARY(aclnnErfc, at::erfc)
UNARY(aclnnErfinv, at::erfinv)
UNARY(aclnnExp2, at::exp2)
UNARY(aclnnFrac, at::frac)
UNARY(aclnnIsNegInf, at::isneginf)
UNARY(aclnnSignbit, at::signbit)

UNARY_IN_PLACE(aclnnInplaceErfc, erfc_)
UNARY_IN_PLACE(aclnnInplaceErfinv, erfinv_)
UNARY_IN_PLACE(aclnnInplaceExp2, exp2_)
UNARY_IN_PLACE(aclnnInplaceFrac, frac_)

BINARY(aclnnGcd, at::gcd)
BINARY(aclnnLogAddExp, at::logaddexp)
BINARY(aclnnLogAddExp2, at::logaddexp2)

ACLNN_CHECKED(aclnnRemainderScalarTensor, BROADCAST, (Number, self), (In, other), (Out, out)) {
  out = at::remainder(self, other);
}

ACLNN_CHECKED(aclnnRoundDecimals, BROADCAST, (In, self), (int64_t, decimals), (Out, out)) {
  out = at::round(self, decimals);
}

ACLNN(aclnnInplaceRoundDecimals, (InOut, self), (int64_t, decimals)) { self.round_(decimals); }

ACLNN_CHECKED(aclnnIsClose, BROADCAST, (In, self), (In, other), (double, rtol), (double, atol), (bool, equalNan),
              (Out, out)) {
  out = at::isclose(self, other, rtol, atol, equalNan);
}

ACLNN_CHECKED(aclnnPolar, BROADCAST, (In, abs), (In, angle), (Out, out)) {
  out = at::polar(abs.contiguous(), angle.contiguous());
}

// A negative eps, which torch_npu passes for none, leaves self as it is.
static std::optional<double> Bound(double eps) { return eps < 0 ? std::nullopt : std::optional<double>(eps); }

ACLNN_CHECKED(aclnnLogit, BROADCAST, (In, self), (double, eps), (Out, out)) { out = at::logit(self, Bound(eps)); }

ACLNN_CHECKED(aclnnLogitGrad, BROADCAST, (In, self), (In, gradOut), (double, eps), (Out, out)) {
  out = at::logit_backward(gradOut, self, Bound(eps));
}
