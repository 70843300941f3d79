#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <numeric>

#include "embedding/cpu_repeated_rows.h"
#include "embedding/cpu_single_rows.h"
#include "embedding/operators.h"

// Backward pass on the CPU. Rows that occur once among the indices, as most of a large table
// do, are updated in the order of the indices; only what contributes to the others is sorted by row. Every row is
// aggregated in the order of the indices and updated once, by one thread: results do not depend on the number of
// threads.
namespace gr_ops::embedding {
namespace {

constexpr const char* kOp = "split_embedding_backward_codegen";

// The bags of indices [first, end), of which `bag` holds the first. Stretches are written whole, beyond the end of a
// bag: the next one comes over it.
void fill_bags(const int64_t* offsets, int64_t bag, int64_t first, int64_t end, uint32_t* out) {
  constexpr int64_t kStretch = 8;
  int64_t k = first;
  for (; k + kStretch <= end; k = offsets[++bag]) {
    const auto value = static_cast<uint32_t>(bag);
    std::fill_n(out + k, kStretch, value);
    const int64_t stop = std::min(offsets[bag + 1], end);
    for (int64_t at = k + kStretch; at < stop; at += kStretch) {
      std::fill_n(out + std::min(at, end - kStretch), kStretch, value);
    }
  }
  for (; k < end; k = offsets[++bag]) {
    std::fill(out + k, out + std::min(offsets[bag + 1], end), static_cast<uint32_t>(bag));
  }
}

// Checks the indices, and finds their bags and which rows they repeat.
template <typename Key, typename Index>
void mark(const Pass& pass, int64_t rows, int64_t threads, Buffers<Key>& buffers) {
  const Index* indices = pass.lookup.indices.const_data_ptr<Index>();
  const int64_t* offsets = pass.bag_offsets();
  const int64_t size = pass.lookup.indices.numel();
  Marks& marks = buffers.marks;
  marks.prepare(rows, size, threads);
  FirstFault fault;
  const auto fault_in = [&](const Feature& feature, int64_t first, int64_t end) {
    if (row_math::row_kernels().valid(indices + first, end - first, feature.rows)) return false;
    const auto bad = [&](Index row) { return row < 0 || static_cast<int64_t>(row) >= feature.rows; };
    fault.report(std::find_if(indices + first, indices + end, bad) - indices);
    return true;
  };
  at::parallel_for(0, marks.parts(), 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      const int64_t end = size * (part + 1) / marks.parts();
      int64_t first = size * part / marks.parts();
      const int64_t bag = pass.bag_at(first);
      int64_t t = bag / pass.batch;
      fill_bags(offsets, bag, first, end, buffers.bags.data());
      marks.clear(part);
      for (; first < end; ++t) {
        const Feature& feature = pass.features[static_cast<size_t>(t)];
        const int64_t stop = std::min(offsets[(t + 1) * pass.batch], end);
        if (fault_in(feature, first, stop)) return;
        marks.add(part, feature.key, indices + first, stop - first);
        first = stop;
      }
    }
  });
  if (fault.found()) {
    const int64_t k = fault.position();
    const Feature& feature = pass.features[static_cast<size_t>(pass.bag_at(k) / pass.batch)];
    fail_index(kOp, k, static_cast<int64_t>(indices[k]), feature.rows);
  }
  marks.merge();
}

// grad[k] = dot(gradient of k's bag, weights of k's row), with the weights as they were in the forward pass.
template <typename Row, typename Grad, typename Index>
void weight_gradients(const Pass& pass, const UpdateOptions& options, const at::Tensor& result) {
  const auto& kernels = row_math::row_kernels();
  const Index* indices = pass.lookup.indices.const_data_ptr<Index>();
  const int64_t* offsets = pass.bag_offsets();
  const Row* weights = row_data<const Row>(pass.lookup.weights);
  const Grad* gradients = row_data<const Grad>(pass.grad_output);
  const int64_t columns = pass.grad_output.size(1);
  float* out = result.mutable_data_ptr<float>();
  at::Tensor wanted;
  if (options.feature_requires_grad) wanted = options.feature_requires_grad->to(at::kLong).contiguous();
  for_bags(offsets, pass.bags(), pass.lookup.max_d.expect_int(), [&](int64_t first, int64_t end) {
    std::vector<float> gradient(static_cast<size_t>(pass.lookup.max_d.expect_int()));
    std::vector<float> weight(gradient.size());
    for (int64_t bag = first; bag < end; ++bag) {
      const int64_t t = bag / pass.batch;
      if (wanted.defined() && wanted.const_data_ptr<int64_t>()[t] == 0) continue;
      const Feature& feature = pass.features[static_cast<size_t>(t)];
      const int64_t count = offsets[bag + 1] - offsets[bag];
      const float scale = pass.lookup.pooling == kMean && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
      const Grad* from = gradients + (bag - t * pass.batch) * columns + feature.column;
      kernels.of(from).widen(from, gradient.data(), feature.width);
      for (int64_t k = offsets[bag]; k < offsets[bag + 1]; ++k) {
        const Row* row = weights + feature.weights + static_cast<int64_t>(indices[k]) * feature.width;
        kernels.of(row).widen(row, weight.data(), feature.width);
        out[k] = scale * kernels.dot(gradient.data(), weight.data(), feature.width);
      }
    }
  });
}

int64_t threads_for(const Pass& pass, int64_t contributions) {
  return contributions * pass.lookup.max_d.expect_int() < row_math::kSerialElements ? 1 : at::get_num_threads();
}

template <typename Key, typename Row, typename Grad, typename Index>
void update_single_rows(const Pass& pass, Buffers<Key>& buffers) {
  const int64_t size = pass.lookup.indices.numel();
  const int64_t chunks = threads_for(pass, size);
  const auto start_of = [&](int64_t chunk) { return size * chunk / chunks; };
  std::vector<int64_t> counts(static_cast<size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](int64_t from, int64_t to) {
    SingleRows<Row, Grad, Key, Index> rows(pass, buffers.bags.data(), buffers.marks);
    for (int64_t chunk = from; chunk < to; ++chunk) {
      const int64_t first = start_of(chunk);
      counts[static_cast<size_t>(chunk)] = rows.run(first, start_of(chunk + 1), buffers.found.data() + first);
    }
  });
  buffers.records.resize(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  auto next = buffers.records.begin();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    next = std::copy_n(buffers.found.begin() + start_of(chunk), counts[static_cast<size_t>(chunk)], next);
  }
}

template <typename Key, typename Row, typename Grad>
void update_repeated_rows(const Pass& pass, int64_t bits, Buffers<Key>& buffers) {
  const auto& sorted = row_math::RadixSort<Key>::run(buffers.records, buffers.scratch, bits);
  const auto size = static_cast<int64_t>(sorted.size());
  const int64_t chunks = threads_for(pass, size);
  at::parallel_for(0, chunks, 1, [&](int64_t from, int64_t to) {
    RepeatedRows<Row, Grad, Key> rows(pass, buffers.bags.data(), sorted);
    for (int64_t chunk = from; chunk < to; ++chunk) {
      rows.run(static_cast<size_t>(size * chunk / chunks), static_cast<size_t>(size * (chunk + 1) / chunks));
    }
  });
}

template <typename Key, typename Row, typename Grad, typename Index>
void run(const Pass& pass, const UpdateOptions& options, int64_t rows, int64_t bits,
         const at::Tensor& weights_gradient) {
  Buffers<Key>& buffers = own_buffers<Key>();
  buffers.prepare(static_cast<size_t>(pass.lookup.indices.numel()));
  mark<Key, Index>(pass, rows, at::get_num_threads(), buffers);
  if (options.weights_gradient) weight_gradients<Row, Grad, Index>(pass, options, weights_gradient);
  update_single_rows<Key, Row, Grad, Index>(pass, buffers);
  if (!buffers.records.empty()) update_repeated_rows<Key, Row, Grad>(pass, bits, buffers);
}

at::Tensor update(const at::Tensor& grad_output, const Lookup& given, const Optimizer& optimizer,
                  const UpdateOptions& options) {
  check_gradient(kOp, grad_output, given, optimizer, options);
  Lookup lookup = given;
  lookup.indices = given.indices.contiguous();
  lookup.offsets = given.offsets.contiguous();
  if (given.indice_weights) lookup.indice_weights = given.indice_weights->contiguous();
  auto features = describe_features(kOp, lookup, grad_output.size(1));
  TORCH_CHECK(lookup.pooling != kNone || grad_output.size(1) == features[0].width, kOp,
              ": grad_output has the wrong shape; expected ", features[0].width, " columns, got ", grad_output.size(1));
  describe_state(kOp, optimizer, features);
  check_offset_values(kOp, lookup);
  check_shared_rows(kOp, lookup, features);
  const int64_t count = lookup.indices.numel();
  const at::Tensor weights_gradient =
      at::zeros({options.weights_gradient ? count : 0}, lookup.weights.options().dtype(at::kFloat));
  if (count == 0) return weights_gradient;
  TORCH_CHECK(
      count <= std::numeric_limits<uint32_t>::max() && lookup.offsets.numel() <= std::numeric_limits<uint32_t>::max(),
      kOp, ": indices is too long; expected at most ", std::numeric_limits<uint32_t>::max(), " indices and bags, got ",
      count, " and ", lookup.offsets.numel());
  at::Tensor gradient = grad_output.contiguous();
  if (options.max_gradient >= 0) gradient = gradient.clamp(-options.max_gradient, options.max_gradient);
  Pass pass{lookup,      optimizer, features, lookup.offsets.to(at::kLong), gradient, batch_size(lookup).expect_int(),
            std::nullopt};
  if (options.rounds_by_chance(lookup.weights)) {
    pass.rounding.emplace(draw_rounding_seed(), lookup.max_d.expect_int());
  }

  int64_t rows = 0;
  for (const Feature& feature : features) rows = std::max(rows, feature.key + feature.rows);
  int64_t bits = 1;
  while (bits < 63 && (rows >> bits) != 0) ++bits;
  with_row_type(lookup.weights.scalar_type(), [&](auto* row) {
    with_row_type(gradient.scalar_type(), [&](auto* grad) {
      with_index_type(lookup.indices.scalar_type(), [&](auto* index) {
        using Row = std::remove_const_t<std::remove_pointer_t<decltype(row)>>;
        using Grad = std::remove_const_t<std::remove_pointer_t<decltype(grad)>>;
        using Index = std::remove_const_t<std::remove_pointer_t<decltype(index)>>;
        if (bits <= 32) {
          run<uint32_t, Row, Grad, Index>(pass, options, rows, bits, weights_gradient);
        } else {
          run<uint64_t, Row, Grad, Index>(pass, options, rows, bits, weights_gradient);
        }
      });
    });
  });
  return weights_gradient;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { m.impl("embedding_update", &update_kernel<&update, int64_t>); }

}  // namespace gr_ops::embedding
