// The peer "ID transformer", written from its public description (pull requests 661 and 701 of meta-pytorch/torchrec):
// an open-addressing hash map from global id to cache id, a bitmap of the free cache ids, and for each id 32 bits of
// last use and approximate frequency; a visit draws random bits, and all of the next k must be 0 for the frequency's
// k-th increment. One id after the other. The map is Robin Hood hashing in a power of two of cells, multiplicative
// hash, half full at most: that of the flat hash map which the description names, which needs no cell past the key's.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

class FreeSlots {
 public:
  explicit FreeSlots(int64_t slots) : words_(static_cast<std::size_t>((slots + 63) / 64), ~uint64_t{0}) {}
  int64_t take() {
    while (words_[first_] == 0) ++first_;
    const int bit = __builtin_ctzll(words_[first_]);
    words_[first_] &= words_[first_] - 1;
    return static_cast<int64_t>(first_) * 64 + bit;
  }

 private:
  std::vector<uint64_t> words_;
  std::size_t first_ = 0;
};

struct Entry {
  int64_t id;
  int32_t slot;
  uint32_t record;
};

class FlatMap {
 public:
  explicit FlatMap(int64_t entries) {
    bits_ = 4;
    while ((int64_t{1} << bits_) < 2 * entries) ++bits_;
    distances_.assign((std::size_t{1} << bits_) + kLongest, -1);
    entries_.resize(distances_.size());
  }

  Entry* find(int64_t id) {
    std::size_t at = home(id);
    for (int8_t distance = 0; distances_[at] >= distance; ++distance, ++at) {
      if (entries_[at].id == id) return &entries_[at];
    }
    return nullptr;
  }

  void insert(Entry entry) {
    std::size_t at = home(entry.id);
    for (int8_t distance = 0;; ++distance, ++at) {
      if (distances_[at] < 0) {
        distances_[at] = distance;
        entries_[at] = entry;
        return;
      }
      if (distances_[at] < distance) {
        std::swap(distances_[at], distance);
        std::swap(entries_[at], entry);
      }
    }
  }

 private:
  static constexpr std::size_t kLongest = 100;

  std::size_t home(int64_t id) const { return (static_cast<uint64_t>(id) * 11400714819323198485u) >> (64 - bits_); }

  int bits_ = 0;
  std::vector<int8_t> distances_;
  std::vector<Entry> entries_;
};

struct Transformer {
  explicit Transformer(int64_t slots) : map(slots), free(slots) {}
  FlatMap map;
  FreeSlots free;
  uint64_t random = 0x9e3779b97f4a7c15u;
};

// 27 bits of time, 5 of the frequency's logarithm.
uint32_t visited(uint32_t record, uint32_t time, uint64_t& random) {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  uint32_t frequency = record & 31u;
  if (frequency < 31 && (random & ((uint64_t{1} << frequency) - 1)) == 0) ++frequency;
  return time << 5 | frequency;
}

}  // namespace

extern "C" {

void* transformer_new(int64_t slots) { return new Transformer(slots); }
void transformer_delete(void* transformer) { delete static_cast<Transformer*>(transformer); }

void transformer_transform(void* transformer, const int64_t* ids, int64_t count, uint32_t time, int64_t* slots) {
  auto& self = *static_cast<Transformer*>(transformer);
  for (int64_t i = 0; i < count; ++i) {
    Entry* found = self.map.find(ids[i]);
    if (found != nullptr) {
      found->record = visited(found->record, time, self.random);
      slots[i] = found->slot;
    } else {
      slots[i] = self.free.take();
      self.map.insert({ids[i], static_cast<int32_t>(slots[i]), visited(0, time, self.random)});
    }
  }
}

// The fastest that a core can fetch cache lines: `ahead` independent loads are on their way. Returns a sum, so that
// nothing is left out.
int64_t fetch_lines(const int64_t* lines, const int64_t* order, int64_t count, int64_t ahead) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(lines + 8 * order[i + ahead]);
    sum += lines[8 * order[i]];
  }
  return sum;
}
}
