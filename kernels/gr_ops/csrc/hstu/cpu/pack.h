#pragma once

#include "hstu/cpu/gemm.h"
#include "hstu/cpu/head.h"

// Copies of tokens in the forms that the products take. A form covers its whole array: what is no token is 0.
namespace gr_ops::hstu {
namespace {

constexpr int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

template <typename Stored>
inline const Stored* token(const Tokens& tokens, int index) {
  if (index < tokens.cached) {
    return static_cast<const Stored*>(tokens.cache) + tokens.page_ids[index / tokens.page_size] * tokens.page_stride +
           index % tokens.page_size * tokens.slot_stride;
  }
  return static_cast<const Stored*>(tokens.data) + (index - tokens.cached) * tokens.stride;
}

template <class P>
int groups(int dim) {
  return (dim + P::kGroup - 1) / P::kGroup;
}

// One vector of Operands of a token, from its group `first` on, as lanes that are moved but not calculated with.
template <class P>
inline typename P::Vector operands(const typename P::Stored* from, int first, int dim) {
  if constexpr (P::kGroup == 1) {
    return load_some(from + first, dim - first);
  } else {
    const int left = dim - first * 2;
    if (left >= 2 * P::kLanes) return P::fetch(reinterpret_cast<const uint32_t*>(from + first * 2));
    alignas(64) BFloat16 padded[2 * P::kLanes] = {};
    if (left > 0) std::memcpy(padded, from + first * 2, left * sizeof(BFloat16));
    return P::fetch(reinterpret_cast<const uint32_t*>(padded));
  }
}

inline void put(float* to, VectorF value) { store(to, value); }
inline void put(double* to, VectorD value) { store(to, value); }
inline void put(uint32_t* to, VectorF value) { std::memcpy(to, &value, sizeof(value)); }

// Columns: to[group of dim][kQueryBlock], one lane a token. Whole vectors of lanes are written, and
// rows of groups up to a multiple of kLanes.
template <class P>
void pack_columns(const Tokens& tokens, int first, int count, int dim, typename P::Operand* to) {
  constexpr int lanes = P::kLanes;
  const int depth = groups<P>(dim);
  for (int i = 0; i < count; i += lanes) {
    for (int d = 0; d < depth; d += lanes) {
      typename P::Vector rows[lanes];
      for (int r = 0; r < lanes; ++r) {
        rows[r] = i + r < count ? operands<P>(token<typename P::Stored>(tokens, first + i + r), d, dim)
                                : typename P::Vector{};
      }
      transpose<typename P::Sum>(rows);
      for (int r = 0; r < lanes; ++r) put(to + static_cast<ptrdiff_t>(d + r) * kQueryBlock + i, rows[r]);
    }
  }
}

// Rows: to[token][ld], ld >= groups of dim rounded up to kLanes.
template <class P>
void pack_rows(const Tokens& tokens, int first, int count, int dim, typename P::Operand* to, ptrdiff_t ld) {
  for (int i = 0; i < count; ++i) {
    const auto* from = token<typename P::Stored>(tokens, first + i);
    for (int d = 0; d < groups<P>(dim); d += P::kLanes) put(to + i * ld + d, operands<P>(from, d, dim));
  }
}

// Depth rows: to[group of tokens][ld], one lane an element of the head, ld >= dim rounded up to kLanes.
template <class P>
void pack_depth(const Tokens& tokens, int first, int count, int dim, typename P::Operand* to, ptrdiff_t ld) {
  if constexpr (P::kGroup == 1) {
    pack_rows<P>(tokens, first, count, dim, to, ld);
  } else {
    for (int i = 0; i < count; i += 2) {
      const auto* even = token<BFloat16>(tokens, first + i);
      const auto* odd = i + 1 < count ? token<BFloat16>(tokens, first + i + 1) : nullptr;
      for (int d = 0; d < dim; d += P::kLanes) {
        BFloat16 low[P::kLanes] = {}, high[P::kLanes] = {};
        const int n = dim - d < P::kLanes ? dim - d : P::kLanes;
        std::memcpy(low, even + d, n * sizeof(BFloat16));
        if (odd != nullptr) std::memcpy(high, odd + d, n * sizeof(BFloat16));
        const Vector32 pairs =
            __builtin_convertvector(load16(low), Vector32) | (__builtin_convertvector(load16(high), Vector32) << 16);
        put(to + i / 2 * ld + d, reinterpret_cast<VectorF>(pairs));
      }
    }
  }
}

// The keys or values of a tile as a row-major operand: in place where the layout allows, else copied to `copy`.
template <class P>
struct RowOperand {
  const typename P::Operand* data;
  ptrdiff_t ld;
};

template <class P>
RowOperand<P> row_operand(const Tokens& tokens, int first, int count, int dim, typename P::Operand* copy) {
  if constexpr (P::kDirect) {
    if (first >= tokens.cached && dim % P::kGroup == 0 && tokens.stride % P::kGroup == 0) {
      return {reinterpret_cast<const typename P::Operand*>(token<typename P::Stored>(tokens, first)),
              tokens.stride / P::kGroup};
    }
  }
  const ptrdiff_t ld = round_up(groups<P>(dim), P::kLanes);
  pack_rows<P>(tokens, first, count, dim, copy, ld);
  return {copy, ld};
}

// Lanes [first, count) of sums [dim][kQueryBlock] to tokens [count][stride]; first is a multiple of kLanes.
template <class P>
void unpack_columns(const typename P::Sum* from, int first, int count, int dim, void* to, ptrdiff_t stride) {
  constexpr int lanes = P::kLanes;
  auto* tokens = static_cast<typename P::Stored*>(to);
  for (int i = first; i < count; i += lanes) {
    for (int d = 0; d < dim; d += lanes) {
      typename P::Vector rows[lanes];
      for (int r = 0; r < lanes; ++r) {
        rows[r] = d + r < dim ? load(from + static_cast<ptrdiff_t>(d + r) * kQueryBlock + i) : typename P::Vector{};
      }
      transpose<typename P::Sum>(rows);
      for (int r = 0; r < lanes && i + r < count; ++r) store_some(tokens + (i + r) * stride + d, rows[r], dim - d);
    }
  }
}

// Sums [count][ld] to tokens [count][stride].
template <class P>
void unpack_rows(const typename P::Sum* from, ptrdiff_t ld, int count, int dim, void* to, ptrdiff_t stride) {
  auto* tokens = static_cast<typename P::Stored*>(to);
  for (int i = 0; i < count; ++i) {
    for (int d = 0; d < dim; d += P::kLanes) store_some(tokens + i * stride + d, load(from + i * ld + d), dim - d);
  }
}

}  // namespace
}  // namespace gr_ops::hstu
