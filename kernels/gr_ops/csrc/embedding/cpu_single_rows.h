#pragma once

#include "embedding/cpu_row_steps.h"

namespace gr_ops::embedding {

// Updates the rows to which one index contributes, in the order of the indices: they need no sort, the gradient of a
// bag is read once for all its rows, and addresses are known long before their use.
template <typename Row, typename Grad, typename Key, typename Index>
class SingleRows : RowSteps<Row, Grad> {
 public:
  using Record = Contribution<Key>;

  SingleRows(const Pass& pass, const uint32_t* bags, const Marks& marks)
      : RowSteps<Row, Grad>(pass, bags), marks_(marks), indices_(pass.lookup.indices.const_data_ptr<Index>()) {}

  // Of indices [first, end). What contributes to repeated rows goes to `found`, which has room for end - first records;
  // returns how many.
  int64_t run(int64_t first, int64_t end, Record* found) {
    const Record* start = found;
    while (first < end) {
      const auto t = static_cast<size_t>(this->bags_[first] / this->pass_.batch);
      const int64_t table_end = this->pass_.bag_offsets()[static_cast<int64_t>(t + 1) * this->pass_.batch];
      begin_table(t);
      for (const int64_t stop = std::min(end, table_end); first < stop; first += kBlock) {
        found = add_block(first, std::min(first + kBlock, stop), found);
        if (count_ >= kBatch + kBlock) finish_batch(kBatch);
      }
      first = std::min(end, table_end);
    }
    while (count_ > 0) finish_batch(std::min(count_, kBatch));
    return found - start;
  }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr int64_t kBlock = 32;
  static constexpr size_t kMost = kBatch + 2 * static_cast<size_t>(kBlock);  // rows that wait for their memory
  static constexpr uint32_t kNone32 = 0xffffffffu;

  void begin_table(size_t t) {
    const Feature& table = this->pass_.features[t];
    if (table.width != width_) {
      while (count_ > 0) finish_batch(std::min(count_, kBatch));
      width_ = table.width;
      gradient_.resize(kMost * static_cast<size_t>(width_));
      last_ = kNone32;
    }
    feature_ = t;
  }

  // No branch depends on whether a row is repeated: often that cannot be foreseen.
  Record* add_block(int64_t first, int64_t end, Record* found) {
    const Feature& table = this->pass_.features[feature_];
    const bool by_index = this->pass_.by_index();
    uint32_t singles[kBlock];
    size_t count = 0;
    for (int64_t k = first; k < end; ++k) {
      const int64_t key = table.key + static_cast<int64_t>(indices_[k]);
      const uint32_t repeated = marks_.repeated(key);
      *found = {static_cast<Key>(key), by_index ? static_cast<uint32_t>(k) : this->bags_[k]};
      found += repeated;
      singles[count] = static_cast<uint32_t>(k);
      count += 1 - repeated;
    }
    for (size_t i = 0; i < count; ++i, ++count_) {
      const uint32_t k = singles[i];
      this->place(table, static_cast<int64_t>(indices_[k]), rows_[count_], stored_[count_]);
      rows_[count_].gradient = gradient_of(k);
    }
    return found;
  }

  const float* gradient_of(uint32_t k) {
    const uint32_t bag = this->bags_[k];
    if constexpr (std::is_same_v<Grad, float>) {
      if (!this->scaled_) return this->gradients_ + this->position_of(k, bag, feature_);
    }
    const uint32_t source = this->pass_.by_index() ? k : bag;
    float* gradient = gradient_.data() + slot_ * static_cast<size_t>(width_);
    if (source != last_) {
      last_ = source;
      slot_ = slot_ + 1 == kMost ? 0 : slot_ + 1;
      gradient = gradient_.data() + slot_ * static_cast<size_t>(width_);
      const int64_t starts[] = {0, 1};
      const int64_t position = this->position_of(k, bag, feature_);
      const float scale = this->scaled_ ? this->scale_of(k, bag) : 1.0f;
      this->add_up(&position, this->scaled_ ? &scale : nullptr, starts, 1, width_, gradient);
    }
    return gradient;
  }

  void finish_batch(size_t rows) {
    this->apply(rows_, stored_, rows, width_);
    count_ -= rows;
    std::copy_n(rows_ + rows, count_, rows_);
    std::copy_n(stored_ + rows, count_, stored_);
  }

  const Marks& marks_;
  const Index* indices_;
  size_t feature_ = 0;
  int64_t width_ = 0;
  size_t count_ = 0;
  rows::RowState rows_[kMost] = {};
  Row* stored_[kMost];
  // Gradients that are not in grad_output as they are, each for as long as a row waits.
  std::vector<float> gradient_;
  size_t slot_ = 0;
  uint32_t last_ = kNone32;
};

}  // namespace gr_ops::embedding
