// Circular and hyperbolic functions and their inverses.
#include "call.h"
#include "check.h"
#include "patterns.h"

using namespace twin::opapi;

UNARY(aclnnAcos, at::acos)
UNARY(aclnnAcosh, at::acosh)
UNARY(aclnnAsin, at::asin)
UNARY(aclnnAsinh, at::asinh)
UNARY(aclnnAtan, at::atan)
UNARY(aclnnAtanh, at::atanh)
UNARY(aclnnCosh, at::cosh)
UNARY(aclnnSinc, at::sinc)
UNARY(aclnnSinh, at::sinh)
UNARY(aclnnTan, at::tan)

UNARY_IN_PLACE(aclnnInplaceAcos, acos_)
UNARY_IN_PLACE(aclnnInplaceAcosh, acosh_)
UNARY_IN_PLACE(aclnnInplaceAsin, asin_)
UNARY_IN_PLACE(aclnnInplaceAsinh, asinh_)
UNARY_IN_PLACE(aclnnInplaceAtan, atan_)
UNARY_IN_PLACE(aclnnInplaceAtanh, atanh_)
UNARY_IN_PLACE(aclnnInplaceCosh, cosh_)
UNARY_IN_PLACE(aclnnInplaceSinc, sinc_)
UNARY_IN_PLACE(aclnnInplaceSinh, sinh_)
UNARY_IN_PLACE(aclnnInplaceTan, tan_)

BINARY_IN_PLACE(aclnnInplaceAtan2, atan2_)
