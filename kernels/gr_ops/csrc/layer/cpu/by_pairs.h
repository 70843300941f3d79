#pragma once

#include "layer/cpu/by_vectors.h"

// Products by AVX512-BF16, which multiplies pairs of bfloat16 exactly and sums them in float, at twice the rate of
// floats. Weights, x and gradients of results are bfloat16 as they come. What the projection's gradients are made of is
// rounded: the normed rows, and the gradient of their product.
namespace gr_ops::layer {
namespace {

class ByPairs : public ByVectors<hstu::BFloat16, float> {
 public:
  static constexpr bool kPaired = true;

  ByPairs(Arena& arena, ptrdiff_t widest) : ByVectors(arena, widest) {
    left_ = arena.take<uint32_t>(kBlock * padded<float>(widest) / 2);
    right_ = arena.take<uint32_t>(kBlock * padded<float>(widest) / 2);
  }

  static size_t packed_bytes(ptrdiff_t depth, ptrdiff_t width) {
    return (pairs_of(depth) + 1) * padded<float>(width) * sizeof(uint32_t);
  }

  // Panels of kColumns vectors, each [pairs of the depth][panel], and the sum of each column behind them.
  static void pack(const void* from, ptrdiff_t depth, ptrdiff_t width, bool turned, void* to) {
    const auto* matrix = static_cast<const float*>(from);
    const ptrdiff_t pairs = pairs_of(depth), end = padded<float>(width);
    for (ptrdiff_t n = 0; n < end; n += kLanes) {
      const ptrdiff_t first = n / kPanelColumns * kPanelColumns;
      const ptrdiff_t panel = end - first < kPanelColumns ? end - first : kPanelColumns;
      uint32_t* column = static_cast<uint32_t*>(to) + first * pairs + (n - first);
      VectorF sums{};
      for (ptrdiff_t k = 0; k < pairs; k += kLanes) {
        VectorF some[kLanes];
        take_pairs(matrix, depth, width, turned, k, n, some);
        for (ptrdiff_t i = 0; i < kLanes && k + i < pairs; ++i) {
          std::memcpy(column + (k + i) * panel, &some[i], sizeof(some[i]));
          hstu::Paired::multiply_add(sums, some[i], (VectorF)_mm512_set1_epi16(kOne));
        }
      }
      store(static_cast<float*>(to) + end * pairs + n, sums);
    }
  }

  // body(vector, row, z) with each vector of norm(x) times a packed matrix, of rows that are multiplied as they are
  // stored: z = (x W - mean sum(W)) * inverse. Where the mean is large beside all differences from it, these are
  // bfloat16 too, and what is left of the mean is small.
  template <typename Body>
  void each_normed(int rows, ptrdiff_t depth, ptrdiff_t width, const hstu::BFloat16* x, const float* mean,
                   const float* inverse, const void* packed, float* c, Prefetch& ahead, const Body& body) const {
    const ptrdiff_t pairs = pairs_of(depth), ld = padded<float>(depth) / 2;
    const float large = 4 * root(static_cast<float>(depth));
    float shift[kBlock];
    for (int r = 0; r < rows; ++r) {
      hstu::BFloat16 whole{};
      if (__builtin_fabsf(mean[r] * inverse[r]) > large) whole = nearest(mean[r]);
      const float base = widened_from(whole);
      shift[r] = (mean[r] - base) * inverse[r];
      round_row(x + r * depth, depth, base, left_ + r * ld);
    }
    const ptrdiff_t end = padded<float>(width);
    const float* sums = static_cast<const float*>(packed) + end * pairs;
    each_panel(
        rows, pairs, ld, end, packed, ahead, [&](ptrdiff_t) { return Panel{c, kPanelColumns}; },
        [&](ptrdiff_t first, int vectors) {
          for (int r = 0; r < rows; ++r) {
            for (int v = 0; v < vectors; ++v) {
              const VectorF product = load(c + r * kPanelColumns + v * kLanes);
              const VectorF away = load(sums + first + v * kLanes) * splat(shift[r]);
              body(first / kLanes + v, r, product * splat(inverse[r]) - away);
            }
            ahead.step(Prefetch::kRowLines);
          }
        });
  }

  // c [rows][padded(width)] = a [rows][depth], rounded to bfloat16, times a packed matrix.
  void multiply(int rows, ptrdiff_t depth, ptrdiff_t width, const float* a, ptrdiff_t lda, const void* packed, float* c,
                Prefetch& ahead) const {
    const ptrdiff_t ld = padded<float>(depth) / 2, end = padded<float>(width);
    for (int r = 0; r < rows; ++r) round_row(a + r * lda, depth, 0, left_ + r * ld);
    each_panel(
        rows, pairs_of(depth), ld, end, packed, ahead, [&](ptrdiff_t n) { return Panel{c + n, end}; },
        [](ptrdiff_t, int) {});
  }

  // c [m][padded(width)] += a^T b as ByVectors has it, of both rounded to bfloat16. Rows are padded with zeros.
  void multiply_add_rounded(int rows, ptrdiff_t m, ptrdiff_t width, const float* a, const float* b, void* c,
                            Prefetch& ahead) const {
    const ptrdiff_t lda = padded<float>(m), ldb = padded<float>(width);
    zip_rows(a, rows, lda, left_);
    zip_rows(b, rows, ldb, right_);
    hstu::gemm<hstu::Paired, true>(static_cast<int>(m), static_cast<int>(ldb / kLanes), pairs_of(rows), left_, lda,
                                   right_, ldb, static_cast<float*>(c), ldb, true, ahead);
  }

 private:
  static constexpr ptrdiff_t kLanes = 16, kPanelColumns = hstu::kColumns * kLanes;
  static constexpr int16_t kOne = 0x3f80;  // as bfloat16
  using VectorF = hstu::VectorF;

  struct Panel {
    float* data;
    ptrdiff_t ld;
  };

  static constexpr ptrdiff_t pairs_of(ptrdiff_t depth) { return (depth + 1) / 2; }

  static hstu::BFloat16 nearest(float value) {
    hstu::BFloat16 lanes[kLanes];
    store(lanes, splat(value));
    return lanes[0];
  }

  static float widened_from(hstu::BFloat16 value) {
    const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
    float result;
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }

  // Pairs [k, k + 16) of the depth, of columns [n, n + 16).
  static void take_pairs(const float* matrix, ptrdiff_t depth, ptrdiff_t width, bool turned, ptrdiff_t k, ptrdiff_t n,
                         VectorF (&some)[kLanes]) {
    const auto at = [](const float* row, ptrdiff_t left) { return load_some(row, static_cast<int>(left)); };
    for (ptrdiff_t i = 0; i < kLanes; ++i) {
      if (turned) {
        const float* row = matrix + (n + i) * depth + 2 * k;
        const ptrdiff_t left = n + i < width ? depth - 2 * k : 0;
        hstu::BFloat16 both[2 * kLanes];
        store(both, at(row, left));
        store(both + kLanes, at(row + kLanes, left - kLanes));
        std::memcpy(&some[i], both, sizeof(some[i]));
      } else {
        const ptrdiff_t even = 2 * (k + i);
        const float* row = matrix + even * width + n;
        some[i] = hstu::pair(at(row, even < depth ? width - n : 0), at(row + width, even + 1 < depth ? width - n : 0));
      }
    }
    if (turned) hstu::transpose<float>(some);
  }

  template <typename From>
  static void round_row(const From* from, ptrdiff_t depth, float base, uint32_t* to) {
    auto* out = reinterpret_cast<hstu::BFloat16*>(to);
    for (ptrdiff_t i = 0; i < depth; i += kLanes) {
      store(out + i, load_some(from + i, static_cast<int>(depth - i)) - splat(base));
    }
  }

  // Two rows after each other as pairs.
  static void zip_rows(const float* from, int rows, ptrdiff_t ld, uint32_t* to) {
    for (int r = 0; r < rows; r += 2, from += 2 * ld, to += ld) {
      for (ptrdiff_t i = 0; i < ld; i += kLanes) {
        const VectorF pairs = hstu::pair(load(from + i), r + 1 < rows ? load(from + ld + i) : VectorF{});
        std::memcpy(to + i, &pairs, sizeof(pairs));
      }
    }
  }

  // Panels of left_ [rows][ld] times a packed matrix of `end` columns: body(first column, vectors) with each.
  template <typename Place, typename Body>
  void each_panel(int rows, ptrdiff_t pairs, ptrdiff_t ld, ptrdiff_t end, const void* packed, Prefetch& ahead,
                  const Place& place, const Body& body) const {
    const auto* panel = static_cast<const uint32_t*>(packed);
    for (ptrdiff_t n = 0; n < end; n += kPanelColumns) {
      const ptrdiff_t columns = end - n < kPanelColumns ? end - n : kPanelColumns;
      const int vectors = static_cast<int>(columns / kLanes);
      const Panel c = place(n);
      hstu::gemm<hstu::Paired, false>(rows, vectors, pairs, left_, ld, panel, columns, c.data, c.ld, false, ahead);
      body(n, vectors);
      panel += pairs * columns;
    }
  }

  uint32_t *left_, *right_;
};

}  // namespace
}  // namespace gr_ops::layer
