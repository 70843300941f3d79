#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

// Validation of the sparse permutations (docs/operators.md), shared by every back end and the Meta kernels.
// Symbols: T features, B batch, P entries of permute, L values.
namespace gr_ops {

// rank: dimensions that lengths may have, 1 (permute_1D) or 2 (permute_2D, where 1-D lengths stand for B = 1).
void check_permute(const char* op, const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                   const std::optional<at::Tensor>& weights, const std::optional<c10::SymInt>& permuted_sum,
                   int64_t rank);

void check_permute_grad(const char* op, const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                        const c10::SymInt& total);

// int64 entries on the CPU, not initialised.
class Longs {
 public:
  explicit Longs(size_t size) : size_(size), data_(new int64_t[size]) {}
  size_t size() const { return size_; }
  const int64_t* data() const { return data_.get(); }
  int64_t* data() { return data_.get(); }
  int64_t operator[](size_t i) const { return data_[i]; }
  int64_t& operator[](size_t i) { return data_[i]; }
  int64_t back() const { return data_[size_ - 1]; }

 private:
  size_t size_;
  std::unique_ptr<int64_t[]> data_;
};

// Where T features and their P copies start.
struct PermuteOffsets {
  PermuteOffsets(size_t features, size_t copies) : in(features + 1), out(copies + 1), source(copies) {}

  Longs in;      // [T + 1] rows of the values
  Longs out;     // [P + 1] rows of the result
  Longs source;  // [P] where the feature of a copy starts in the values: in[permute[p]]
};

// permute and lengths on the CPU: raises on an index outside [0, T) and on a negative length.
PermuteOffsets permute_offsets(const char* op, const at::Tensor& permute, const at::Tensor& lengths);

// Rows of values, and the given sum, against what lengths say.
void check_permute_sums(const char* op, const PermuteOffsets& offsets, int64_t rows,
                        const std::optional<int64_t>& permuted_sum);

// The same of a gradient: its rows, and those of values.
void check_permute_grad_sums(const char* op, const PermuteOffsets& offsets, int64_t grad_rows, int64_t total);

}  // namespace gr_ops
