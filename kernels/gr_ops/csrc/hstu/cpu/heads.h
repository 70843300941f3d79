#pragma once

#include "hstu/cpu/head.h"
#include "hstu/rows.h"

namespace gr_ops::hstu {

// Where part (i, h) of a tensor lies, i a token or a row of the batch: read off once, so that a head costs arithmetic
// alone. Undefined tensors give null.
class HeadPointers {
 public:
  HeadPointers() = default;
  HeadPointers(const at::Tensor& tensor, int64_t step, int64_t head_step);  // elements
  void* at(int64_t i, int64_t h) const { return data_ == nullptr ? nullptr : data_ + i * step_ + h * head_step_; }
  bool defined() const { return data_ != nullptr; }

 private:
  char* data_ = nullptr;
  int64_t step_ = 0, head_step_ = 0;  // bytes
};

// The heads of all rows of a problem, as the kernels take them: task b * N + h is head h of row b.
class Heads {
 public:
  Heads(const Problem& problem, const std::vector<Row>& rows);

  void set_output(const at::Tensor& output);
  // dbias of the heads is set only if they do not share it.
  void set_gradients(const Gradients& gradients);
  // times: of all tokens. sums: none yet.
  void set_relative(const RelativeBias& bias);
  // relative_sums_size() elements, those of a head behind those of the one before it.
  void set_relative_sums(const at::Tensor& sums);

  int64_t count() const { return static_cast<int64_t>(rows_.size()) * problem_.heads; }
  Head at(int64_t task) const;
  // In products of one block of queries with one key.
  double cost(int64_t task) const { return costs_[task / problem_.heads]; }
  const Row& row(int64_t task) const { return rows_[task / problem_.heads]; }
  const Kernels& kernels() const;
  const Problem& problem() const { return problem_; }
  int64_t relative_sums_size() const { return sums_begin_.back(); }
  size_t relative_scratch() const;

  // Several heads have one bias.
  bool bias_is_shared() const;
  // Those of one [M, M] slice of the bias, with dbias set.
  std::vector<Head> sharing_bias(int64_t slice) const;

 private:
  Tokens paged(const HeadPointers& fresh, int64_t stride, const Row& row, int64_t head, int64_t part) const;
  void* dbias(int64_t task) const { return dbias_.at(task / problem_.heads, task % problem_.heads); }

  const Problem& problem_;
  const std::vector<Row>& rows_;
  std::vector<double> costs_;  // of one head of each row
  at::Tensor page_ids_;
  HeadPointers q_, k_, v_, grad_, out_, dq_, dk_, dv_;
  HeadPointers bias_, mask_, dbias_;  // squares [M, M]
  HeadPointers cache_;                // of keys and, as a second head, of values: pages
  HeadPointers sums_;                 // of the gradient of a relative bias, an element each
  std::vector<int64_t> sums_begin_;   // of each head's
  Head same_;                         // what all heads have in common
};

// Keys that some query of the block may see.
double block_cost(const Head& head, int block);

}  // namespace gr_ops::hstu
