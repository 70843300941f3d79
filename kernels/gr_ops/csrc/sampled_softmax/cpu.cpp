#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "common/result.h"
#include "hstu/cpu/chosen.h"
#include "sampled_softmax/cpu/kernels.h"
#include "sampled_softmax/places.h"

// On CPU tensors. Threads take parts of groups, each of which leaves the gradients of its negatives; these are added up
// row by row, in order. 16-bit types are computed in float, and gradients rounded once.
namespace gr_ops::sampled_softmax {
namespace {

struct Results {
  at::Tensor loss, dquery, drows;
};

at::Tensor contiguous(const OptionalTensor& tensor, at::ScalarType type) {
  return tensor.has_value() ? tensor->to(type).contiguous() : at::Tensor();
}

template <typename Body>
void with_scratch(int64_t count, size_t bytes, const Body& body) {
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    const at::DataPtr scratch = c10::GetCPUAllocator()->allocate(bytes);
    body(first, last, scratch.get());
  });
}

// The first row with a share of all entries before it, and the one behind the last.
int64_t row_of_share(const std::vector<int64_t>& starts, int64_t share, int64_t shares) {
  const int64_t rows = static_cast<int64_t>(starts.size()) - 1;
  if (share == shares) return rows;
  // Rows without entries are work too.
  const double wanted =
      static_cast<double>(starts.back() + rows) * static_cast<double>(share) / static_cast<double>(shares);
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (static_cast<double>(starts[middle] + middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

double sum_of(const at::Tensor& losses) {
  const auto add = [](const auto* from, int64_t count) { return std::accumulate(from, from + count, 0.0); };
  return losses.scalar_type() == at::kFloat ? add(losses.const_data_ptr<float>(), losses.numel())
                                            : add(losses.const_data_ptr<double>(), losses.numel());
}

Results compute(const char* op, bool learns, const at::Tensor& given_query, const at::Tensor& given_rows,
                const at::Tensor& given_targets, const at::Tensor& given_negatives, const OptionalTensor& correction,
                const OptionalTensor& place, int64_t group, double temperature, double eps) {
  check(op, given_query, given_rows, given_targets, given_negatives, correction, place, group, temperature, eps);
  const at::ScalarType type = type_of_loss(given_query);
  const at::Tensor query = given_query.to(type).contiguous(), rows = given_rows.to(type).contiguous(),
                   targets = given_targets.contiguous(), negatives = given_negatives.contiguous(),
                   corrections = contiguous(correction, type);
  const Kernels& kernels =
      type == at::kFloat ? hstu::chosen<KernelSet>().of_float : hstu::chosen<KernelSet>().of_double;
  const int64_t tokens = query.size(0), count = rows.size(0), width = negatives.size(1);
  const Parts parts(op, tokens, negatives.size(0), group, place);
  const Occurrences occurrences(op, count, targets, negatives, parts.parts);
  const auto part_count = static_cast<int64_t>(parts.parts.size());

  const at::TensorOptions options = query.options();
  const at::Tensor inverse = at::empty({count}, options), losses = at::empty({tokens}, options);
  Results results;
  at::Tensor sums, to_target;
  Problem p;
  p.dim = query.size(1);
  p.width = width;
  p.temperature = temperature;
  p.eps = eps;
  p.share = 1.0 / static_cast<double>(tokens);
  p.query = query.const_data_ptr();
  p.rows = rows.const_data_ptr();
  p.targets = targets.const_data_ptr<int64_t>();
  p.inverse = inverse.mutable_data_ptr();
  p.losses = losses.mutable_data_ptr();
  p.starts = occurrences.starts.data();
  p.entries = occurrences.entries.data();
  p.tokens = tokens;
  if (learns) {
    results.dquery = new_result(query.sizes(), options);
    results.drows = new_result(rows.sizes(), options);
    to_target = at::empty({tokens}, options);
    sums = new_result({part_count * width, kernels.padded(p.dim)}, options);
    p.dquery = results.dquery.mutable_data_ptr();
    p.drows = results.drows.mutable_data_ptr();
    p.to_target = to_target.mutable_data_ptr();
    p.sums = sums.const_data_ptr();
  }
  constexpr int64_t kRows = 256;  // below which no further thread is worth waking
  at::parallel_for(0, count, kRows, [&](int64_t first, int64_t last) { kernels.measure(p, first, last); });
  const size_t bytes = kernels.scratch(p);
  const int64_t row_bytes = kernels.padded(p.dim) * static_cast<int64_t>(query.itemsize());
  with_scratch(part_count, bytes, [&](int64_t first, int64_t last, void* scratch) {
    for (int64_t n = first; n < last; ++n) {
      const Part& part = parts.parts[n];
      Piece piece;
      piece.negatives = negatives.const_data_ptr<int64_t>() + part.group * width;
      piece.tokens = parts.tokens.data() + part.first;
      piece.count = static_cast<int>(part.last - part.first);
      if (corrections.defined()) {
        piece.correction = static_cast<const char*>(corrections.const_data_ptr()) +
                           part.group * width * static_cast<int64_t>(corrections.itemsize());
      }
      if (learns) piece.sums = static_cast<char*>(sums.mutable_data_ptr()) + n * width * row_bytes;
      kernels.run(p, piece, scratch);
    }
  });
  results.loss = at::scalar_tensor(sum_of(losses) * p.share, options);
  if (!learns) return results;
  const int64_t shares = at::in_parallel_region() ? 1 : at::get_num_threads();
  with_scratch(shares, bytes, [&](int64_t first, int64_t last, void* scratch) {
    kernels.gather(p, row_of_share(occurrences.starts, first, shares), row_of_share(occurrences.starts, last, shares),
                   scratch);
  });
  return results;
}

at::Tensor loss(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets, const at::Tensor& negatives,
                const OptionalTensor& correction, const OptionalTensor& place, int64_t group, double temperature,
                double eps) {
  return compute("sampled_softmax", false, query, rows, targets, negatives, correction, place, group, temperature, eps)
      .loss;
}

Gradients gradients(const at::Tensor& query, const at::Tensor& rows, const at::Tensor& targets,
                    const at::Tensor& negatives, const OptionalTensor& correction, const OptionalTensor& place,
                    int64_t group, double temperature, double eps) {
  const Results found = compute("sampled_softmax_gradients", true, query, rows, targets, negatives, correction, place,
                                group, temperature, eps);
  return {found.loss, found.dquery.to(query.scalar_type()), found.drows.to(rows.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) {
  m.impl("sampled_softmax", &loss);
  m.impl("sampled_softmax_gradients", &gradients);
}

}  // namespace gr_ops::sampled_softmax
