#include <torch/library.h>

#include "common/prefetch.h"
#include "common/result.h"
#include "embedding/cpu_rows.h"
#include "embedding/operators.h"

// Forward pass on the CPU: bags, or single rows, over the threads by their number of indices.
namespace gr_ops::embedding {
namespace {

constexpr const char* kOp = "split_embedding_codegen_lookup";

template <typename Row, typename Index>
class Pooling {
 public:
  Pooling(const Lookup& lookup, const std::vector<Feature>& features, const at::Tensor& offsets, int64_t columns)
      : kernels_(row_math::row_kernels()),
        features_(features),
        weights_(row_data<const Row>(lookup.weights)),
        indices_(lookup.indices.const_data_ptr<Index>()),
        indice_weights_(lookup.indice_weights ? lookup.indice_weights->const_data_ptr<float>() : nullptr),
        offsets_(offsets.const_data_ptr<int64_t>()),
        batch_((offsets.numel() - 1) / static_cast<int64_t>(features.size())),
        columns_(columns),
        mean_(lookup.pooling == kMean) {}

  int64_t bags() const { return batch_ * static_cast<int64_t>(features_.size()); }

  // Pooled bags [first, end) of the feature-major order.
  template <typename Out>
  void pool(int64_t first, int64_t end, Out* out, FirstFault& fault) const {
    while (first < end) {
      const int64_t t = first / batch_;
      const int64_t feature_end = std::min(end, (t + 1) * batch_);
      const Feature& feature = features_[static_cast<size_t>(t)];
      if (!valid(feature, offsets_[first], offsets_[feature_end], fault)) return;
      if (feature_end < end) fetch_first_rows(features_[static_cast<size_t>(t) + 1], offsets_[feature_end]);
      Out* target = out + (first - t * batch_) * columns_ + feature.column;
      if constexpr (std::is_same_v<Out, float>) {
        pool_feature(feature, first, feature_end - first, target, columns_);
      } else {
        pool_narrow(feature, first, feature_end, target);
      }
      first = feature_end;
    }
  }

  // Rows of the indices of bags [first, end), one by one.
  template <typename Out>
  void gather(int64_t first, int64_t end, Out* out, FirstFault& fault) const {
    std::vector<float> wide(static_cast<size_t>(columns_));
    while (first < end) {
      const int64_t t = first / batch_;
      const int64_t feature_end = std::min(end, (t + 1) * batch_);
      const Feature& feature = features_[static_cast<size_t>(t)];
      const int64_t last = offsets_[feature_end];
      if (!valid(feature, offsets_[first], last, fault)) return;
      const Row* table = weights_ + feature.weights;
      for (int64_t k = offsets_[first]; k < last; ++k) {
        if (k + kAhead < last) fetch(table, indices_[k + kAhead], columns_);
        const Row* row = table + static_cast<int64_t>(indices_[k]) * columns_;
        Out* target = out + k * columns_;
        fetch_to_write(reinterpret_cast<const char*>(target), columns_ * static_cast<int64_t>(sizeof(Out)));
        if constexpr (std::is_same_v<Out, Row>) {
          std::copy_n(row, columns_, target);
        } else {
          kernels_.of(static_cast<const Row*>(nullptr)).widen(row, wide.data(), columns_);
          kernels_.of(static_cast<const Out*>(nullptr)).narrow(wide.data(), target, columns_);
        }
      }
      first = feature_end;
    }
  }

  [[noreturn]] void fail(int64_t position) const {
    const int64_t* after = std::upper_bound(offsets_, offsets_ + bags() + 1, position);
    const int64_t t = (after - offsets_ - 1) / batch_;
    fail_index(kOp, position, static_cast<int64_t>(indices_[position]), features_[static_cast<size_t>(t)].rows);
  }

 private:
  static constexpr int64_t kAhead = 32;
  static constexpr int64_t kWideBags = 64;

  void pool_feature(const Feature& feature, int64_t first, int64_t bags, float* out, int64_t out_stride) const {
    const auto pool = kernels_.of(static_cast<const Row*>(nullptr)).pool(static_cast<const Index*>(nullptr));
    pool(weights_ + feature.weights, indices_, offsets_ + first, bags, feature.width, feature.width, indice_weights_,
         mean_, out, out_stride);
  }

  // Through fp32, some bags at a time.
  template <typename Out>
  void pool_narrow(const Feature& feature, int64_t first, int64_t end, Out* out) const {
    std::vector<float> sums(static_cast<size_t>(kWideBags * feature.width));
    const auto narrow = kernels_.of(static_cast<const Out*>(nullptr)).narrow;
    for (int64_t bag = first; bag < end; bag += kWideBags) {
      const int64_t bags = std::min(kWideBags, end - bag);
      pool_feature(feature, bag, bags, sums.data(), feature.width);
      for (int64_t i = 0; i < bags; ++i) {
        narrow(sums.data() + i * feature.width, out + (bag - first + i) * columns_, feature.width);
      }
    }
  }

  // The kernels ask for rows ahead of their use, but only within a feature: with short ones many would come too late.
  void fetch_first_rows(const Feature& feature, int64_t start) const {
    const int64_t end = std::min(start + kAhead, offsets_[bags()]);
    for (int64_t k = start; k < end; ++k) fetch(weights_ + feature.weights, indices_[k], feature.width);
  }

  // Into the second cache, as the kernels do. The index is not checked yet.
  static void fetch(const Row* table, Index index, int64_t width) {
    const uint64_t row = static_cast<uint64_t>(index) * static_cast<uint64_t>(width);
    prefetch_lines(table, static_cast<int64_t>(row * sizeof(Row)), width * static_cast<int64_t>(sizeof(Row)));
  }

  bool valid(const Feature& feature, int64_t start, int64_t end, FirstFault& fault) const {
    const bool all = kernels_.valid(indices_ + start, end - start, feature.rows);
    for (int64_t k = start; !all && k < end; ++k) {
      const auto row = static_cast<int64_t>(indices_[k]);
      if (row < 0 || row >= feature.rows) {
        fault.report(k);
        break;
      }
    }
    return all;
  }

  const row_math::RowKernels& kernels_;
  const std::vector<Feature>& features_;
  const Row* weights_;
  const Index* indices_;
  const float* indice_weights_;
  const int64_t* offsets_;
  int64_t batch_;
  int64_t columns_;
  bool mean_;
};

template <typename Row, typename Index, typename Out>
void run(const Lookup& lookup, const std::vector<Feature>& features, const at::Tensor& offsets, const at::Tensor& out) {
  const Pooling<Row, Index> pooling(lookup, features, offsets, out.size(1));
  FirstFault fault;
  Out* data = row_data<Out>(out);
  const int64_t width = features.empty() ? 1 : lookup.max_d.expect_int();
  for_bags(offsets.const_data_ptr<int64_t>(), pooling.bags(), width, [&](int64_t first, int64_t end) {
    if (lookup.pooling == kNone) {
      pooling.gather(first, end, data, fault);
    } else {
      pooling.pool(first, end, data, fault);
    }
  });
  if (fault.found()) pooling.fail(fault.position());
}

at::Tensor pool(const Lookup& given) {
  check_lookup(kOp, given);
  const auto dtype = output_type(given.output_dtype);
  const int64_t total_d = given.total_d.expect_int();
  const auto features = describe_features(kOp, given, total_d);
  Lookup lookup = given;
  lookup.indices = given.indices.contiguous();
  lookup.offsets = given.offsets.contiguous();
  if (given.indice_weights) lookup.indice_weights = given.indice_weights->contiguous();
  check_offset_values(kOp, lookup);
  const bool pooled = lookup.pooling != kNone;
  const at::Tensor out = new_result(
      {pooled ? batch_size(lookup).expect_int() : lookup.indices.numel(), pooled ? total_d : features[0].width},
      lookup.weights.options().dtype(dtype));
  if (out.numel() == 0) return out;
  const at::Tensor offsets = lookup.offsets.to(at::kLong);
  with_row_type(lookup.weights.scalar_type(), [&](auto* row) {
    with_index_type(lookup.indices.scalar_type(), [&](auto* index) {
      with_row_type(dtype, [&](auto* result) {
        run<std::remove_const_t<std::remove_pointer_t<decltype(row)>>,
            std::remove_const_t<std::remove_pointer_t<decltype(index)>>,
            std::remove_const_t<std::remove_pointer_t<decltype(result)>>>(lookup, features, offsets, out);
      });
    });
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { m.impl("embedding_pool", &pool_kernel<&pool, int64_t>); }

}  // namespace gr_ops::embedding
