// Comparisons, logical and bitwise operators.
#include "call.h"
#include "check.h"
#include "patterns.h"

using namespace twin::opapi;

BINARY(aclnnEqTensor, at::eq)
BINARY(aclnnNeTensor, at::ne)
BINARY(aclnnLtTensor, at::lt)
BINARY(aclnnLeTensor, at::le)
BINARY(aclnnGtTensor, at::gt)
BINARY(aclnnGeTensor, at::ge)
BINARY_SCALAR(aclnnEqScalar, at::eq)
BINARY_SCALAR(aclnnNeScalar, at::ne)
BINARY_SCALAR(aclnnLtScalar, at::lt)
BINARY_SCALAR(aclnnLeScalar, at::le)
BINARY_SCALAR(aclnnGtScalar, at::gt)
BINARY_SCALAR(aclnnGeScalar, at::ge)
BINARY_IN_PLACE(aclnnInplaceEqTensor, eq_)
BINARY_IN_PLACE(aclnnInplaceNeTensor, ne_)
BINARY_IN_PLACE(aclnnInplaceLtTensor, lt_)
BINARY_IN_PLACE(aclnnInplaceLeTensor, le_)
BINARY_IN_PLACE(aclnnInplaceGtTensor, gt_)
BINARY_IN_PLACE(aclnnInplaceGeTensor, ge_)
SCALAR_IN_PLACE(aclnnInplaceEqScalar, eq_)
SCALAR_IN_PLACE(aclnnInplaceNeScalar, ne_)
SCALAR_IN_PLACE(aclnnInplaceLtScalar, lt_)
SCALAR_IN_PLACE(aclnnInplaceLeScalar, le_)
SCALAR_IN_PLACE(aclnnInplaceGtScalar, gt_)
SCALAR_IN_PLACE(aclnnInplaceGeScalar, ge_)

UNARY(aclnnLogicalNot, at::logical_not)
BINARY(aclnnLogicalAnd, at::logical_and)
BINARY(aclnnLogicalOr, at::logical_or)
BINARY(aclnnLogicalXor, at::logical_xor)
BINARY_IN_PLACE(aclnnInplaceLogicalAnd, logical_and_)
BINARY_IN_PLACE(aclnnInplaceLogicalOr, logical_or_)
ACLNN(aclnnInplaceLogicalNot, (InOut, self)) { self.logical_not_(); }

UNARY(aclnnBitwiseNot, at::bitwise_not)
BINARY(aclnnBitwiseAndTensor, at::bitwise_and)
BINARY(aclnnBitwiseOrTensor, at::bitwise_or)
BINARY(aclnnBitwiseXorTensor, at::bitwise_xor)
BINARY_SCALAR(aclnnBitwiseAndScalar, at::bitwise_and)
BINARY_SCALAR(aclnnBitwiseOrScalar, at::bitwise_or)
BINARY_IN_PLACE(aclnnInplaceBitwiseAndTensor, bitwise_and_)
BINARY_SCALAR(aclnnBitwiseXorScalar, at::bitwise_xor)
BINARY_IN_PLACE(aclnnInplaceBitwiseOrTensor, bitwise_or_)
BINARY_IN_PLACE(aclnnInplaceBitwiseXorTensor, bitwise_xor_)
SCALAR_IN_PLACE(aclnnInplaceBitwiseAndScalar, bitwise_and_)
SCALAR_IN_PLACE(aclnnInplaceBitwiseOrScalar, bitwise_or_)
SCALAR_IN_PLACE(aclnnInplaceBitwiseXorScalar, bitwise_xor_)

// One truth value for the whole of both tensors.
ACLNN(aclnnEqual, (In, self), (In, other), (Out, out)) {
  out = at::full(out.Target().sizes(), self.sizes() == other.sizes() && at::equal(self, other), at::kBool);
}

ACLNN(aclnnIsInTensorScalar, (In, elements), (Number, test), (bool, assumeUnique), (bool, invert), (Out, out)) {
  out = at::isin(elements, test, assumeUnique, invert);
}

ACLNN(aclnnIsInScalarTensor, (Number, element), (In, test), (bool, assumeUnique), (bool, invert), (Out, out)) {
  out = at::isin(element, test, assumeUnique, invert).reshape(out.Target().sizes());
}
