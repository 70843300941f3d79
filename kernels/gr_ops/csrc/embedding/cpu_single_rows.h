#pragma once

#include "embedding/cpu_row_steps.h"

namespace gr_ops::embedding {

// Updates the rows to which one index contributes, in the order of the indices: they need no sort, the gradient of a
// bag is read once for all its rows, and addresses are known long before their use.
template <typename Row, typename Grad, typename Key, typename Index>
class SingleRows : RowSteps<Row, Grad> {
 public:
  using Record = row_math::Contribution<Key>;

  SingleRows(const Pass& pass, const uint32_t* bags, const Marks& marks)
      : RowSteps<Row, Grad>(pass, bags), marks_(marks.view()), indices_(pass.lookup.indices.const_data_ptr<Index>()) {}

  // Of indices [first, end). What contributes to repeated rows goes to `found`, which has room for end - first
  // records; returns how many.
  int64_t run(int64_t first, int64_t end, Record* found) {
    const Record* start = found;
    while (first < end) {
      const auto t = static_cast<size_t>(this->bags_[first] / this->pass_.batch);
      const int64_t table_end = this->pass_.bag_offsets()[static_cast<int64_t>(t + 1) * this->pass_.batch];
      begin_table(t);
      for (const int64_t stop = std::min(end, table_end); first < stop; first += kBlock) {
        uint32_t singles[kBlock];
        const int64_t block_end = std::min(first + kBlock, stop);
        const size_t count = this->pass_.by_index() ? part<true>(first, block_end, singles, found)
                                                    : part<false>(first, block_end, singles, found);
        add(singles, count);
        if (added_ - done_ >= 2 * kBatch) finish_batch(kBatch);
      }
      first = std::min(end, table_end);
    }
    finish_all();
    return found - start;
  }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr int64_t kBlock = 32;
  static constexpr size_t kPlaces = 4 * kBatch;  // for rows that wait for their memory, in a ring of batches
  static constexpr uint32_t kNone32 = 0xffffffffu;

  void begin_table(size_t t) {
    const Feature& feature = this->pass_.features[t];
    if (feature.width != table_.width) {
      finish_all();
      gradient_.resize(kPlaces * static_cast<size_t>(feature.width));
      last_ = kNone32;
    }
    feature_ = t;
    table_ = this->rows_of(feature);
    key_ = feature.key;
  }

  // Parts the single rows of a block from the repeated ones. No branch depends on which they are: often that cannot be
  // foreseen.
  template <bool by_index>
  size_t part(int64_t first, int64_t end, uint32_t* singles, Record*& found) const {
    const Marks::View marks = marks_;
    const Index* indices = indices_;
    const uint32_t* bags = this->bags_;
    const int64_t table_key = key_;
    Record* next = found;
    size_t count = 0;
    for (int64_t k = first; k < end; ++k) {
      const int64_t key = table_key + static_cast<int64_t>(indices[k]);
      const uint32_t repeated = marks.repeated(key);
      *next = {static_cast<Key>(key), by_index ? static_cast<uint32_t>(k) : bags[k]};
      next += repeated;
      singles[count] = static_cast<uint32_t>(k);
      count += 1 - repeated;
    }
    found = next;
    return count;
  }

  void add(const uint32_t* singles, size_t count) {
    const TableRows<Row> table = table_;
    const Index* indices = indices_;
    const size_t start = added_;
    for (size_t i = 0; i < count; ++i) {
      const size_t place = (start + i) % kPlaces;
      table.point_at(static_cast<int64_t>(indices[singles[i]]), rows_[place], stored_[place]);
    }
    for (size_t i = 0; i < count; ++i) {
      const float* gradient = gradient_of(singles[i]);
      __builtin_prefetch(gradient);
      rows_[(start + i) % kPlaces].gradient = gradient;
    }
    added_ += count;
  }

  // Where it is, if it needs no scale and no other type.
  const float* gradient_of(uint32_t k) {
    if constexpr (std::is_same_v<Grad, float>) {
      if (!this->scaled_) return this->gradients_ + this->position_of(k, this->bags_[k], feature_);
    }
    return own_gradient(k);
  }

  // A copy of the gradient of index k, scaled; the rows of a bag share it where they can.
  const float* own_gradient(uint32_t k) {
    const uint32_t bag = this->bags_[k];
    const uint32_t source = this->pass_.by_index() ? k : bag;
    const auto width = static_cast<size_t>(table_.width);
    if (source != last_) {
      last_ = source;
      slot_ = (slot_ + 1) % kPlaces;
      const int64_t starts[] = {0, 1};
      const int64_t position = this->position_of(k, bag, feature_);
      const float scale = this->scaled_ ? this->scale_of(k, bag) : 1.0f;
      this->add_up(&position, this->scaled_ ? &scale : nullptr, starts, 1, table_.width,
                   gradient_.data() + slot_ * width);
    }
    return gradient_.data() + slot_ * width;
  }

  void finish_batch(size_t rows) {
    const size_t place = done_ % kPlaces;
    this->apply(rows_ + place, stored_ + place, rows, table_.width);
    done_ += rows;
  }

  void finish_all() {
    while (added_ > done_) finish_batch(std::min(added_ - done_, kBatch));
    added_ = done_ = 0;
  }

  const Marks::View marks_;
  const Index* indices_;
  size_t feature_ = 0;
  int64_t key_ = 0;
  TableRows<Row> table_{};
  // Rows [done_, added_) wait, each at its number % kPlaces.
  size_t added_ = 0;
  size_t done_ = 0;
  row_math::RowState rows_[kPlaces] = {};
  Row* stored_[kPlaces];
  // Gradients that are not in grad_output as they are, each for as long as a row waits.
  std::vector<float> gradient_;
  size_t slot_ = 0;
  uint32_t last_ = kNone32;
};

}  // namespace gr_ops::embedding
