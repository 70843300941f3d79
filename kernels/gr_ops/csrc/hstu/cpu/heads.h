#pragma once

#include "hstu/cpu/head.h"
#include "hstu/rows.h"

namespace gr_ops::hstu {

// The heads of all rows of a problem, as the kernels take them: task b * N + h is head h of row b.
class Heads {
 public:
  Heads(const Problem& problem, const std::vector<Row>& rows);

  void set_output(const at::Tensor& output) { output_ = output; }
  // dbias of the heads is set only if they do not share it.
  void set_gradients(const Gradients& gradients) { gradients_ = gradients; }

  int64_t count() const { return static_cast<int64_t>(rows_.size()) * problem_.heads; }
  Head at(int64_t task) const;
  // In products of one block of queries with one key.
  double cost(int64_t task) const { return costs_[task / problem_.heads]; }
  const Row& row(int64_t task) const { return rows_[task / problem_.heads]; }
  const Kernels& kernels() const;

  // Several heads have one bias.
  bool bias_is_shared() const;
  // Those of one [M, M] slice of the bias, with dbias set.
  std::vector<Head> sharing_bias(int64_t slice) const;

 private:
  const void* square(const at::Tensor& tensor, int64_t task) const;

  const Problem& problem_;
  const std::vector<Row>& rows_;
  std::vector<double> costs_;  // of one head of each row
  at::Tensor page_ids_;
  at::Tensor output_;
  Gradients gradients_;
};

// Keys that some query of the block may see.
double block_cost(const Head& head, int block);

}  // namespace gr_ops::hstu
