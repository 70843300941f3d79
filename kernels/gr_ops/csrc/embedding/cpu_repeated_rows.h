#pragma once

#include "embedding/cpu_row_steps.h"

namespace gr_ops::embedding {

// Aggregates and updates the rows of sorted contributions.
template <typename Row, typename Grad, typename Key>
class RepeatedRows : RowSteps<Row, Grad> {
 public:
  using Record = row_math::Contribution<Key>;

  RepeatedRows(const Pass& pass, const uint32_t* bags, const std::vector<Record>& records)
      : RowSteps<Row, Grad>(pass, bags), records_(records) {}

  // Rows whose contributions start in [first, end).
  void run(size_t first, size_t end) {
    const size_t size = records_.size();
    while (first > 0 && first < size && records_[first].key == records_[first - 1].key) ++first;
    while (first < end && first < size) {
      const Feature& table = this->pass_.features[feature_of(this->bag_of(records_[first].source))];
      begin_batch(table);
      while (first < end && first < size && count_ < kBatch && belongs(records_[first], table)) {
        first = add_row(first, table);
      }
      finish_batch(table);
    }
  }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr size_t kStretch = 256;  // room for contributions, at first

  static bool belongs(const Record& record, const Feature& table) {
    const auto key = static_cast<int64_t>(record.key);
    return key >= table.key && key < table.key + table.rows;
  }

  // The feature of a bag; neighbours mostly share it.
  size_t feature_of(size_t bag) {
    const auto batch = static_cast<size_t>(this->pass_.batch);
    if (bag < feature_ * batch || bag >= (feature_ + 1) * batch) feature_ = bag / batch;
    return feature_;
  }

  void begin_batch(const Feature& table) {
    count_ = 0;
    sums_ = 0;
    starts_[0] = 0;
    table_ = this->rows_of(table);
    const size_t size = kBatch * static_cast<size_t>(table.width);
    if (gradient_.size() < size) gradient_.resize(size);
  }

  // Room for `size` contributions.
  void reserve(size_t size) {
    if (size <= positions_.size()) return;
    positions_.resize(std::max(size, 2 * positions_.size()));
    if (this->scaled_) scales_.resize(positions_.size());
  }

  // How often the contribution at `first` stands there: a bag may have a row many times.
  size_t same_from(size_t first) const {
    const Record* records = records_.data();
    const Record record = records[first];
    const size_t size = records_.size();
    size_t stop = first + 1;
    while (stop < size && records[stop].key == record.key && records[stop].source == record.source) ++stop;
    return stop - first;
  }

  // The gradient of the row whose contributions start at `first`, which is moved to where they end. A single one stays
  // where it is.
  const float* gradient_of(size_t& first, int64_t width) {
    const Record& record = records_[first];
    if constexpr (std::is_same_v<Grad, float>) {
      if (!this->scaled_ && (first + 1 == records_.size() || records_[first + 1].key != record.key)) {
        ++first;
        const size_t bag = this->bag_of(record.source);
        return this->gradients_ + this->position_of(record.source, bag, feature_of(bag));
      }
    }
    auto at = static_cast<size_t>(starts_[sums_]);
    for (const Key key = record.key; first < records_.size() && records_[first].key == key;) {
      const uint32_t source = records_[first].source;
      const size_t times = same_from(first);
      reserve(at + times);
      const size_t bag = this->bag_of(source);
      std::fill_n(positions_.data() + at, times, this->position_of(source, bag, feature_of(bag)));
      if (this->scaled_) std::fill_n(scales_.data() + at, times, this->scale_of(source, bag));
      at += times;
      first += times;
    }
    const float* gradient = gradient_.data() + static_cast<int64_t>(sums_) * width;
    starts_[++sums_] = static_cast<int64_t>(at);
    return gradient;
  }

  // The row whose contributions start at `first`; returns where they end.
  size_t add_row(size_t first, const Feature& table) {
    const int64_t row = static_cast<int64_t>(records_[first].key) - table.key;
    table_.point_at(row, rows_[count_], stored_[count_]);
    rows_[count_++].gradient = gradient_of(first, table.width);
    return first;
  }

  void finish_batch(const Feature& table) {
    this->add_up(positions_.data(), this->scaled_ ? scales_.data() : nullptr, starts_, sums_, table.width,
                 gradient_.data());
    this->apply(rows_, stored_, count_, table.width);
  }

  const std::vector<Record>& records_;
  size_t feature_ = 0;
  TableRows<Row> table_{};
  // A batch of rows of one table, and what contributes to them.
  size_t count_ = 0;
  size_t sums_ = 0;  // rows whose gradient is a sum
  row_math::RowState rows_[kBatch] = {};
  Row* stored_[kBatch];
  int64_t starts_[kBatch + 1];
  std::vector<int64_t> positions_ = std::vector<int64_t>(kStretch);
  std::vector<float> scales_ = std::vector<float>(kStretch);
  std::vector<float> gradient_;
};

}  // namespace gr_ops::embedding
