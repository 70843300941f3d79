// Linear algebra: factors, solutions, determinants, and the products that are no plain matrix product.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

ACLNN(aclnnInverse, (In, self), (Out, out)) { out = at::inverse(self); }

ACLNN_CHECKED(aclnnLinalgCross, BROADCAST, (In, self), (In, other), (int64_t, dim), (Out, out)) {
  out = at::linalg_cross(self, other, dim);
}

// 0 reduced, 1 complete, 2 r.
ACLNN(aclnnLinalgQr, (In, self), (int64_t, mode), (Out, q), (Out, r)) {
  TORCH_CHECK(mode >= 0 && mode <= 2, "mode ", mode, " is not 0, 1 or 2");
  const auto [orthogonal, upper] = at::linalg_qr(self, mode == 0 ? "reduced" : mode == 1 ? "complete" : "r");
  q = orthogonal;
  r = upper;
}

ACLNN(aclnnSlogdet, (In, self), (Out, sign), (Out, log)) {
  const auto [signs, logarithms] = at::linalg_slogdet(self);
  sign = signs;
  log = logarithms;
}

// A x = self; the batches of both broadcast.
ACLNN(aclnnTriangularSolve, (In, self), (In, A), (bool, upper), (bool, transpose), (bool, unitriangular), (Out, x),
      (Out, m)) {
  x = at::linalg_solve_triangular(transpose ? A.mT() : A, self, upper != transpose, /*left=*/true, unitriangular);
  m = A.expand(m.Target().sizes());
}

ACLNN(aclnnPdist, (In, self), (float, p), (Out, out)) { out = at::pdist(self.contiguous(), p); }

ACLNN(aclnnAddbmm, (In, self), (In, batch1), (In, batch2), (Number, beta), (Number, alpha), (Out, out),
      (int8_t, cubeMathType)) {
  out = at::addbmm(self, batch1, batch2, beta, alpha);
}

ACLNN(aclnnInplaceAddr, (InOut, self), (In, vec1), (In, vec2), (Number, beta), (Number, alpha)) {
  self.addr_(vec1, vec2, beta, alpha);
}
