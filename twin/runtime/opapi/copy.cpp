// Copies, conversions, fills, ranges, and operators that only move elements.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

constexpr auto SAME_DTYPE = [](const HeldInput&, std::optional<at::ScalarType> dtype, const HeldOutput& out) {
  if (dtype != ScalarTypeOf(out.view->dataType, out.argument)) {
    throw Refusal(INVALID_ARGUMENT, "dtype is not the data type of out");
  }
};

}  // namespace

ACLNN_CHECKED(aclnnInplaceCopy, BROADCAST_INTO_SELF, (InOut, self), (In, source)) { self.copy_(source); }

ACLNN_CHECKED(aclnnCast, SAME_DTYPE, (In, self), (Type, dtype), (Out, out)) { out = self; }

ACLNN(aclnnInplaceZero, (InOut, self)) { self.zero_(); }
ACLNN(aclnnInplaceOne, (InOut, self)) { self.fill_(1); }
ACLNN(aclnnInplaceFillScalar, (InOut, self), (Number, value)) { self.fill_(value); }
ACLNN(aclnnInplaceFillTensor, (InOut, self), (In, value)) { self.fill_(value.reshape({})); }
ACLNN(aclnnInplaceFillDiagonal, (InOut, self), (Number, value), (bool, wrap)) { self.fill_diagonal_(value, wrap); }

ACLNN(aclnnArange, (Number, start), (Number, end), (Number, step), (Out, out)) {
  out = at::arange(start, end, step, out.Target().options());
}

ACLNN(aclnnRange, (Number, start), (Number, end), (Number, step), (Out, out)) {
  out = at::range(start, end, step, out.Target().options());
}

ACLNN(aclnnLinspace, (Number, start), (Number, end), (int64_t, steps), (Out, out)) {
  out = at::linspace(start, end, steps, out.Target().options());
}

ACLNN(aclnnEye, (int64_t, rows), (int64_t, columns), (Out, out)) {
  out = at::eye(rows, columns, out.Target().options());
}

ACLNN(aclnnConstantPadNd, (In, self), (Ints, pad), (Number, value), (Out, out)) {
  out = at::constant_pad_nd(self, pad, value);
}

ACLNN(aclnnCat, (InList, tensors), (int64_t, dim), (Out, out)) { out = at::cat(tensors, dim); }
ACLNN(aclnnStack, (InList, tensors), (int64_t, dim), (Out, out)) { out = at::stack(tensors, dim); }

ACLNN_CHECKED(aclnnTril, BROADCAST, (In, self), (int64_t, diagonal), (Out, out)) { out = at::tril(self, diagonal); }
ACLNN_CHECKED(aclnnTriu, BROADCAST, (In, self), (int64_t, diagonal), (Out, out)) { out = at::triu(self, diagonal); }
ACLNN(aclnnInplaceTril, (InOut, self), (int64_t, diagonal)) { self.tril_(diagonal); }
ACLNN(aclnnInplaceTriu, (InOut, self), (int64_t, diagonal)) { self.triu_(diagonal); }

ACLNN(aclnnRepeat, (In, self), (Ints, repeats), (Out, out)) { out = self.repeat(repeats); }
ACLNN_CHECKED(aclnnFlip, DIMS_OF_SELF, (In, self), (Ints, dims), (Out, out)) { out = at::flip(self, dims); }
ACLNN(aclnnRoll, (In, self), (Ints, shifts), (Ints, dims), (Out, out)) { out = at::roll(self, shifts, dims); }

ACLNN(aclnnRepeatInterleave, (In, self), (In, repeats), (int64_t, outSize), (Out, out)) {
  out = at::repeat_interleave(self, repeats.to(at::kLong));
}

ACLNN(aclnnRepeatInterleaveInt, (In, self), (int64_t, repeats), (int64_t, outSize), (Out, out)) {
  out = at::repeat_interleave(self, repeats);
}

ACLNN(aclnnRepeatInterleaveWithDim, (In, self), (In, repeats), (int64_t, dim), (int64_t, outSize), (Out, out)) {
  out = at::repeat_interleave(self, repeats.to(at::kLong), dim);
}

ACLNN(aclnnRepeatInterleaveIntWithDim, (In, self), (int64_t, repeats), (int64_t, dim), (int64_t, outSize), (Out, out)) {
  out = at::repeat_interleave(self, repeats, dim);
}

ACLNN(aclnnRepeatInterleaveGrad, (In, grad), (In, repeats), (int64_t, dim), (Out, out)) {
  const auto counts = repeats.to(at::kLong).expand({out.Target().size(dim)});
  const auto source = at::repeat_interleave(counts);
  out = at::zeros(out.Target().sizes(), grad.options()).index_add_(dim, source, grad);
}

ACLNN_CHECKED(
    aclnnSplitWithSize, [](const HeldInput& self, const auto&, int64_t dim, const auto&) { CheckDim(self, dim); },
    (In, self), (Ints, sizes), (int64_t, dim), (OutList, out)) {
  const auto parts = at::split_with_sizes(self, sizes, dim);
  for (size_t i = 0; i < parts.size(); ++i) {
    out.at(i) = parts[i];
  }
}

ACLNN(aclnnOneHot, (In, self), (int64_t, depth), (In, on), (In, off), (int64_t, axis), (Out, out)) {
  const auto dim = axis < 0 ? axis + self.dim() + 1 : axis;
  const auto hot = self.unsqueeze(dim);
  auto shape = std::vector<int64_t>(self.dim() + 1, 1);
  shape[dim] = depth;
  const auto classes = at::arange(depth, self.options()).view(shape);
  out = at::where(hot == classes, on.reshape({}), off.reshape({}));
}
