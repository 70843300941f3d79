// Matrix products. cubeMathType allows the device a lower precision; the CPU keeps the inputs' own.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

ACLNN_CHECKED(aclnnMatmul, CheckMatmul, (In, self), (In, mat2), (Out, out), (int8_t, cubeMathType)) {
  out = at::matmul(self, mat2);
}

ACLNN_CHECKED(aclnnMm, CheckMatmul, (In, self), (In, mat2), (Out, out), (int8_t, cubeMathType)) {
  out = at::mm(self, mat2);
}

ACLNN_CHECKED(aclnnBatchMatMul, CheckMatmul, (In, self), (In, mat2), (Out, out), (int8_t, cubeMathType)) {
  out = at::bmm(self, mat2);
}

ACLNN_CHECKED(aclnnAddmm, CheckAddmm, (In, self), (In, mat1), (In, mat2), (Number, beta), (Number, alpha), (Out, out),
              (int8_t, cubeMathType)) {
  out = at::addmm(self, mat1, mat2, beta, alpha);
}

ACLNN_CHECKED(aclnnBaddbmm, CheckAddmm, (In, self), (In, batch1), (In, batch2), (Number, beta), (Number, alpha),
              (Out, out), (int8_t, cubeMathType)) {
  out = at::baddbmm(self, batch1, batch2, beta, alpha);
}

ACLNN(aclnnInplaceAddmm, (InOut, self), (In, mat1), (In, mat2), (Number, beta), (Number, alpha),
      (int8_t, cubeMathType)) {
  self.addmm_(mat1, mat2, beta, alpha);
}

ACLNN(aclnnDot, (In, self), (In, tensor), (Out, out)) { out = at::dot(self, tensor); }
ACLNN(aclnnMv, (In, self), (In, vec), (Out, out), (int8_t, cubeMathType)) { out = at::mv(self, vec); }

// Here torch_npu passes alpha before beta.
ACLNN(aclnnAddmv, (In, self), (In, mat), (In, vec), (Number, alpha), (Number, beta), (Out, out),
      (int8_t, cubeMathType)) {
  out = at::addmv(self, mat, vec, beta, alpha);
}

ACLNN(aclnnAddr, (In, self), (In, vec1), (In, vec2), (Number, beta), (Number, alpha), (Out, out)) {
  out = at::addr(self, vec1, vec2, beta, alpha);
}
