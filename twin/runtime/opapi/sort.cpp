// Sorting, selection, histograms, and outputs whose size only the data tells.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

ACLNN(aclnnSort, (In, self), (bool, stable), (int64_t, dim), (bool, descending), (Out, values), (Out, indices)) {
  const auto [sorted, place] = at::sort(self, std::optional<bool>(stable), dim, descending);
  values = sorted;
  indices = place;
}

ACLNN(aclnnTopk, (In, self), (int64_t, k), (int64_t, dim), (bool, largest), (bool, sorted), (Out, values),
      (Out, indices)) {
  const auto [best, place] = at::topk(self, k, dim, largest, sorted);
  values = best;
  indices = place;
}

ACLNN(aclnnKthvalue, (In, self), (int64_t, k), (int64_t, dim), (bool, keepdim), (Out, values), (Out, indices)) {
  const auto [value, place] = at::kthvalue(self, k, dim, keepdim);
  values = value;
  indices = place;
}

ACLNN(aclnnUnique, (In, self), (bool, sorted), (bool, returnInverse), (SizedOut, unique), (Out, inverse)) {
  const auto [values, places] = at::_unique(self, sorted, returnInverse);
  unique = values;
  if (returnInverse) {
    inverse = places;
  }
}

ACLNN(aclnnUnique2, (In, self), (bool, sorted), (bool, returnInverse), (bool, returnCounts), (SizedOut, unique),
      (Out, inverse), (SizedOut, counts)) {
  const auto [values, places, sizes] = at::_unique2(self, sorted, returnInverse, returnCounts);
  unique = values;
  if (returnInverse) {
    inverse = places;
  }
  counts = sizes;
}

ACLNN(aclnnUniqueConsecutive, (In, self), (bool, returnInverse), (bool, returnCounts), (int64_t, dim),
      (SizedOut, unique), (Out, inverse), (SizedOut, counts)) {
  // A dim outside of self's stands for none.
  const auto along = dim >= -self.dim() && dim < self.dim() ? std::make_optional(dim) : std::nullopt;
  const auto [values, places, sizes] = at::unique_consecutive(self, returnInverse, returnCounts, along);
  unique = values;
  if (returnInverse) {
    inverse = places;
  }
  if (returnCounts) {
    counts = sizes;
  }
}

ACLNN(aclnnUniqueDim, (In, self), (bool, sorted), (bool, returnInverse), (int64_t, dim), (SizedOut, unique),
      (Out, inverse), (SizedOut, counts)) {
  const auto [values, places, sizes] = at::unique_dim(self, dim, sorted, /*return_inverse=*/true,
                                                      /*return_counts=*/true);
  unique = values;
  if (inverse.Target().numel() == places.numel()) {
    inverse = places;
  }
  counts = sizes;
}

ACLNN(aclnnNonzero, (In, self), (SizedOut, out)) { out = at::nonzero(self); }

// Not in the specification's list: torch_npu turns boolean indices into lists of places with it, one row per dimension.
ACLNN(aclnnNonzeroV2, (In, self), (SizedOut, out)) { out = at::nonzero(self).t(); }

ACLNN(aclnnMaskedSelect, (In, self), (In, mask), (SizedOut, out)) { out = at::masked_select(self, mask.to(at::kBool)); }

ACLNN(aclnnBincount, (In, self), (OptionalIn, weights), (int64_t, minlength), (Out, out)) {
  out = at::bincount(self, weights, minlength);
}

ACLNN(aclnnHistc, (In, self), (int64_t, bins), (Number, min), (Number, max), (Out, out)) {
  out = at::histc(self.is_floating_point() ? self : self.to(at::kFloat), bins, min, max);
}

ACLNN(aclnnSearchSorted, (In, sortedSequence), (In, self), (bool, outInt32), (bool, right), (OptionalIn, sorter),
      (Out, out)) {
  out = at::searchsorted(sortedSequence, self, outInt32, right, std::nullopt, sorter);
}

ACLNN(aclnnSearchSorteds, (In, sortedSequence), (Number, self), (bool, outInt32), (bool, right), (OptionalIn, sorter),
      (Out, out)) {
  out = at::searchsorted(sortedSequence, self, outInt32, right, std::nullopt, sorter);
}
