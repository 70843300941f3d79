#pragma once

#include "hstu/cpu/arena.h"
#include "hstu/cpu/gemm.h"
#include "hstu/cpu/tail.h"
#include "sampled_softmax/cpu/exponential.h"
#include "sampled_softmax/cpu/rows.h"

// Loss and gradients of a piece, by blocks of tokens. Logits stand as [negative][token], as the scores of attention do:
// a softmax goes down the lanes, every product is as wide as the block, and none needs a transposition of the logits.
//   logits = N Q^T    dQ^T += N^T W    dN += W Q    where W = dL/dlogits, Q and N of length 1
namespace gr_ops::sampled_softmax {
namespace {

using hstu::Plain;

constexpr int kTokens = 64;       // of a block
constexpr double kHidden = -1e4;  // a logit that adds nothing to a sum of exponentials

template <typename T>
class Block {
 public:
  Block(const Problem& p, void* memory) : p_(p), ld_(padded<T>(p.dim)), tail_(hstu::tail_of<T>(p.dim)) {
    hstu::Arena arena(memory);
    negatives_ = arena.take<T>(p.width * ld_);
    logits_ = arena.take<T>(p.width * kTokens);
    unit_ = arena.take<T>(kTokens * ld_);
    gradient_ = arena.take<T>(kTokens * ld_);
    turned_ = arena.take<T>(kTokens * ld_);
    tails_ = arena.take<T>(kTokens * hstu::kMostTail);
    inverse_ = arena.take<T>(kTokens);
    positive_ = arena.take<T>(kTokens);
    weight_ = arena.take<T>(kTokens);
    slope_ = arena.take<T>(kTokens);
    targets_ = arena.take<Int>(kTokens);
    bytes_ = arena.used();
  }

  size_t bytes() const { return bytes_; }

  void load_negatives(const Piece& piece) {
    for (ptrdiff_t r = 0; r < p_.width; ++r) {
      if (r + kRowsAhead < p_.width) ask_for_row(piece.negatives[r + kRowsAhead]);
      const int64_t u = piece.negatives[r];
      scale_row(row(u), static_cast<const T*>(p_.inverse)[u], negatives_ + r * ld_);
    }
  }

  void run(const Piece& piece, int first, int count) {
    tokens_ = piece.tokens + first;
    count_ = count;
    width_ = static_cast<int>(padded<T>(count));
    load_queries();
    gemm<false>(static_cast<int>(p_.width), width_, p_.dim, negatives_, ld_, turned_, kTokens, logits_, kTokens, false);
    softmax(piece);
    if (p_.dquery == nullptr) return;
    add_to_negatives(static_cast<T*>(piece.sums), first > 0);
    differentiate_queries();
  }

 private:
  using Vector = typename Lanes<T>::Vector;
  using Int = typename Lanes<T>::Int;
  using IntVector = typename Lanes<T>::IntVector;
  static constexpr int kLanes = Lanes<T>::count;
  static constexpr int kRowsAhead = 4;

  // Columns in elements.
  template <bool Transposed>
  static void gemm(int rows, ptrdiff_t columns, ptrdiff_t depth, const T* a, ptrdiff_t lda, const T* b, ptrdiff_t ldb,
                   T* c, ptrdiff_t ldc, bool add) {
    hstu::Prefetch none;
    hstu::gemm<Plain<T, T>, Transposed>(rows, static_cast<int>(columns / kLanes), depth, a, lda, b, ldb, c, ldc, add,
                                        none);
  }

  const T* row(int64_t u) const { return static_cast<const T*>(p_.rows) + u * p_.dim; }
  const T* query(int c) const { return static_cast<const T*>(p_.query) + tokens_[c] * p_.dim; }

  void ask_for_row(int64_t u) const {
    constexpr ptrdiff_t line = 64 / sizeof(T), most = 8 * line;
    for (ptrdiff_t i = 0; i < p_.dim && i < most; i += line) __builtin_prefetch(row(u) + i);
  }

  void scale_row(const T* from, T factor, T* to) const {
    const Vector scale = splat(factor);
    for (ptrdiff_t i = 0; i < ld_; i += kLanes) {
      store(to + i, load_some(from + i, static_cast<int>(p_.dim - i)) * scale);
    }
  }

  // [tokens][dim] -> [dim][tokens], or back, of whole squares.
  static void turn(const T* from, ptrdiff_t from_ld, ptrdiff_t rows, ptrdiff_t columns, T factor, T* to,
                   ptrdiff_t to_ld) {
    const Vector scale = splat(factor);
    for (ptrdiff_t r = 0; r < rows; r += kLanes) {
      for (ptrdiff_t c = 0; c < columns; c += kLanes) {
        Vector square[kLanes];
        for (int i = 0; i < kLanes; ++i) square[i] = load(from + (r + i) * from_ld + c);
        hstu::transpose<T>(square);
        for (int i = 0; i < kLanes; ++i) store(to + (c + i) * to_ld + r, square[i] * scale);
      }
    }
  }

  // Queries of length 1, their columns over the temperature, and their logits with their targets.
  void load_queries() {
    const T inverse_temperature = T{1} / static_cast<T>(p_.temperature);
    for (int c = 0; c < count_; ++c) {
      const int64_t u = p_.targets[tokens_[c]];
      inverse_[c] = inverse_length(query(c), p_.dim, static_cast<T>(p_.eps));
      scale_row(query(c), inverse_[c], unit_ + c * ld_);
      Vector sum{};
      for (ptrdiff_t i = 0; i < ld_; i += kLanes) {
        sum += load(unit_ + c * ld_ + i) * load_some(row(u) + i, static_cast<int>(p_.dim - i));
      }
      positive_[c] = sum_of<T>(sum) * static_cast<const T*>(p_.inverse)[u] * inverse_temperature;
      targets_[c] = static_cast<Int>(u);
    }
    for (int c = count_; c < width_; ++c) {
      std::memset(unit_ + c * ld_, 0, ld_ * sizeof(T));
      positive_[c] = T{0};
      targets_[c] = -1;
    }
    turn(unit_, ld_, width_, ld_, inverse_temperature, turned_, kTokens);
  }

  // Losses; logits become exponentials, and `weight_` what each token's are to be multiplied by.
  void softmax(const Piece& piece) {
    const auto* correction = static_cast<const T*>(piece.correction);
    const Vector hidden = splat(static_cast<T>(kHidden));
    for (int c = 0; c < width_; c += kLanes) {
      const IntVector target = *reinterpret_cast<const typename Lanes<T>::IntLoose*>(targets_ + c);
      const Vector positive = load(positive_ + c);
      Vector most = positive;
      for (ptrdiff_t r = 0; r < p_.width; ++r) {
        T* at = logits_ + r * kTokens + c;
        Vector logit = load(at);
        if (correction != nullptr) logit += splat(correction[r]);
        logit = target == IntVector{} + static_cast<Int>(piece.negatives[r]) ? hidden : logit;
        most = logit > most ? logit : most;
        store(at, logit);
      }
      Vector sum{};
      for (ptrdiff_t r = 0; r < p_.width; ++r) {
        T* at = logits_ + r * kTokens + c;
        const Vector e = exponential(load(at) - most);
        sum += e;
        store(at, e);
      }
      finish(c, positive, most, sum);
    }
  }

  // log(1 + sum over the negatives of e^(n - p)), where `most` is the largest of the logits.
  void finish(int c, Vector positive, Vector most, Vector sum) {
    const Vector all = sum + exponential(positive - most);
    const T share = static_cast<T>(p_.share), inverse_temperature = T{1} / static_cast<T>(p_.temperature);
    for (int i = 0; i < kLanes && c + i < count_; ++i) {
      const T lead = most[i] - positive[i];
      const T loss = lead == T{0} ? log_of_one_and(sum[i]) : lead + log_of(all[i]);
      static_cast<T*>(p_.losses)[tokens_[c + i]] = loss;
      weight_[c + i] = share / all[i];
      slope_[c + i] = sum[i] * weight_[c + i] * inverse_temperature;
    }
  }

  // sums [R][ld] (+)= W Q / T
  void add_to_negatives(T* sums, bool add) {
    const T inverse_temperature = T{1} / static_cast<T>(p_.temperature);
    const ptrdiff_t whole = p_.dim - tail_;
    for (int c = 0; c < count_; ++c) {
      const Vector factor = splat(weight_[c] * inverse_temperature);
      for (ptrdiff_t i = 0; i < ld_; i += kLanes) {
        store(gradient_ + c * ld_ + i, load(unit_ + c * ld_ + i) * factor);
      }
    }
    const int negatives = static_cast<int>(p_.width);
    gemm<false>(negatives, padded<T>(whole), count_, logits_, kTokens, gradient_, ld_, sums, ld_, add);
    if (tail_ == 0) return;
    for (int c = count_; c < width_; ++c) weight_[c] = T{0};
    for (int t = 0; t < tail_; ++t) {
      for (int c = 0; c < width_; c += kLanes) {
        store(tails_ + t * kTokens + c, load(turned_ + (whole + t) * kTokens + c) * load(weight_ + c));
      }
    }
    if (!add) {
      for (ptrdiff_t r = 0; r < p_.width; ++r) store(sums + r * ld_ + whole, Vector{});
    }
    hstu::add_tail(negatives, tail_, count_, logits_, kTokens, tails_, kTokens, sums + whole, ld_);
  }

  void differentiate_queries() {
    const T inverse_temperature = T{1} / static_cast<T>(p_.temperature);
    gemm<true>(static_cast<int>(p_.dim), width_, p_.width, negatives_, ld_, logits_, kTokens, turned_, kTokens, false);
    for (ptrdiff_t d = p_.dim; d < ld_; ++d) std::memset(turned_ + d * kTokens, 0, kTokens * sizeof(T));
    turn(turned_, kTokens, ld_, width_, inverse_temperature, gradient_, ld_);
    for (int c = 0; c < count_; ++c) {
      const int64_t token = tokens_[c], u = p_.targets[token];
      const Vector factor = splat(weight_[c]), back = splat(slope_[c] * static_cast<const T*>(p_.inverse)[u]);
      T* gradient = gradient_ + c * ld_;
      for (ptrdiff_t i = 0; i < ld_; i += kLanes) {
        const Vector target = load_some(row(u) + i, static_cast<int>(p_.dim - i));
        store(gradient + i, load(gradient + i) * factor - target * back);
      }
      unscale(query(c), inverse_[c], gradient, p_.dim, static_cast<T>(p_.eps),
              static_cast<T*>(p_.dquery) + token * p_.dim);
      static_cast<T*>(p_.to_target)[token] = -slope_[c] * inverse_[c];
    }
  }

  const Problem& p_;
  const ptrdiff_t ld_;
  const int tail_;
  T *negatives_, *logits_;                     // [R][ld], [R][kTokens]
  T *unit_, *gradient_;                        // [kTokens][ld]
  T *turned_, *tails_;                         // [ld][kTokens], [tail][kTokens]
  T *inverse_, *positive_, *weight_, *slope_;  // [kTokens]
  Int* targets_;
  size_t bytes_ = 0;
  const int64_t* tokens_ = nullptr;
  int count_ = 0, width_ = 0;  // tokens, up to whole vectors
};

template <typename T>
size_t scratch_bytes(const Problem& p) {
  return Block<T>(p, nullptr).bytes();
}

template <typename T>
void run(const Problem& p, const Piece& piece, void* memory) {
  Block<T> block(p, memory);
  block.load_negatives(piece);
  for (int first = 0; first < piece.count; first += kTokens) {
    block.run(piece, first, smaller(kTokens, piece.count - first));
  }
}

}  // namespace
}  // namespace gr_ops::sampled_softmax
