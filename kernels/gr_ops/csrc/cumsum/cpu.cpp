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

// Sums of floats are added up by chunks, which are the same whatever the number of threads.
constexpr int64_t kChunkBytes = 128 * 1024;
constexpr int64_t kSharedChunks = 3;  // fewer are one thread's
constexpr double kSummed = 0.55;      // of the time of a scan, to add up as many entries; measured

// out[i] = in[0] + ... + in[i], in one section of chunks per thread. The first thread's base is known, so it writes at
// once. Each other one adds up the section before its own, and writes when all sums before it are there. The first
// section is longer by what the others do meanwhile.
template <typename T>
class SharedScan {
 public:
  SharedScan(const T* in, T* out, int64_t count, int64_t threads)
      : in_(in), out_(out), count_(count), sections_(std::min(threads, chunks(count))), totals_(chunks(count)) {}

  static constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(T));
  static int64_t chunks(int64_t count) { return (count + kChunk - 1) / kChunk; }

  void run() {
    // A section waits for earlier ones only: whoever has several takes them in this order.
    at::parallel_for(0, sections_, 1, [&](int64_t first, int64_t end) {
      for (int64_t section = first; section < end; ++section) work(section);
    });
  }

 private:
  // First chunk of a section.
  int64_t start_of(int64_t section) const {
    if (section == 0) return 0;
    const int64_t all = chunks(count_);
    const double share = static_cast<double>(all) / (static_cast<double>(sections_ - 1) + 1 / (1 - kSummed));
    return all - static_cast<int64_t>(share * static_cast<double>(sections_ - section) + 0.5);
  }

  int64_t length_of(int64_t chunk) const { return std::min(kChunk, count_ - chunk * kChunk); }

  void work(int64_t section) {
    if (section > 0) {
      for (int64_t c = start_of(section - 1); c < start_of(section); ++c) {
        totals_[static_cast<size_t>(c)] = scan_chunk<T>(in_ + c * kChunk, nullptr, length_of(c), 0);
      }
      wait_for(section);
      summed_.store(section, std::memory_order_release);
    }
    Sum<T> base = 0;
    for (int64_t c = 0; c < start_of(section); ++c) base = static_cast<Sum<T>>(base + totals_[static_cast<size_t>(c)]);
    for (int64_t c = start_of(section); c < start_of(section + 1); ++c) {
      const Sum<T> total = scan_chunk<T>(in_ + c * kChunk, out_ + c * kChunk, length_of(c), base);
      base = static_cast<Sum<T>>(base + total);
    }
  }

  void wait_for(int64_t section) const {
    constexpr int patience = 2000;  // then the other thread may be waiting for this processor
    for (int i = 0; summed_.load(std::memory_order_acquire) != section - 1; ++i) {
      if (i >= patience) std::this_thread::yield();
    }
  }

  const T* in_;
  T* out_;
  int64_t count_;
  int64_t sections_;
  std::vector<Sum<T>> totals_;                  // of chunks
  alignas(64) std::atomic<int64_t> summed_{0};  // sections before this one are
};

template <typename T>
void inclusive(const T* in, T* out, int64_t count) {
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (SharedScan<T>::chunks(count) >= kSharedChunks && threads > 1) {
    SharedScan<T>(in, out, count, threads).run();
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
