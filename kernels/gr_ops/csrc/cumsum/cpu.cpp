#include <ATen/Dispatch.h>
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

// In L2 with its result. Chunks are the same whatever the number of threads; with 32 KB two threads were slower.
constexpr int64_t kChunkBytes = 128 * 1024;
constexpr int64_t kSharedChunks = 3;  // fewer are one thread's

// out[i] = in[0] + ... + in[i]. Every thread takes the next chunk, adds it up, takes the base from the chunk before,
// passes its own on, and only then writes: by that time the chunk is in its cache, so memory is read once. A chunk waits
// for one that some thread is already adding up.
template <typename T>
class SharedScan {
 public:
  SharedScan(const T* in, T* out, int64_t count) : in_(in), out_(out), count_(count) {}

  static constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  static int64_t chunks(int64_t count) { return (count + kChunk - 1) / kChunk; }

  void work() {
    for (int64_t c = next_.fetch_add(1); c < chunks(count_); c = next_.fetch_add(1)) {
      const T* in = in_ + c * kChunk;
      const int64_t length = std::min(kChunk, count_ - c * kChunk);
      const Sum<T> total = scan_chunk<T>(in, nullptr, length, 0);
      wait_for(c);
      const Sum<T> base = base_;
      base_ = static_cast<Sum<T>>(base + total);
      summed_.store(c + 1, std::memory_order_release);
      scan_chunk<T>(in, out_ + c * kChunk, length, base);
    }
  }

 private:
  void wait_for(int64_t chunk) const {
    constexpr int patience = 2000;  // then the other thread may be waiting for this processor
    for (int i = 0; summed_.load(std::memory_order_acquire) != chunk; ++i) {
      if (i >= patience) std::this_thread::yield();
    }
  }

  const T* in_;
  T* out_;
  int64_t count_;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> summed_{0};
  Sum<T> base_ = 0;  // of chunk summed_
};

template <typename T>
void inclusive(const T* in, T* out, int64_t count) {
  const int64_t chunks = SharedScan<T>::chunks(count);
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (chunks >= kSharedChunks && threads > 1) {
    SharedScan<T> scan(in, out, count);
    at::parallel_for(0, threads, 1, [&](int64_t, int64_t) { scan.work(); });
    return;
  }
  constexpr int64_t chunk = SharedScan<T>::kChunk;
  Sum<T> base = 0;
  for (int64_t start = 0; start < count; start += chunk) {
    base = static_cast<Sum<T>>(base + scan_chunk<T>(in + start, out + start, std::min(chunk, count - start), base));
  }
}

template <typename T>
void complete_rows(const T* in, T* out, int64_t rows, int64_t columns) {
  const auto one = [&](int64_t r) {
    out[r * (columns + 1)] = T(0);
    inclusive(in + r * columns, out + r * (columns + 1) + 1, columns);
  };
  if (rows < at::get_num_threads()) {
    for (int64_t r = 0; r < rows; ++r) one(r);  // the threads share a row
    return;
  }
  parallel_rows(rows, columns * static_cast<int64_t>(sizeof(T)), [&](int64_t first, int64_t end) {
    for (int64_t r = first; r < end; ++r) one(r);
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
  std::vector<int64_t> shape = lengths.sizes().vec();
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
