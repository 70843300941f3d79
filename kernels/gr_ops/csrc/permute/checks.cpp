#include "permute/checks.h"

#include <c10/util/Exception.h>

#include <string>

#include "common/dtypes.h"
#include "common/parallel.h"
#include "cumsum/scan.h"
#include "permute/lengths.h"

namespace gr_ops {
namespace {

void check_index_dtype(const char* op, const char* argument, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong, op, ": ", argument,
              " has an unsupported dtype; expected int32 or int64, got ", tensor.scalar_type());
}

void check_rows(const char* op, const char* argument, const at::Tensor& tensor) {
  TORCH_CHECK(is_movable(tensor.scalar_type()), op, ": ", argument, " has an unsupported dtype; expected one of ",
              kMovableDtypes, ", got ", tensor.scalar_type());
  TORCH_CHECK(tensor.dim() >= 1, op, ": ", argument, " has no dimensions; expected [L] or [L, d...], got shape []");
}

void check_structure(const char* op, const at::Tensor& permute, const at::Tensor& lengths, int64_t rank) {
  check_index_dtype(op, "permute", permute);
  check_index_dtype(op, "lengths", lengths);
  TORCH_CHECK(permute.dim() == 1, op, ": permute must be 1-D; expected [P], got shape ", permute.sym_sizes());
  if (rank == 1) {
    TORCH_CHECK(lengths.dim() == 1, op, ": lengths must be 1-D; expected [T], got shape ", lengths.sym_sizes());
  } else {
    TORCH_CHECK(lengths.dim() == 1 || lengths.dim() == 2, op,
                ": lengths must be 1-D or 2-D; expected [T] or [T, B], got shape ", lengths.sym_sizes());
  }
}

void check_device(const char* op, const char* argument, const at::Tensor& tensor, c10::Device device) {
  TORCH_CHECK(tensor.device() == device, op, ": expected ", argument, " on ", device, ", got ", tensor.device());
}

constexpr int64_t kLongest = int64_t{1} << 40;  // no tensor has more rows; sums below it cannot overflow

// Raises for the first length of rows [first, end) that is negative or absurd.
template <typename Length>
void refuse_lengths(const char* op, const at::Tensor& lengths, int64_t batch, int64_t first, int64_t end) {
  const auto* data = lengths.const_data_ptr<Length>();
  for (int64_t i = first * batch; i < end * batch; ++i) {
    const std::string place =
        lengths.dim() == 2 ? std::to_string(i / batch) + ", " + std::to_string(i % batch) : std::to_string(i);
    TORCH_CHECK(data[i] >= 0, op, ": lengths holds a negative value; expected lengths >= 0, got lengths[", place,
                "]=", data[i]);
    TORCH_CHECK(static_cast<int64_t>(data[i]) < kLongest, op,
                ": lengths holds a value beyond 2^40; expected the length of a bag, got lengths[", place,
                "]=", data[i]);
  }
}

// sums[t] of each row. All bits of the lengths are collected on the way: they tell whether one of them is bad.
template <typename Length>
void sum_rows(const char* op, const at::Tensor& lengths, int64_t features, int64_t batch, int64_t* sums) {
  const auto* data = lengths.const_data_ptr<Length>();
  parallel_rows(features, batch * static_cast<int64_t>(sizeof(Length)), [&](int64_t first, int64_t end) {
    const Length bits = sum_lengths(data + first * batch, end - first, batch, sums + first);
    if (bits < 0 || static_cast<int64_t>(bits) >= kLongest) refuse_lengths<Length>(op, lengths, batch, first, end);
  });
}

// sums[i] = sums[0] + ... + sums[i]
void accumulate(int64_t* sums, int64_t count) { cpu::scan_chunk<int64_t>(sums, sums, count, 0); }

// Of each copy: where its feature starts, and how long it is.
template <typename Index>
void find_copies(const char* op, const at::Tensor& permute, const Longs& in, int64_t* sources, int64_t* rows) {
  const auto* entries = permute.const_data_ptr<Index>();
  const auto features = static_cast<int64_t>(in.size()) - 1;
  parallel_rows(permute.numel(), 3 * static_cast<int64_t>(sizeof(int64_t)), [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) {
      const int64_t t = entries[p];
      TORCH_CHECK(t >= 0 && t < features, op, ": permute[", p, "]=", t, " out of range for ", features,
                  " features; expected 0 <= permute[p] < ", features, ", got ", t);
      sources[p] = in[t];
      rows[p] = in[t + 1] - in[t];
    }
  });
}

}  // namespace

void check_permute(const char* op, const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                   const std::optional<at::Tensor>& weights, const std::optional<c10::SymInt>& permuted_sum,
                   int64_t rank) {
  check_structure(op, permute, lengths, rank);
  check_rows(op, "values", values);
  check_device(op, "permute", permute, values.device());
  check_device(op, "lengths", lengths, values.device());
  if (weights) {
    check_rows(op, "weights", *weights);
    check_device(op, "weights", *weights, values.device());
    TORCH_SYM_CHECK(weights->sym_size(0).sym_eq(values.sym_size(0)), op, ": weights has ", weights->sym_size(0),
                    " rows but values has ", values.sym_size(0), "; expected weights.size(0) == values.size(0), got ",
                    weights->sym_size(0));
  }
  if (permuted_sum) {
    TORCH_SYM_CHECK(permuted_sum->sym_ge(0), op, ": permuted_lengths_sum is negative; expected a value >= 0, got ",
                    *permuted_sum);
  }
}

void check_permute_grad(const char* op, const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                        const c10::SymInt& total) {
  check_structure(op, permute, lengths, 2);
  check_rows(op, "grad", grad);
  TORCH_CHECK(grad.is_floating_point() || grad.is_complex(), op,
              ": grad has an unsupported dtype; expected a floating or complex type, got ", grad.scalar_type());
  check_device(op, "permute", permute, grad.device());
  check_device(op, "lengths", lengths, grad.device());
  TORCH_SYM_CHECK(total.sym_ge(0), op, ": total_L is negative; expected a value >= 0, got ", total);
}

PermuteOffsets permute_offsets(const char* op, const at::Tensor& permute, const at::Tensor& lengths) {
  const at::Tensor rows = lengths.contiguous();
  const at::Tensor entries = permute.contiguous();
  const int64_t features = rows.size(0);
  const int64_t copies = entries.numel();
  const int64_t batch = rows.dim() == 2 ? rows.size(1) : 1;
  PermuteOffsets offsets(static_cast<size_t>(features), static_cast<size_t>(copies));
  offsets.in[0] = offsets.out[0] = 0;
  int64_t* in = offsets.in.data() + 1;
  int64_t* out = offsets.out.data() + 1;
  if (rows.scalar_type() == at::kInt) {
    sum_rows<int32_t>(op, rows, features, batch, in);
  } else {
    sum_rows<int64_t>(op, rows, features, batch, in);
  }
  accumulate(in, features);
  if (entries.scalar_type() == at::kInt) {
    find_copies<int32_t>(op, entries, offsets.in, offsets.source.data(), out);
  } else {
    find_copies<int64_t>(op, entries, offsets.in, offsets.source.data(), out);
  }
  accumulate(out, copies);
  return offsets;
}

void check_permute_sums(const char* op, const PermuteOffsets& offsets, int64_t rows,
                        const std::optional<int64_t>& permuted_sum) {
  TORCH_CHECK(rows == offsets.in.back(), op, ": values has ", rows, " rows but lengths add up to ", offsets.in.back(),
              "; expected values.size(0) == lengths.sum(), got ", rows);
  TORCH_CHECK(!permuted_sum || *permuted_sum == offsets.out.back(), op,
              ": permuted_lengths_sum is wrong; expected the sum of the permuted lengths (", offsets.out.back(),
              "), got ", permuted_sum.value_or(0));
}

void check_permute_grad_sums(const char* op, const PermuteOffsets& offsets, int64_t grad_rows, int64_t total) {
  TORCH_CHECK(grad_rows == offsets.out.back(), op, ": grad has ", grad_rows,
              " rows but the permuted lengths add up to ", offsets.out.back(),
              "; expected grad.size(0) == lengths[permute].sum(), got ", grad_rows);
  check_permute_sums(op, offsets, total, std::nullopt);
}

}  // namespace gr_ops
