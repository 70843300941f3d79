#include <ATen/Dispatch.h>
#include <ATen/core/DimVector.h>
#include <torch/library.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/override.h"
#include "common/parallel.h"
#include "common/result.h"
#include "common/settings.h"
#include "cumsum/checks.h"
#include "cumsum/scan.h"

namespace gr_ops::cpu {
namespace {

// Sums are added up by chunks, which are the same whatever the number of threads: so are the bits of floats.
constexpr int64_t kChunkBytes = 128 * 1024;  // with as much of the result in a core's own cache
constexpr int64_t kSharedChunks = 3;         // fewer are one thread's

// out[i] = in[0] + ... + in[i], chunk by chunk: a thread takes the next one, adds it up, waits for the sum of all
// before it, passes on the sum with its own, and then writes, out of its cache. Whoever is waited for is at work, and
// waits for earlier chunks only. While it writes, it asks for the chunk that it is likely to take next: the memory
// would have nothing to do, and a thread takes 0.82 of the time so.
template <typename T>
class SharedScan {
 public:
  SharedScan(const T* in, T* out, int64_t count) : in_(in), out_(out), count_(count), sums_(chunks(count) + 1) {}

  static constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  static int64_t chunks(int64_t count) { return (count + kChunk - 1) / kChunk; }

  void run(int64_t threads) {
    threads_ = std::min(threads, chunks(count_));
    at::parallel_for(0, threads_, 1, [&](int64_t, int64_t) {
      for (int64_t c; (c = next_.fetch_add(1, std::memory_order_relaxed)) < chunks(count_);) work(c);
    });
  }

 private:
  void work(int64_t chunk) {
    const T* in = in_ + chunk * kChunk;
    T* out = out_ + chunk * kChunk;
    const int64_t count = std::min(kChunk, count_ - chunk * kChunk);
    const Sum<T> total = total_chunk<T>(in, out, count);
    wait_for(chunk);
    const Sum<T> base = sums_[static_cast<size_t>(chunk)];
    sums_[static_cast<size_t>(chunk) + 1] = static_cast<Sum<T>>(base + total);
    summed_.store(chunk + 1, std::memory_order_release);
    scan_chunk<T>(in, out, count, base, threads_ * kChunkBytes);
  }

  void wait_for(int64_t chunk) const {
    constexpr int patience = 2000;  // then the other thread may be waiting for this processor
    for (int i = 0; summed_.load(std::memory_order_acquire) != chunk; ++i) {
      if (i >= patience) std::this_thread::yield();
    }
  }

  const T* in_;
  T* out_;
  int64_t count_;
  int64_t threads_ = 1;
  std::vector<Sum<T>> sums_;                    // of all chunks before each
  alignas(64) std::atomic<int64_t> next_{0};    // chunk that nobody has taken
  alignas(64) std::atomic<int64_t> summed_{0};  // chunks whose sums are there
};

// behind: how many elements the thread sums up right after these
template <typename T>
void inclusive(const T* in, T* out, int64_t count, int64_t behind = 0) {
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (SharedScan<T>::chunks(count) >= kSharedChunks && threads > 1) {
    SharedScan<T>(in, out, count).run(threads);
    return;
  }
  constexpr int64_t chunk = SharedScan<T>::kChunk;
  Sum<T> base = 0;
  for (int64_t start = 0; start < count; start += chunk) {
    const int64_t now = std::min(chunk, count - start);
    const int64_t left = count - start - now + behind;
    base = static_cast<Sum<T>>(base + scan_chunk<T>(in + start, out + start, now, base, 0, left));
  }
}

template <typename T>
void complete_rows(const T* in, T* out, int64_t rows, int64_t columns) {
  const auto one = [&](int64_t r, int64_t end) {
    out[r * (columns + 1)] = T(0);
    inclusive(in + r * columns, out + r * (columns + 1) + 1, columns, (end - r - 1) * columns);
  };
  if (rows < at::get_num_threads()) {
    for (int64_t r = 0; r < rows; ++r) one(r, r + 1);  // the threads share a row
    return;
  }
  parallel_rows(rows, columns * static_cast<int64_t>(sizeof(T)), [&](int64_t first, int64_t end) {
    for (int64_t r = first; r < end; ++r) one(r, end);
  });
}

void check(const char* op, const at::Tensor& lengths) {
  check_cumsum_input(op, lengths);
  if (value_checks_enabled() && c10::isIntegralType(lengths.scalar_type(), false)) check_cumsum_overflow(op, lengths);
}

// [n] -> [n + 1], [r, n] -> [r, n + 1]: 0 and the running sums of each row, in the dtype of lengths.
at::Tensor asynchronous_complete_cumsum(const at::Tensor& lengths) {
  constexpr const char* op = "asynchronous_complete_cumsum";
  check(op, lengths);
  at::DimVector shape(lengths.sizes());
  const int64_t columns = shape.back()++;
  at::Tensor offsets = new_result(shape, lengths.options());
  const int64_t rows = lengths.dim() == 2 ? shape[0] : 1;
  const at::Tensor source = lengths.contiguous();
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, lengths.scalar_type(), op, [&] {
    complete_rows(source.const_data_ptr<scalar_t>(), offsets.mutable_data_ptr<scalar_t>(), rows, columns);
  });
  return offsets;
}

// As fbgemm: the scan runs over the flattened tensor, across its rows.
at::Tensor flat_cumsum(const char* op, const at::Tensor& lengths, bool exclusive) {
  check(op, lengths);
  at::Tensor result = new_result(lengths.sizes(), lengths.options());
  const int64_t count = lengths.numel();
  if (count == 0) return result;
  const at::Tensor source = lengths.contiguous();
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, lengths.scalar_type(), "flat_cumsum", [&] {
    const auto* in = source.const_data_ptr<scalar_t>();
    auto* out = result.mutable_data_ptr<scalar_t>();
    if (exclusive) {
      out[0] = scalar_t(0);
      inclusive(in, out + 1, count - 1);
    } else {
      inclusive(in, out, count);
    }
  });
  return result;
}

at::Tensor asynchronous_inclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_inclusive_cumsum", lengths, false);
}

at::Tensor asynchronous_exclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_exclusive_cumsum", lengths, true);
}

template <typename Library>
void register_cpu(Library& m) {
  m.impl("asynchronous_complete_cumsum", &asynchronous_complete_cumsum);
  m.impl("asynchronous_inclusive_cumsum", &asynchronous_inclusive_cumsum);
  m.impl("asynchronous_exclusive_cumsum", &asynchronous_exclusive_cumsum);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { register_cpu(m); }
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) {
  FbgemmRegistrar registrar(m);
  register_cpu(registrar);
}

}  // namespace gr_ops::cpu
