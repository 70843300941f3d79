#include "faults/npu_records.h"

#include <c10/util/StringUtil.h>

#include <set>

namespace gr_ops::npu {
namespace {

// Numbers as kernels/operators/common/data_faults.h has them.
enum Word { kKind, kOperator, kArgument, kPlace, kValue, kLimit };
enum Kind {
  kFirst = 1,
  kNegative,
  kDecreases,
  kNotTheEnd,
  kBeyond,
  kTooLong,
  kTooManyQueries,
  kTooManyCounted,
  kOutOfRange,
  kBadFill,
};
enum Operator { kPermute = 6, kBoundsCheck, kPermuteGradient };
enum Argument {
  kPermuteEntries = 14,
  kLengths,
  kValues,
  kPermutedSum,
  kBOffsets,
  kGrad,
  kLevel,  // the first argument that is a level of jagged offsets
};

std::string name_of_operator(int64_t number) {
  switch (number) {
    case 1:
      return "HstuDenseForward (hstu_dense, hstu_jagged, hstu_varlen, hstu_paged)";
    case 2:
      return "HstuRelativeForward (hstu_relative)";
    case 3:
      return "SplitEmbeddingCodegenForwardUnweighted (split_embedding_codegen_lookup_*)";
    case 4:
      return "JaggedToPaddedDense (jagged_to_padded_dense)";
    case 5:
      return "DenseToJagged (dense_to_jagged)";
    case kPermute:
      return "Permute2dSparseData (permute_2D_sparse_data, permute_1D_sparse_data)";
    case kBoundsCheck:
      return "BoundsCheckIndices (bounds_check_indices)";
    case kPermuteGradient:
      return "Permute2dSparseDataGrad (permute_sparse_data_backward)";
    default:
      return c10::str("operator ", number);
  }
}

std::string name_of_argument(int64_t number) {
  constexpr const char* names[] = {
      "",          "seq_offset",    "seq_offset_k", "num_context", "num_target", "page_offsets",
      "page_ids",  "last_page_len", "max_seq_len",  "attn_bias",   "mask",       "position",
      "offsets",   "indices",       "permute",      "lengths",     "values",     "permuted_lengths_sum",
      "B_offsets", "grad"};
  if (number >= kLevel) return c10::str("offsets[", number - kLevel, "]");
  return number > 0 ? names[number] : c10::str("argument ", number);
}

// As permute/checks.cpp. `limit` of lengths is B, or 0 where they have one dimension.
std::string describe_permute(const int64_t* record) {
  const int64_t value = record[kValue];
  const int64_t limit = record[kLimit];
  switch (record[kArgument]) {
    case kPermuteEntries:
      return c10::str("permute[", record[kPlace], "]=", value, " out of range for ", limit,
                      " features; expected 0 <= permute[p] < ", limit, ", got ", value);
    case kLengths: {
      const int64_t place = record[kPlace];
      const std::string entry = limit > 0 ? c10::str(place / limit, ", ", place % limit) : c10::str(place);
      return c10::str("lengths holds a ",
                      record[kKind] == kNegative ? "negative value; expected lengths >= 0"
                                                 : "value beyond 2^40; expected the length of a bag",
                      ", got lengths[", entry, "]=", value);
    }
    case kValues:
      return c10::str("values has ", value, " rows but lengths add up to ", limit,
                      "; expected values.size(0) == lengths.sum(), got ", value);
    case kGrad:
      return c10::str("grad has ", value, " rows but the permuted lengths add up to ", limit,
                      "; expected grad.size(0) == lengths[permute].sum(), got ", value);
    default:
      return c10::str("permuted_lengths_sum is wrong; expected the sum of the permuted lengths (", limit, "), got ",
                      value);
  }
}

// As bounds/checks.cpp.
std::string describe_batches(const int64_t* record) {
  const int64_t place = record[kPlace];
  const int64_t value = record[kValue];
  const int64_t limit = record[kLimit];
  switch (record[kKind]) {
    case kFirst:
      return c10::str("B_offsets starts above zero; expected B_offsets[0] == 0, got ", value);
    case kDecreases:
      return c10::str("B_offsets must be non-decreasing: B_offsets[", place, "]=", value, " < B_offsets[", place - 1,
                      "]=", limit);
    default:
      return c10::str("offsets size ", limit + 1, " is not equal to B_offsets[T] + 1; expected ", value + 1, ", got ",
                      limit + 1);
  }
}

std::string describe(const int64_t* record) {
  if (record[kOperator] == kPermute || record[kOperator] == kPermuteGradient) return describe_permute(record);
  if (record[kOperator] == kBoundsCheck) return describe_batches(record);
  const std::string argument = name_of_argument(record[kArgument]);
  const std::string entry = c10::str(argument, "[", record[kPlace], "]");
  const int64_t value = record[kValue];
  const int64_t limit = record[kLimit];
  switch (record[kKind]) {
    case kFirst:
      return c10::str(argument, " must start at 0; expected ", entry, "=0, got ", value);
    case kNegative:
      return c10::str(entry, " is negative; expected >= 0, got ", value);
    case kDecreases:
      return c10::str(argument, " must not decrease; expected ", entry, " >= ", limit, ", got ", value);
    case kNotTheEnd:
      return c10::str(argument, " ends wrong; expected ", entry, "=", limit, ", got ", value);
    case kBeyond:
      return c10::str(argument, " ends beyond the values; expected ", entry, " <= ", limit, ", got ", value);
    case kTooLong:
      return c10::str("row ", record[kPlace], " is longer than ", argument, " allows; expected at most ", limit,
                      " tokens, got ", value);
    case kTooManyQueries:
      return c10::str("row ", record[kPlace], " has more queries than keys; expected at most ", limit, ", got ", value);
    case kTooManyCounted:
      return c10::str("num_context + num_target is too large; expected at most the ", limit, " tokens of row ",
                      record[kPlace], ", got ", value);
    case kOutOfRange:
      return c10::str(entry, " is out of range; expected 0 <= value < ", limit, ", got ", value);
    case kBadFill:
      return c10::str(entry, " is out of range; expected 1 <= length <= ", limit, ", got ", value);
    default:
      return c10::str("fault ", record[kKind], " of ", entry, ", got ", value);
  }
}

}  // namespace

std::string describe_faults(const int64_t* words) {
  std::string text;
  std::set<int64_t> told;
  for (int64_t core = 0; core < kFaultCores; ++core) {
    const int64_t* record = words + core * kFaultWords;
    if (record[kKind] == 0 || !told.insert(record[kOperator]).second) continue;
    text += c10::str(text.empty() ? "" : "\n", name_of_operator(record[kOperator]), ": ", describe(record));
  }
  return text;
}

}  // namespace gr_ops::npu
