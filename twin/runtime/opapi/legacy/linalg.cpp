// Singular values, for which torch_npu has no aclnn function.
#include "legacy/operator.h"

namespace twin::opapi {
namespace {

// A -> S, U, V with A = U S V^T; the last two are left alone where they are not asked for.
const LegacyOperator svd("Svd", {"compute_uv", "full_matrices"}, [](const LegacyArguments& call) {
  const auto matrix = call.In(0);
  const bool vectors = call.Number("compute_uv", 1) != 0;
  const auto [left, values, right] = at::_linalg_svd(matrix, call.Number("full_matrices", 0) != 0, vectors);
  call.Out(0, values);
  if (vectors) {
    call.Out(1, left);
    call.Out(2, right.mH());
  }
});

}  // namespace
}  // namespace twin::opapi
