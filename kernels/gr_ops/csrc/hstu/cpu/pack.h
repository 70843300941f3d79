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

constexpr int kFewColumns = 4;  // that are moved one by one: a square of eight lanes or more takes more moves

// Columns: to[group of dim][kQueryBlock], one lane a token. Whole vectors of lanes are written.
template <class P>
void pack_columns(const Tokens& tokens, int first, int count, int dim, typename P::Operand* to) {
  constexpr int lanes = P::kLanes;
  const int depth = groups<P>(dim);
  for (int i = 0; i < count; i += lanes) {
    for (int d = 0; d < depth; d += lanes) {
      if constexpr (P::kDirect && P::kGroup == 1) {
        if (depth - d <= kFewColumns) {
          for (int r = 0; r < lanes; ++r) {
            const auto* from = i + r < count ? token<typename P::Stored>(tokens, first + i + r) : nullptr;
            for (int e = d; e < depth; ++e) {
              to[static_cast<ptrdiff_t>(e) * kQueryBlock + i + r] = from == nullptr ? typename P::Operand{} : from[e];
            }
          }
          continue;
        }
      }
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
      auto* row = to + i / 2 * ld;
      for (int d = 0; d < dim; d += P::kLanes) {
        const VectorF low = load_some(even + d, dim - d);
        const VectorF high = odd != nullptr ? load_some(odd + d, dim - d) : VectorF{};
        // A bfloat16 widened to float has its bits above and zeros below.
        put(row + d,
            reinterpret_cast<VectorF>((reinterpret_cast<Vector32>(low) >> 16) | reinterpret_cast<Vector32>(high)));
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

// Depth rows of some tokens: in place where the tokens themselves are such rows, else copied to `copy`. Where tokens
// lie far apart by a power of two, more than kInPlace of them evict each other from the first cache between two uses.
// `width` elements are read of each.
constexpr int kInPlace = 48;
constexpr ptrdiff_t kEvicting = 1024;  // bytes

template <class P>
RowOperand<P> depth_operand(const Tokens& tokens, int first, int count, int dim, int width, typename P::Operand* copy) {
  if constexpr (P::kGroup == 1) {
    const ptrdiff_t apart = tokens.stride * static_cast<ptrdiff_t>(sizeof(typename P::Stored));
    if (width <= dim && (count <= kInPlace || apart % kEvicting != 0)) {
      return row_operand<P>(tokens, first, count, dim, copy);
    }
  }
  const ptrdiff_t ld = round_up(dim, P::kLanes);
  pack_depth<P>(tokens, first, count, dim, copy, ld);
  return {copy, ld};
}

// Zeros in the first `lanes` lanes of sums [dim][kQueryBlock].
template <typename Sum>
void clear_columns(Sum* sums, int dim, int lanes) {
  for (int d = 0; d < dim; ++d) std::memset(sums + static_cast<ptrdiff_t>(d) * kQueryBlock, 0, sizeof(Sum) * lanes);
}

// factor times lanes [first, count) of sums [dim][kQueryBlock] to tokens [count][stride]; first is a multiple of
// kLanes.
template <class P>
void unpack_columns(const typename P::Sum* from, int first, int count, int dim, double factor, void* to,
                    ptrdiff_t stride) {
  constexpr int lanes = P::kLanes;
  const typename P::Vector scale = splat(static_cast<typename P::Sum>(factor));
  auto* tokens = static_cast<typename P::Stored*>(to);
  for (int i = first; i < count; i += lanes) {
    for (int d = 0; d < dim; d += lanes) {
      if constexpr (P::kDirect && P::kGroup == 1) {
        if (dim - d <= kFewColumns) {
          for (int r = 0; r < lanes && i + r < count; ++r) {
            for (int e = d; e < dim; ++e) {
              tokens[(i + r) * stride + e] = scale[0] * from[static_cast<ptrdiff_t>(e) * kQueryBlock + i + r];
            }
          }
          continue;
        }
      }
      typename P::Vector rows[lanes];
      for (int r = 0; r < lanes; ++r) {
        rows[r] = d + r < dim ? load(from + static_cast<ptrdiff_t>(d + r) * kQueryBlock + i) : typename P::Vector{};
      }
      transpose<typename P::Sum>(rows);
      for (int r = 0; r < lanes && i + r < count; ++r)
        store_some(tokens + (i + r) * stride + d, scale * rows[r], dim - d);
    }
  }
}

// factor times sums [count][ld] to tokens [count][stride].
template <class P>
void unpack_rows(const typename P::Sum* from, ptrdiff_t ld, int count, int dim, double factor, void* to,
                 ptrdiff_t stride) {
  const typename P::Vector scale = splat(static_cast<typename P::Sum>(factor));
  auto* tokens = static_cast<typename P::Stored*>(to);
  for (int i = 0; i < count; ++i) {
    for (int d = 0; d < dim; d += P::kLanes)
      store_some(tokens + i * stride + d, scale * load(from + i * ld + d), dim - d);
  }
}

}  // namespace
}  // namespace gr_ops::hstu
