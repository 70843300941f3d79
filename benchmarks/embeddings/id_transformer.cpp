// The peer "ID transformer", written from its public description: a hash map from global id to a slot and a 32-bit
// record of use, a bitmap of the free slots, one id after the other.
#include <cstddef>
#include <cstdint>
#include <unordered_map>
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
  int64_t slot;
  uint32_t record;
};

struct Transformer {
  explicit Transformer(int64_t slots) : free(slots) { entries.reserve(static_cast<std::size_t>(slots)); }
  std::unordered_map<int64_t, Entry> entries;
  FreeSlots free;
};

}  // namespace

extern "C" {

void* transformer_new(int64_t slots) { return new Transformer(slots); }
void transformer_delete(void* transformer) { delete static_cast<Transformer*>(transformer); }

void transformer_transform(void* transformer, const int64_t* ids, int64_t count, uint32_t time, int64_t* slots) {
  auto& self = *static_cast<Transformer*>(transformer);
  for (int64_t i = 0; i < count; ++i) {
    const auto found = self.entries.find(ids[i]);
    if (found != self.entries.end()) {
      found->second.record = time;
      slots[i] = found->second.slot;
    } else {
      slots[i] = self.free.take();
      self.entries.emplace(ids[i], Entry{slots[i], time});
    }
  }
}
}
