// Operators over lists of tensors: the same computation for each member.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

// Every list has as many members as the first.
class EqualLengths {
 public:
  void See(const HeldInputList& list) { Count(list.members.size()); }
  void See(const HeldOutputList& list) { Count(list.members.size()); }
  void See(const std::vector<at::Scalar>& list) { Count(list.size()); }
  template <class Other>
  void See(const Other&) {}

 private:
  void Count(size_t size) {
    if (size_ && *size_ != size) {
      throw Refusal(INVALID_ARGUMENT,
                    "lists of " + std::to_string(*size_) + " and " + std::to_string(size) + " members");
    }
    size_ = size;
  }

  std::optional<size_t> size_;
};

constexpr auto EQUAL_LENGTHS = [](const auto&... held) {
  EqualLengths lengths;
  (lengths.See(held), ...);
};

}  // namespace

// `i` is the member's place.
#define EACH(COUNT) for (size_t i = 0; i < (COUNT).size(); ++i)

#define FOREACH_UNARY(NAME, FUNCTION)                                  \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (OutList, out)) { \
    EACH(self) { out[i] = FUNCTION(self[i]); }                         \
  }
FOREACH_UNARY(aclnnForeachSqrt, at::sqrt)
FOREACH_UNARY(aclnnForeachReciprocal, at::reciprocal)
FOREACH_UNARY(aclnnForeachNeg, at::neg)
FOREACH_UNARY(aclnnForeachAbs, at::abs)
FOREACH_UNARY(aclnnForeachExp, at::exp)
FOREACH_UNARY(aclnnForeachSign, at::sign)
FOREACH_UNARY(aclnnForeachAcos, at::acos)
FOREACH_UNARY(aclnnForeachAsin, at::asin)
FOREACH_UNARY(aclnnForeachAtan, at::atan)
FOREACH_UNARY(aclnnForeachCos, at::cos)
FOREACH_UNARY(aclnnForeachCosh, at::cosh)
FOREACH_UNARY(aclnnForeachErf, at::erf)
FOREACH_UNARY(aclnnForeachErfc, at::erfc)
FOREACH_UNARY(aclnnForeachExpm1, at::expm1)
FOREACH_UNARY(aclnnForeachLog, at::log)
FOREACH_UNARY(aclnnForeachLog10, at::log10)
FOREACH_UNARY(aclnnForeachLog1p, at::log1p)
FOREACH_UNARY(aclnnForeachLog2, at::log2)
FOREACH_UNARY(aclnnForeachSigmoid, at::sigmoid)
FOREACH_UNARY(aclnnForeachSin, at::sin)
FOREACH_UNARY(aclnnForeachSinh, at::sinh)
FOREACH_UNARY(aclnnForeachTan, at::tan)
FOREACH_UNARY(aclnnForeachTanh, at::tanh)

// How elements are rounded, by the documented modes of a cast.
static at::Tensor Rounded(const at::Tensor& self, int64_t mode) {
  const auto whole = at::trunc(self), rest = self - whole;
  switch (mode) {
    case 1:  // to the nearest, halves to even
      return at::round(self);
    case 2:
      return at::floor(self);
    case 3:
      return at::ceil(self);
    case 4:  // to the nearest, halves away from zero
      return at::where(rest.abs().ge(0.5), whole + self.sign(), whole);
    case 5:
      return whole;
    case 6:  // to odd
      return at::where(rest.ne(0).logical_and(at::fmod(whole, 2).eq(0)), whole + self.sign(), whole);
    case 7:
      return at::frac(self);
    default:  // a throw that a compiler sees without optimising
      C10_THROW_ERROR(Error, c10::str("rounding mode ", mode, " is not 1 to 7"));
  }
}

ACLNN_CHECKED(aclnnForeachRoundOffNumber, EQUAL_LENGTHS, (InList, self), (In, mode), (OutList, out)) {
  EACH(self) { out[i] = Rounded(self[i], mode.item().toLong()); }
}

ACLNN_CHECKED(aclnnForeachRoundOffNumberV2, EQUAL_LENGTHS, (InList, self), (Number, mode), (OutList, out)) {
  EACH(self) { out[i] = Rounded(self[i], mode.toLong()); }
}

ACLNN_CHECKED(aclnnForeachCopy, EQUAL_LENGTHS, (InList, source), (OutList, target)) {
  EACH(source) { target[i] = source[i]; }
}

ACLNN(aclnnForeachZeroInplace, (InList, self)) {
  EACH(self) { self[i].zero_(); }
}

ACLNN_CHECKED(aclnnForeachNorm, EQUAL_LENGTHS, (InList, self), (Number, order), (OutList, out)) {
  EACH(self) { out[i] = at::linalg_vector_norm(self[i], order).reshape(out[i].Target().sizes()); }
}

#define FOREACH_LIST(NAME, FUNCTION)                                                    \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (InList, other), (OutList, out)) { \
    EACH(self) { out[i] = FUNCTION(self[i], other[i]); }                                \
  }
FOREACH_LIST(aclnnForeachMulList, at::mul)
FOREACH_LIST(aclnnForeachDivList, at::div)
FOREACH_LIST(aclnnForeachMaximumList, at::maximum)
FOREACH_LIST(aclnnForeachMinimumList, at::minimum)
FOREACH_LIST(aclnnForeachPowList, at::pow)

// The scalar form has three variants: a one-element tensor, a scalar ("V2"), a list of scalars.
#define FOREACH_SCALAR_TENSOR(NAME, FUNCTION)                                        \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (In, scalar), (OutList, out)) { \
    const auto value = scalar.item();                                                \
    EACH(self) { out[i] = FUNCTION(self[i], value); }                                \
  }
#define FOREACH_SCALAR(NAME, FUNCTION)                                                   \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (Number, scalar), (OutList, out)) { \
    EACH(self) { out[i] = FUNCTION(self[i], scalar); }                                   \
  }
#define FOREACH_SCALAR_LIST(NAME, FUNCTION)                                                   \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (NumberList, scalars), (OutList, out)) { \
    EACH(self) { out[i] = FUNCTION(self[i], scalars[i]); }                                    \
  }
FOREACH_SCALAR_TENSOR(aclnnForeachAddScalar, at::add)
FOREACH_SCALAR_TENSOR(aclnnForeachSubScalar, at::sub)
FOREACH_SCALAR_TENSOR(aclnnForeachMulScalar, at::mul)
FOREACH_SCALAR_TENSOR(aclnnForeachDivScalar, at::div)
FOREACH_SCALAR_TENSOR(aclnnForeachPowScalar, at::pow)
FOREACH_SCALAR_TENSOR(aclnnForeachMaximumScalar, at::clamp_min)
FOREACH_SCALAR_TENSOR(aclnnForeachMinimumScalar, at::clamp_max)
FOREACH_SCALAR(aclnnForeachAddScalarV2, at::add)
FOREACH_SCALAR(aclnnForeachSubScalarV2, at::sub)
FOREACH_SCALAR(aclnnForeachMulScalarV2, at::mul)
FOREACH_SCALAR(aclnnForeachDivScalarV2, at::div)
FOREACH_SCALAR(aclnnForeachPowScalarV2, at::pow)
FOREACH_SCALAR(aclnnForeachMaximumScalarV2, at::clamp_min)
FOREACH_SCALAR(aclnnForeachMinimumScalarV2, at::clamp_max)
FOREACH_SCALAR_LIST(aclnnForeachAddScalarList, at::add)
FOREACH_SCALAR_LIST(aclnnForeachSubScalarList, at::sub)
FOREACH_SCALAR_LIST(aclnnForeachMulScalarList, at::mul)
FOREACH_SCALAR_LIST(aclnnForeachDivScalarList, at::div)
FOREACH_SCALAR_LIST(aclnnForeachPowScalarList, at::pow)
FOREACH_SCALAR_LIST(aclnnForeachMaximumScalarList, at::clamp_min)
FOREACH_SCALAR_LIST(aclnnForeachMinimumScalarList, at::clamp_max)

ACLNN_CHECKED(aclnnForeachPowScalarAndTensor, EQUAL_LENGTHS, (Number, base), (InList, exponents), (OutList, out)) {
  EACH(exponents) { out[i] = at::pow(base, exponents[i]); }
}

#define FOREACH_ALPHA(NAME, FUNCTION, ALPHA_KIND, ALPHA)                                                     \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (InList, other), (ALPHA_KIND, alpha), (OutList, out)) { \
    const at::Scalar factor = ALPHA;                                                                         \
    EACH(self) { out[i] = FUNCTION(self[i], other[i], factor); }                                             \
  }
FOREACH_ALPHA(aclnnForeachAddList, at::add, In, alpha.item())
FOREACH_ALPHA(aclnnForeachAddListV2, at::add, Number, alpha)
FOREACH_ALPHA(aclnnForeachSubList, at::sub, In, alpha.item())
FOREACH_ALPHA(aclnnForeachSubListV2, at::sub, Number, alpha)

#define FOREACH_TERNARY(NAME, FUNCTION, VALUE_KIND, VALUE)                                                      \
  ACLNN_CHECKED(NAME, EQUAL_LENGTHS, (InList, self), (InList, tensor1), (InList, tensor2), (VALUE_KIND, value), \
                (OutList, out)) {                                                                               \
    EACH(self) { out[i] = FUNCTION(self[i], tensor1[i], tensor2[i], VALUE); }                                   \
  }
FOREACH_TERNARY(aclnnForeachAddcmulScalar, at::addcmul, In, value.item())
FOREACH_TERNARY(aclnnForeachAddcmulScalarV2, at::addcmul, Number, value)
FOREACH_TERNARY(aclnnForeachAddcmulScalarList, at::addcmul, In, value[i].item())
FOREACH_TERNARY(aclnnForeachAddcdivScalar, at::addcdiv, In, value.item())
FOREACH_TERNARY(aclnnForeachAddcdivScalarV2, at::addcdiv, Number, value)
FOREACH_TERNARY(aclnnForeachAddcdivScalarList, at::addcdiv, In, value[i].item())

ACLNN_CHECKED(aclnnForeachLerpScalar, EQUAL_LENGTHS, (InList, self), (InList, end), (Number, weight), (OutList, out)) {
  EACH(self) { out[i] = at::lerp(self[i], end[i], weight); }
}

ACLNN_CHECKED(aclnnForeachLerpList, EQUAL_LENGTHS, (InList, self), (InList, end), (InList, weight), (OutList, out)) {
  EACH(self) { out[i] = at::lerp(self[i], end[i], weight[i]); }
}
