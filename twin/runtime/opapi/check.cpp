#include "check.h"

#include <algorithm>

namespace twin::opapi {
namespace {

[[noreturn]] void Refuse(const std::string& reason) { throw Refusal(INVALID_ARGUMENT, reason); }

// The size of `shape` at `fromEnd`, one where the shape is shorter.
int64_t SizeFromEnd(const std::vector<int64_t>& shape, size_t fromEnd) {
  return fromEnd < shape.size() ? shape[shape.size() - 1 - fromEnd] : 1;
}

}  // namespace

void BroadcastShape::See(const HeldInput& input) {
  if (!input.view) {
    return;
  }
  const auto& other = input.Shape();
  std::vector<int64_t> joined(std::max(shape_.size(), other.size()));
  for (size_t i = 0; i < joined.size(); ++i) {
    const int64_t left = SizeFromEnd(shape_, i);
    const int64_t right = SizeFromEnd(other, i);
    if (left != right && left != 1 && right != 1) {
      Refuse(std::string(input.argument) + " of shape " + ShapeText(other) + " does not broadcast with " +
             ShapeText(shape_));
    }
    joined[joined.size() - 1 - i] = left == 1 ? right : left;
  }
  shape_ = std::move(joined);
}

void BroadcastShape::Require(const HeldOutput& output) const {
  if (output.view && output.Shape() != shape_) {
    Refuse(std::string(output.argument) + " has shape " + ShapeText(output.Shape()) + ", the inputs broadcast to " +
           ShapeText(shape_));
  }
}

void RequireBroadcastInto(const HeldOutput& self, const HeldInput& input) {
  if (!input.view) {
    return;
  }
  const auto& shape = input.Shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = SizeFromEnd(shape, i);
    if (i >= self.Shape().size() || (size != 1 && size != SizeFromEnd(self.Shape(), i))) {
      Refuse(std::string(input.argument) + " of shape " + ShapeText(shape) + " does not broadcast into " +
             self.argument + " of shape " + ShapeText(self.Shape()));
    }
  }
}

void CheckInnerSize(const HeldInput& mat1, const HeldInput& mat2) {
  const auto& left = mat1.Shape();
  const auto& right = mat2.Shape();
  if (left.empty() || right.empty()) {
    Refuse("a factor has no dimension");
  }
  const int64_t rows = right.size() == 1 ? right[0] : SizeFromEnd(right, 1);
  if (left.back() != rows) {
    Refuse(std::string(mat1.argument) + " of shape " + ShapeText(left) + " and " + mat2.argument + " of shape " +
           ShapeText(right) + " have different inner sizes");
  }
}

void CheckMatmul(const HeldInput& self, const HeldInput& mat2, const HeldOutput& out, int8_t) {
  CheckInnerSize(self, mat2);
  const bool matrices = self.Shape().size() > 1 && mat2.Shape().size() > 1;
  const bool rows = matrices && SizeFromEnd(out.Shape(), 1) == SizeFromEnd(self.Shape(), 1);
  const bool columns = matrices && SizeFromEnd(out.Shape(), 0) == SizeFromEnd(mat2.Shape(), 0);
  if (matrices && !(rows && columns)) {
    Refuse(std::string(out.argument) + " of shape " + ShapeText(out.Shape()) + " is not the product of " +
           ShapeText(self.Shape()) + " and " + ShapeText(mat2.Shape()));
  }
}

void CheckAddmm(const HeldInput& self, const HeldInput& mat1, const HeldInput& mat2, const at::Scalar&,
                const at::Scalar&, const HeldOutput& out, int8_t cubeMathType) {
  CheckMatmul(mat1, mat2, out, cubeMathType);
  RequireBroadcastInto(out, self);
}

void CheckDim(const HeldTensor& self, int64_t dim) {
  const auto rank = std::max<int64_t>(static_cast<int64_t>(self.Shape().size()), 1);
  if (dim < -rank || dim >= rank) {
    Refuse("dim " + std::to_string(dim) + " is not one of " + self.argument + " of shape " + ShapeText(self.Shape()));
  }
}

}  // namespace twin::opapi
