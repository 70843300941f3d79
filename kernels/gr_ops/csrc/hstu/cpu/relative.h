#pragma once

#include "hstu/cpu/arena.h"
#include "hstu/cpu/mask.h"
#include "hstu/cpu/near_buckets.h"

// The relative bias of a subtile, made beside its scores, and the sums of its gradient over equal distances and equal
// buckets. As everywhere [key][query]: the distances of a vector of queries from a key follow each other, and so do the
// entries of the table. Their times mostly rise, so that a vector has the buckets of its ends and those between, often
// one or two, and 16 keys have a few.
namespace gr_ops::hstu {
namespace {

constexpr int kFirstCell = 1016;  // the upper 12 bits of 1.0f

// May leave 64 bits, and wraps then.
inline int64_t seconds_between(int64_t query, int64_t key) {
  return static_cast<int64_t>(static_cast<uint64_t>(query) - static_cast<uint64_t>(key));
}

inline float at_least_one(int64_t seconds) { return seconds < 1 ? 1.0f : static_cast<float>(seconds); }

inline int bucket_of(float at, const int64_t* cells) {
  int32_t bits;
  std::memcpy(&bits, &at, sizeof(bits));
  const int64_t cell = cells[(bits >> 20) - kFirstCell];
  const auto upper = static_cast<int32_t>(cell >> 32);
  float edge;
  std::memcpy(&edge, &upper, sizeof(edge));
  return static_cast<int>(cell & 0xFFFF) + (at >= edge ? 1 : 0);
}

// What a vector of queries does with buckets, which are kept in 16 bits each.
template <typename Sum>
struct Buckets {
  using Vector = typename Lanes<Sum>::Vector;
  using IntVector = typename Lanes<Sum>::IntVector;
  static constexpr int kLanes = Lanes<Sum>::count;
  typedef uint16_t Kept __attribute__((vector_size(kLanes * sizeof(uint16_t))));

  static void keep(uint16_t* to, IntVector buckets) {
    const Kept narrow = __builtin_convertvector(buckets, Kept);
    std::memcpy(to, &narrow, sizeof(narrow));
  }

  static IntVector kept(const uint16_t* from) {
    Kept narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    return __builtin_convertvector(narrow, IntVector);
  }

  // Seconds since the key's time, each at least 1.
  static Vector since(const int64_t* queries, int64_t key) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Sum) == 4) {
      const auto half = [&](const int64_t* from) {
        const __m512i seconds = _mm512_sub_epi64(_mm512_loadu_si512(from), _mm512_set1_epi64(key));
        return _mm512_cvtepi64_ps(_mm512_max_epi64(seconds, _mm512_set1_epi64(1)));
      };
      const __m512 low = _mm512_castps256_ps512(half(queries));
      return (Vector)_mm512_insertf32x8(low, half(queries + kLanes / 2), 1);
    }
#endif
    Vector result;
    for (int i = 0; i < kLanes; ++i) result[i] = at_least_one(seconds_between(queries[i], key));
    return result;
  }

  // `value` where the seconds reach the edge, of this bucket; else what was found before.
  static void raise(Vector at, float edge, int bucket, Sum value, IntVector& buckets, Vector& values) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Sum) == 4) {
      const __mmask16 reached = _mm512_cmp_ps_mask((__m512)at, _mm512_set1_ps(edge), _CMP_GE_OQ);
      values = (Vector)_mm512_mask_mov_ps((__m512)values, reached, _mm512_set1_ps(value));
      buckets = (IntVector)_mm512_mask_set1_epi32((__m512i)buckets, reached, bucket);
      return;
    }
#endif
    const IntVector reached = at >= splat(static_cast<Sum>(edge));
    values = reached ? splat(value) : values;
    buckets = reached ? IntVector{} + static_cast<typename Lanes<Sum>::Int>(bucket) : buckets;
  }

  // Adds those lanes of `from` whose bucket is this one.
  static void add(Vector& sum, const uint16_t* buckets, int bucket, const Sum* from) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Sum) == 4) {
      const __m256i those = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(buckets));
      const __mmask16 same = _mm256_cmpeq_epi16_mask(those, _mm256_set1_epi16(static_cast<int16_t>(bucket)));
      sum = (Vector)_mm512_mask_add_ps((__m512)sum, same, (__m512)sum, (__m512)load(from));
      return;
    }
#endif
    const IntVector same = kept(buckets) == IntVector{} + static_cast<typename Lanes<Sum>::Int>(bucket);
    sum += same ? load(from) : Vector{};
  }
};

// Where the targets start. Without them also lanes past the last query stand where they count.
inline int history_of(const Head& head) {
  return head.rule.targets_from < head.keys ? head.rule.targets_from : kUnlimited;
}

template <class P>
class RelativeTile {
 public:
  using Sum = typename P::Sum;
  using Vector = typename P::Vector;
  using IntVector = typename Lanes<Sum>::IntVector;
  static constexpr int kLanes = P::kLanes;

  void allocate(Arena& arena) { buckets_ = arena.take<uint16_t>(kKeyTile * kQueryBlock); }

  // A tile of queries [query, query + queries) and keys from `key` on; lanes past the last query repeat it.
  void set(const Head& head, int query, int queries, int key) {
    bias_ = head.relative;
    history_ = history_of(head);
    query_ = query;
    key_ = key;
    for (int i = 0; i < kQueryBlock; ++i) times_[i] = bias_.times[query + smaller(i, queries - 1)];
    near_ = is_near(smaller(kKeyTile, head.keys - key));
  }

  // bias[key][query] of a subtile, and its buckets.
  void make(const KeySubtile& subtile, Sum* bias) {
    if (near_) return make_near(subtile, bias);
    for (int lane = subtile.from * kLanes; lane < subtile.to * kLanes; lane += kLanes) {
      bool rising = true;
      for (int i = lane; i + 1 < lane + kLanes; ++i) rising &= times_[i] <= times_[i + 1];
      for (int key = subtile.key; key < subtile.key + subtile.keys; ++key) {
        const ptrdiff_t at = static_cast<ptrdiff_t>(key) * kQueryBlock + lane;
        const Vector of_time = numbers_of(lane, bias_.times[key_ + key], rising, at);
        store(bias + at, of_time + of_distance(query_ + lane, key_ + key));
      }
    }
  }

  // Of a vector at [key][query]: each lane's bucket.
  const uint16_t* buckets(ptrdiff_t at) const { return buckets_ + at; }

 private:
  bool is_near(int keys) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Sum) == 4) {
      const int64_t* of_keys = bias_.times + key_;
      int64_t first = times_[0], last = times_[0];
      const auto include = [&](int64_t time) {
        first = time < first ? time : first;
        last = time > last ? time : last;
      };
      for (int i = 0; i < kQueryBlock; ++i) include(times_[i]);
      for (int i = 0; i < keys; ++i) include(of_keys[i]);
      if (static_cast<uint64_t>(last) - static_cast<uint64_t>(first) >= static_cast<uint64_t>(bias_.near)) return false;
      for (int i = 0; i < kQueryBlock; ++i) since_first_[i] = static_cast<int32_t>(times_[i] - first);
      for (int i = 0; i < keys; ++i) key_since_first_[i] = static_cast<int32_t>(of_keys[i] - first);
      return true;
    }
#endif
    static_cast<void>(keys);
    return false;
  }

  void make_near(const KeySubtile& subtile, Sum* bias) {
#if defined(__AVX512F__)
    if constexpr (sizeof(Sum) == 4) {
      const NearBuckets near(bias_);
      const bool keep = bias_.sums != nullptr;
      for (int lane = subtile.from * kLanes; lane < subtile.to * kLanes; lane += kLanes) {
        const __m512i queries = _mm512_loadu_si512(since_first_ + lane);
        for (int key = subtile.key; key < subtile.key + subtile.keys; ++key) {
          const ptrdiff_t at = static_cast<ptrdiff_t>(key) * kQueryBlock + lane;
          const __m512i buckets = near.of(_mm512_sub_epi32(queries, _mm512_set1_epi32(key_since_first_[key])));
          if (keep) Buckets<Sum>::keep(buckets_ + at, (IntVector)buckets);
          store(bias + at, (Vector)near.values(buckets) + of_distance(query_ + lane, key_ + key));
        }
      }
    }
#endif
    static_cast<void>(subtile);
    static_cast<void>(bias);
  }

  Vector numbers_of(int lane, int64_t key, bool rising, ptrdiff_t at) {
    const auto* numbers = static_cast<const Sum*>(bias_.time);
    const int64_t first = seconds_between(times_[lane], key), last = seconds_between(times_[lane + kLanes - 1], key);
    uint16_t* const kept = buckets_ + at;
    Vector values;
    if (rising && first <= last) {  // not, if one of them wraps
      const int lowest = bucket_of(at_least_one(first), bias_.cells);
      const int highest = bucket_of(at_least_one(last), bias_.cells);
      IntVector buckets = IntVector{} + static_cast<typename Lanes<Sum>::Int>(lowest);
      values = splat(numbers[lowest]);
      if (lowest < highest) {
        const Vector since = Buckets<Sum>::since(times_ + lane, key);
        for (int bucket = lowest + 1; bucket <= highest; ++bucket) {
          Buckets<Sum>::raise(since, bias_.edges[bucket], bucket, numbers[bucket], buckets, values);
        }
      }
      Buckets<Sum>::keep(kept, buckets);
    } else {
      for (int i = 0; i < kLanes; ++i) {
        const int bucket = bucket_of(at_least_one(seconds_between(times_[lane + i], key)), bias_.cells);
        kept[i] = static_cast<uint16_t>(bucket);
        values[i] = numbers[bucket];
      }
    }
    return values;
  }

  // All targets stand where the next token would.
  Vector of_distance(int query, int key) const {
    const auto* position = static_cast<const Sum*>(bias_.position);
    if (key >= history_) return splat(position[0]);
    const int before = history_ - query;
    if (before >= kLanes) return load(position + query - key);
    const Vector of_target = splat(position[history_ - key]);
    if (before <= 0) return of_target;
    IntVector lanes;
    for (int i = 0; i < kLanes; ++i) lanes[i] = i;
    const IntVector counts = lanes < IntVector{} + static_cast<typename Lanes<Sum>::Int>(before);
    return counts ? load(position + query - key) : of_target;
  }

  RelativeBias bias_;
  int history_ = 0, query_ = 0, key_ = 0;
  bool near_ = false;
  uint16_t* buckets_ = nullptr;
  int64_t times_[kQueryBlock];
  int32_t since_first_[kQueryBlock], key_since_first_[kKeyTile];  // where near_ is set
};

// Of one block of queries. Hidden cells of a subtile are 0.
template <class P>
class RelativeSums {
 public:
  using Sum = typename P::Sum;
  using Vector = typename P::Vector;
  using IntVector = typename Lanes<Sum>::IntVector;
  static constexpr int kLanes = P::kLanes;
  // With as many buckets or fewer each lane has sums of its own: a vector is added as it is.
  static constexpr int kSpread = 1024;
  static constexpr int kRun = 16;          // keys whose sums are made together
  static constexpr int kManyBuckets = 24;  // of a run of keys, beyond which one takes its cells one by one

  void allocate(Arena& arena, int keys, int buckets) {
    buckets_ = buckets;
    copies_ = buckets <= kSpread ? kLanes : 1;
    by_bucket_ = arena.take<Sum>(bucket_sums());
    by_distance_ = arena.take<Sum>(static_cast<size_t>(keys) + kQueryBlock + kLanes);
  }

  // Queries from `query` on; none of them sees a key from `keys` on.
  void start(const Head& head, int query, int keys) {
    query_ = query;
    history_ = history_of(head);
    zero_ = keys - query;
    std::memset(by_bucket_, 0, bucket_sums() * sizeof(Sum));
    std::memset(by_distance_, 0, (static_cast<size_t>(keys) + kQueryBlock + kLanes) * sizeof(Sum));
  }

  // gradient[key][query] of a subtile of the tile of keys from `key` on.
  void add(const KeySubtile& subtile, int key, const Sum* gradient, const RelativeTile<P>& tile) {
    const int first = key + subtile.key;
    const bool targets = first + subtile.keys > history_;
    for (int lane = subtile.from * kLanes; lane < subtile.to * kLanes; lane += kLanes) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(subtile.key) * kQueryBlock + lane;
      const int query = query_ + lane;
      if (targets || query + kLanes > history_) {
        add_targets(query, first, subtile.keys, gradient + at);
      } else {
        add_distances(query - first, subtile.keys, gradient + at);
      }
      for (int k = 0; k < subtile.keys; k += kRun) {
        const ptrdiff_t first_cell = at + static_cast<ptrdiff_t>(k) * kQueryBlock;
        add_buckets(smaller(kRun, subtile.keys - k), gradient + first_cell, tile.buckets(first_cell));
      }
    }
  }

  // To the place of this block in Head::relative.sums.
  void finish(int block, Sum factor, void* sums) const {
    Sum* to = static_cast<Sum*>(sums) + relative_sums(block, buckets_);
    if (copies_ == 1) {
      for (int i = 0; i < buckets_; ++i) to[i] = factor * by_bucket_[i];
    } else {
      for (int i = 0; i < buckets_; i += kLanes) {
        Vector rows[kLanes];
        for (int r = 0; r < kLanes; ++r) rows[r] = load(by_bucket_ + static_cast<ptrdiff_t>(i + r) * kLanes);
        transpose<Sum>(rows);
        for (int r = 1; r < kLanes; ++r) rows[0] += rows[r];
        store_some(to + i, splat(factor) * rows[0], buckets_ - i);
      }
    }
    to += buckets_;
    const int count = (block + 1) * kQueryBlock;
    for (int i = 0; i < count; ++i) to[i] = zero_ + i < 0 ? Sum{0} : factor * by_distance_[zero_ + i];
    // Contextual queries see keys behind them: distance 0.
    for (int i = 0; i < zero_; ++i) to[0] += factor * by_distance_[i];
  }

 private:
  size_t bucket_sums() const { return static_cast<size_t>((buckets_ + kLanes - 1) / kLanes * kLanes) * copies_; }

  // `distance`: of lane 0 and the first key. A window of two vectors goes down one distance with each key, so that a
  // sum stays in registers until all its cells are in.
  void add_distances(int distance, int keys, const Sum* gradient) {
    IntVector down;
    for (int i = 0; i < kLanes; ++i) down[i] = kLanes - 1 + i;
    Vector low{}, high{};
    for (int key = 0; key < keys;) {
      const int end = smaller(key + kLanes, keys);
      low += load(gradient + static_cast<ptrdiff_t>(key) * kQueryBlock);
      for (++key; key < end; ++key) {
        high = __builtin_shuffle(low, high, down);
        low = __builtin_shuffle(Vector{}, low, down);
        low += load(gradient + static_cast<ptrdiff_t>(key) * kQueryBlock);
      }
      // Of the key before: the distances of `low` are those of its lanes, those of `high` follow.
      add_at(distance - (key - 1) + kLanes, high);
      if (key == keys) break;
      high = __builtin_shuffle(low, Vector{}, down);
      low = __builtin_shuffle(Vector{}, low, down);
    }
    add_at(distance - (keys - 1), low);
  }

  void add_at(int distance, Vector value) {
    Sum* to = by_distance_ + zero_ + distance;
    store(to, load(to) + value);
  }

  void add_targets(int query, int first, int keys, const Sum* gradient) {
    for (int key = first; key < first + keys; ++key, gradient += kQueryBlock) {
      for (int i = 0; i < kLanes; ++i) {
        by_distance_[zero_ + smaller(query + i, history_) - smaller(key, history_)] += gradient[i];
      }
    }
  }

  // Of a vector of queries with so many keys: one bucket after the other, summed in registers.
  void add_buckets(int keys, const Sum* gradient, const uint16_t* buckets) {
    typedef typename Buckets<Sum>::Kept Kept;
    Kept least = kept(buckets), most = least;
    for (int k = 1; k < keys; ++k) {
      const Kept those = kept(buckets + static_cast<ptrdiff_t>(k) * kQueryBlock);
      least = those < least ? those : least;
      most = those > most ? those : most;
    }
    int first = least[0], last = most[0];
    for (int i = 1; i < kLanes; ++i) {
      first = smaller(first, least[i]);
      last = larger(last, most[i]);
    }
    if (copies_ == 1 || last - first > kManyBuckets) return add_one_by_one(keys, gradient, buckets);
    for (int bucket = first; bucket <= last; ++bucket) {
      Sum* to = by_bucket_ + static_cast<ptrdiff_t>(bucket) * kLanes;
      Vector sums[4] = {load(to), Vector{}, Vector{}, Vector{}};  // an addition need not wait for the one before
      int k = 0;
      for (; k + 4 <= keys; k += 4) {
        for (int i = 0; i < 4; ++i) add_bucket(sums[i], bucket, k + i, gradient, buckets);
      }
      for (; k < keys; ++k) add_bucket(sums[0], bucket, k, gradient, buckets);
      store(to, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }

  static void add_bucket(Vector& sum, int bucket, int key, const Sum* gradient, const uint16_t* buckets) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(key) * kQueryBlock;
    Buckets<Sum>::add(sum, buckets + at, bucket, gradient + at);
  }

  void add_one_by_one(int keys, const Sum* gradient, const uint16_t* buckets) {
    for (int k = 0; k < keys; ++k, gradient += kQueryBlock, buckets += kQueryBlock) {
      for (int i = 0; i < kLanes; ++i) {
        by_bucket_[static_cast<ptrdiff_t>(buckets[i]) * copies_ + (copies_ == 1 ? 0 : i)] += gradient[i];
      }
    }
  }

  static typename Buckets<Sum>::Kept kept(const uint16_t* from) {
    typename Buckets<Sum>::Kept result;
    std::memcpy(&result, from, sizeof(result));
    return result;
  }

  int buckets_ = 0, copies_ = 1;
  int query_ = 0, history_ = 0;
  int zero_ = 0;  // where distance 0 stands among the sums
  Sum *by_bucket_ = nullptr, *by_distance_ = nullptr;
};

template <class P>
size_t relative_scratch(int keys, int buckets) {
  Arena arena(nullptr);
  RelativeSums<P>().allocate(arena, keys, buckets);
  return arena.used();
}

}  // namespace
}  // namespace gr_ops::hstu
