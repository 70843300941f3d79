// The least that some operators have to read and write, as plain loops: no dispatcher, no checks, no result to
// allocate. Compiled for the machine it runs on (roofline.py).
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr int64_t kAhead = 24;

// Calls body(first, end) on an equal share for each thread.
template <typename Body>
void share(int64_t count, int64_t threads, const Body& body) {
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(static, 1)
  for (int64_t t = 0; t < threads; ++t) body(count * t / threads, count * (t + 1) / threads);
}

void request(const char* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}

typedef float Vector __attribute__((vector_size(64)));

template <int vectors>
float read_share(const float* rows, const int64_t* sources, int64_t first, int64_t end) {
  Vector sums[vectors] = {};
  for (int64_t i = first; i < end; ++i) {
    if (i + kAhead < end) request(reinterpret_cast<const char*>(rows + sources[i + kAhead]), sizeof(sums));
    for (int v = 0; v < vectors; ++v) {
      Vector part;
      std::memcpy(&part, rows + sources[i] + 16 * v, sizeof(part));
      sums[v] += part;
    }
  }
  float sum = 0;
  for (const Vector& part : sums) sum += part[0] + part[15];
  return sum;
}

}  // namespace

extern "C" {

// Stretch i: bytes[i] from `from` + sources[i] to `to` + targets[i].
void move_stretches(const char* from, char* to, const int64_t* sources, const int64_t* targets, const int64_t* bytes,
                    int64_t count, int64_t threads) {
  share(count, threads, [=](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      if (i + 1 < end) request(from + sources[i + 1], std::min<int64_t>(bytes[i + 1], 1024));
      std::memcpy(to + targets[i], from + sources[i], static_cast<size_t>(bytes[i]));
    }
  });
}

// Adds up rows of `width` floats at rows + sources[i]; width is 16, 32, 64 or 128. One sum for each share in `out`.
void read_rows(const float* rows, const int64_t* sources, int64_t count, int64_t width, int64_t threads, float* out) {
  const auto read = width == 16   ? &read_share<1>
                    : width == 32 ? &read_share<2>
                    : width == 64 ? &read_share<4>
                                  : &read_share<8>;
  share(count, threads, [=](int64_t first, int64_t end) {
    out[first * threads / std::max<int64_t>(count, 1)] = read(rows, sources, first, end);
  });
}

}  // extern "C"
