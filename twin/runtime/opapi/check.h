// Shape checks for phase one. Each sees the held arguments of an operator and throws Refusal.
#pragma once
#include "arguments.h"

namespace twin::opapi {

// The common shape of element-wise arguments; inputs extend it, outputs must have it.
class BroadcastShape {
 public:
  void See(const HeldInput& input);
  void Require(const HeldOutput& output) const;

  template <class Other>
  void See(const Other&) {}
  template <class Other>
  void Require(const Other&) const {}

 private:
  std::vector<int64_t> shape_;
};

// Inputs broadcast to the shape of the outputs.
constexpr auto BROADCAST = [](const auto&... held) {
  BroadcastShape shape;
  (shape.See(held), ...);
  (shape.Require(held), ...);
};

// Inputs broadcast into the in-place operand, which may be larger.
void RequireBroadcastInto(const HeldOutput& self, const HeldInput& input);
template <class Other>
void RequireBroadcastInto(const HeldOutput&, const Other&) {}

constexpr auto BROADCAST_INTO_SELF = [](const HeldOutput& self, const auto&... held) {
  (RequireBroadcastInto(self, held), ...);
};

// out[..., n, m] = self[..., n, k] x mat2[..., k, m], vectors as in torch.matmul.
void CheckMatmul(const HeldInput& self, const HeldInput& mat2, const HeldOutput& out, int8_t cubeMathType);
void CheckAddmm(const HeldInput& self, const HeldInput& mat1, const HeldInput& mat2, const at::Scalar& beta,
                const at::Scalar& alpha, const HeldOutput& out, int8_t cubeMathType);
void CheckInnerSize(const HeldInput& mat1, const HeldInput& mat2);

// A dimension of `self`, counted from either end.
void CheckDim(const HeldTensor& self, int64_t dim);

// For operators that begin with (self, dim).
constexpr auto DIM_OF_SELF = [](const HeldTensor& self, int64_t dim, const auto&...) { CheckDim(self, dim); };

// For operators that begin with (self, dims).
constexpr auto DIMS_OF_SELF = [](const HeldTensor& self, const std::vector<int64_t>& dims, const auto&...) {
  for (const int64_t dim : dims) {
    CheckDim(self, dim);
  }
};

}  // namespace twin::opapi
