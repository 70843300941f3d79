#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/result.h"
#include "relative_bias/calls.h"

// Relative bias of whole sequences: bias[b, 0, q, k] = position[distance] + time[bucket] where query q may see key k,
// 0 elsewhere. Only those cells are calculated, and of the gradient only those are read.
namespace gr_ops::relative_bias {
namespace {

// Lengths and numbers of history tokens, checked: everything that follows relies on them.
struct Sequences {
  std::vector<int64_t> length, history;
  int64_t longest, contexts;

  Sequences(const char* op, const at::Tensor& offsets, const OptionalTensor& histories, int64_t longest,
            int64_t contexts)
      : longest(longest), contexts(contexts) {
    const at::Tensor starts = offsets.contiguous();
    const auto* start = starts.const_data_ptr<int64_t>();
    TORCH_CHECK(start[0] == 0, op, ": offsets must start at 0, got offsets[0]=", start[0]);
    const at::Tensor counts = histories.has_value() ? histories->contiguous() : at::Tensor();
    for (int64_t b = 0; b + 1 < offsets.size(0); ++b) {
      const int64_t rows = start[b + 1] - start[b];
      TORCH_CHECK(rows >= 0 && rows <= longest, op, ": sequence ", b, " has ", rows, " tokens; expected 0 to ",
                  longest);
      length.push_back(rows);
      const int64_t seen = counts.defined() ? counts.const_data_ptr<int64_t>()[b] : rows;
      TORCH_CHECK(seen >= 0 && seen <= rows, op, ": history[", b, "]=", seen, " out of range; expected 0 to ", rows);
      history.push_back(seen);
    }
  }

  int64_t count() const { return static_cast<int64_t>(length.size()); }
  // Keys [0, seen(b, q)) are those that the query may see.
  int64_t seen(int64_t b, int64_t q) const { return q < contexts ? length[b] : q + 1; }
};

// Sequences in runs of about equal work, as many whatever the number of threads: sums over a run have the same bits.
std::vector<int64_t> runs_of(const Sequences& sequences) {
  constexpr double kRuns = 16;
  double total = 0, filled = 0;
  for (int64_t length : sequences.length) total += static_cast<double>(length * length);
  std::vector<int64_t> bounds{0};
  for (int64_t b = 0; b < sequences.count(); ++b) {
    filled += static_cast<double>(sequences.length[b] * sequences.length[b]);
    if (filled * kRuns >= total * static_cast<double>(bounds.size()) || b + 1 == sequences.count()) {
      bounds.push_back(b + 1);
    }
  }
  return bounds;
}

// body(run, first, last) for each run of sequences.
template <typename Body>
void for_runs(const std::vector<int64_t>& bounds, const Body& body) {
  at::parallel_for(0, static_cast<int64_t>(bounds.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) body(run, bounds[run], bounds[run + 1]);
  });
}

// Sorted times make runs of one bucket: the search starts where the last one ended.
void buckets_of_row(const int64_t* times, int64_t query, int64_t keys, const int64_t* thresholds, int64_t count,
                    int16_t* row) {
  int64_t bucket = 0;
  for (int64_t k = keys - 1; k >= 0; --k) {
    // The difference may leave 64 bits; then so does the unsigned one, to the same bits as PyTorch's.
    const auto seconds = static_cast<int64_t>(static_cast<uint64_t>(times[query]) - static_cast<uint64_t>(times[k]));
    while (bucket + 1 < count && seconds >= thresholds[bucket + 1]) ++bucket;
    while (bucket > 0 && seconds < thresholds[bucket]) --bucket;
    row[k] = static_cast<int16_t>(bucket);
  }
}

at::Tensor time_buckets(const at::Tensor& times, const at::Tensor& offsets, const at::Tensor& thresholds,
                        c10::SymInt symbolic_longest, int64_t contexts) {
  constexpr const char* op = "hstu_time_buckets";
  check_times(op, times, offsets, thresholds, contexts);
  const int64_t side = symbolic_longest.guard_int(__FILE__, __LINE__);
  const Sequences sequences(op, offsets, std::nullopt, side, contexts);
  const at::Tensor starts = offsets.contiguous(), moments = times.contiguous(), bounds = thresholds.contiguous();
  const auto* start = starts.const_data_ptr<int64_t>();
  TORCH_CHECK(start[sequences.count()] == times.size(0), op, ": offsets end at ", start[sequences.count()],
              "; expected the length of times, ", times.size(0));
  const at::Tensor result = new_result({sequences.count(), side, side}, times.options().dtype(at::kShort));
  auto* cells = result.mutable_data_ptr<int16_t>();
  for_runs(runs_of(sequences), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      for (int64_t q = 0; q < side; ++q) {
        int16_t* row = cells + (b * side + q) * side;
        const int64_t keys = q < sequences.length[b] ? sequences.seen(b, q) : 0;
        buckets_of_row(moments.const_data_ptr<int64_t>() + start[b], q, keys, bounds.const_data_ptr<int64_t>(),
                       bounds.size(0), row);
        std::memset(row + keys, 0, (side - keys) * sizeof(int16_t));
      }
    }
  });
  return result;
}

// position, turned: the entries for keys 0, 1, ... of a query lie one after the other.
template <typename T>
std::vector<T> turned(const at::Tensor& position) {
  const at::Tensor values = position.contiguous();
  const auto* from = values.const_data_ptr<T>();
  return std::vector<T>(std::make_reverse_iterator(from + values.numel()), std::make_reverse_iterator(from));
}

// Where a query finds its entries in `turned`: keys before `near` each their own, from there on all distance 0.
struct Place {
  int64_t near, shift;
};

Place place_of(const Sequences& sequences, int64_t b, int64_t q, int64_t positions) {
  const int64_t base = std::min(q, sequences.history[b]);  // targets stand where the next token would
  return {std::min(q + 1, base + 1), positions - 1 - base};
}

void check_tables(const char* op, const Sequences& sequences, int64_t positions, const at::Tensor& time) {
  const int64_t longest =
      sequences.count() == 0 ? 0 : *std::max_element(sequences.length.begin(), sequences.length.end());
  TORCH_CHECK(positions >= longest, op, ": position has ", positions,
              " entries; expected one for each distance in sequences of ", longest, " tokens");
  TORCH_CHECK(time.size(0) > 0 || longest == 0, op, ": time is empty; expected an entry for each bucket");
}

void check_buckets(const char* op, int bits, int64_t b, int64_t q, int64_t count) {
  TORCH_CHECK(bits >= 0, op, ": a bucket of sequence ", b, ", query ", q, " out of range; expected 0 to ", count - 1);
}

// Sign of the result: whether each entry lies in [0, count).
int range_bits(const int16_t* buckets, int64_t keys, int64_t count) {
  const int last = static_cast<int>(std::min<int64_t>(count - 1, 32767));
  int bits = 0;
  for (int64_t k = 0; k < keys; ++k) bits |= buckets[k] | (last - buckets[k]);
  return bits;
}

template <typename T>
void fill(const char* op, const Sequences& sequences, const at::Tensor& position, const at::Tensor& time,
          const at::Tensor& buckets, const at::Tensor& result) {
  const std::vector<T> near = turned<T>(position);
  const auto positions = static_cast<int64_t>(near.size());
  const at::Tensor times = time.contiguous();
  const T* by_bucket = times.const_data_ptr<T>();
  const int64_t side = sequences.longest;
  for_runs(runs_of(sequences), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      for (int64_t q = 0; q < side; ++q) {
        const int64_t at = (b * side + q) * side;
        const int16_t* bucket = buckets.const_data_ptr<int16_t>() + at;
        T* row = result.mutable_data_ptr<T>() + at;
        const int64_t keys = q < sequences.length[b] ? sequences.seen(b, q) : 0;
        if (keys > 0) {
          check_buckets(op, range_bits(bucket, keys, times.numel()), b, q, times.numel());
          const Place place = place_of(sequences, b, q, positions);
          const T* from = near.data() + place.shift;
          for (int64_t k = 0; k < place.near; ++k) row[k] = by_bucket[bucket[k]] + from[k];
          for (int64_t k = place.near; k < keys; ++k) row[k] = by_bucket[bucket[k]] + near[positions - 1];
        }
        std::fill(row + keys, row + side, T{0});
      }
    }
  });
}

// Sums of one run: distances (turned), then buckets.
template <typename T>
void add_row(const T* grad, const int16_t* bucket, int64_t keys, const Place& place, T* near, int64_t positions,
             T* by_bucket) {
  T* to = near + place.shift;
  for (int64_t k = 0; k < place.near; ++k) to[k] += grad[k];
  for (int64_t k = place.near; k < keys; ++k) near[positions - 1] += grad[k];
  // Neighbours often share a bucket: their sum stays in a register.
  T sum = grad[0];
  for (int64_t k = 1; k < keys; ++k) {
    if (bucket[k] == bucket[k - 1]) {
      sum += grad[k];
    } else {
      by_bucket[bucket[k - 1]] += sum;
      sum = grad[k];
    }
  }
  by_bucket[bucket[keys - 1]] += sum;
}

template <typename T>
Gradients sums(const char* op, const Sequences& sequences, const at::Tensor& grad, const at::Tensor& position,
               const at::Tensor& time, const at::Tensor& buckets) {
  const std::vector<int64_t> bounds = runs_of(sequences);
  const auto runs = static_cast<int64_t>(bounds.size()) - 1;
  const int64_t positions = position.numel(), count = time.numel(), side = sequences.longest;
  std::vector<T> parts(runs * (positions + count));
  for_runs(bounds, [&](int64_t run, int64_t first, int64_t last) {
    T* near = parts.data() + run * (positions + count);
    for (int64_t b = first; b < last; ++b) {
      for (int64_t q = 0; q < sequences.length[b]; ++q) {
        const int64_t at = (b * side + q) * side, keys = sequences.seen(b, q);
        const int16_t* bucket = buckets.const_data_ptr<int16_t>() + at;
        check_buckets(op, range_bits(bucket, keys, count), b, q, count);
        add_row(grad.const_data_ptr<T>() + at, bucket, keys, place_of(sequences, b, q, positions), near, positions,
                near + positions);
      }
    }
  });
  at::Tensor of_position = at::zeros({positions}, position.options()), of_time = at::zeros({count}, time.options());
  T *to_position = of_position.mutable_data_ptr<T>(), *to_time = of_time.mutable_data_ptr<T>();
  for (int64_t run = 0; run < runs; ++run) {
    const T* part = parts.data() + run * (positions + count);
    for (int64_t i = 0; i < positions; ++i) to_position[positions - 1 - i] += part[i];
    for (int64_t i = 0; i < count; ++i) to_time[i] += part[positions + i];
  }
  return {of_position, of_time};
}

at::Tensor bias(const at::Tensor& position, const at::Tensor& time, const at::Tensor& buckets,
                const at::Tensor& offsets, const OptionalTensor& history, int64_t contexts) {
  constexpr const char* op = "hstu_relative_bias";
  check_bias(op, position, time, buckets, offsets, history, contexts);
  const int64_t side = buckets.size(1);
  const Sequences sequences(op, offsets, history, side, contexts);
  check_tables(op, sequences, position.numel(), time);
  const at::Tensor result = new_result({buckets.size(0), 1, side, side}, position.options());
  const at::Tensor cells = buckets.contiguous();
  if (position.scalar_type() == at::kFloat) {
    fill<float>(op, sequences, position, time, cells, result);
  } else {
    fill<double>(op, sequences, position, time, cells, result);
  }
  return result;
}

Gradients bias_backward(const at::Tensor& grad, const at::Tensor& position, const at::Tensor& time,
                        const at::Tensor& buckets, const at::Tensor& offsets, const OptionalTensor& history,
                        int64_t contexts) {
  constexpr const char* op = "hstu_relative_bias_backward";
  check_bias(op, position, time, buckets, offsets, history, contexts);
  check_grad(op, grad, position, buckets);
  const Sequences sequences(op, offsets, history, buckets.size(1), contexts);
  check_tables(op, sequences, position.numel(), time);
  const at::Tensor gradient = grad.contiguous(), cells = buckets.contiguous();
  return position.scalar_type() == at::kFloat ? sums<float>(op, sequences, gradient, position, time, cells)
                                              : sums<double>(op, sequences, gradient, position, time, cells);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) {
  m.impl("hstu_time_buckets", &time_buckets);
  m.impl("hstu_relative_bias", &bias);
  m.impl("hstu_relative_bias_backward", &bias_backward);
}

}  // namespace gr_ops::relative_bias
