// One thread inserts, erases and lets the map grow; others look up. Every slot that a reader gets is the id's own, and
// ids that are never erased are always there.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "ids/id_map.h"
#include "program.h"

using namespace hybrid_torchrec;

namespace {

constexpr int64_t kStaying = 400;
constexpr int64_t kIds = 20000;

IdMap::Slot slot_of(int64_t id) { return static_cast<IdMap::Slot>(id * 7 + 3); }

void read(const IdMap& map, const std::atomic<int64_t>& inserted, const std::atomic<bool>& done) {
  std::vector<int64_t> ids(500);
  std::vector<int64_t> slots(ids.size());
  uint64_t random = 1;
  while (!done.load()) {
    const int64_t there = inserted.load();
    for (int64_t& id : ids) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      id = static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(kIds));
      if (random >> 63 != 0) id %= kStaying;
    }
    map.find(ids.data(), ids.size(), slots.data());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (slots[i] >= 0) CHECK(slots[i] == static_cast<int64_t>(slot_of(ids[i])));
      if (ids[i] < kStaying && ids[i] < there) CHECK(slots[i] >= 0);
    }
  }
}

void insert(IdMap& map, int64_t first, int64_t count) {
  if (count == 1) {
    CHECK(map.insert(first, slot_of(first)) == IdMap::kAbsent);
    return;
  }
  std::vector<int64_t> ids;
  std::vector<IdMap::Slot> slots;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(first + i);
    slots.insert(slots.begin(), slot_of(first + i));
  }
  std::vector<int64_t> given(ids.size());
  CHECK(map.insert(ids.data(), ids.size(), {slots.data(), slots.size(), 0}, given.data()) == ids.size());
  for (size_t i = 0; i < ids.size(); ++i) CHECK(given[i] == static_cast<int64_t>(slot_of(ids[i])));
}

}  // namespace

int main() {
  for (int round = 0; round < 4; ++round) {
    IdMap map;
    std::atomic<int64_t> inserted{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) readers.emplace_back([&] { read(map, inserted, done); });
    // One by one, a few at a time, and so many that each growth is done at once.
    const int64_t together = round == 0 ? 1 : round == 1 ? 50 : 5000;
    for (int64_t first = 0; first < kIds; first += together) {
      insert(map, first, together);
      inserted.store(first + together);
      for (int64_t id = std::max(first, 2 * kStaying); id < first + together; ++id) {
        if (id % 3 != 0) CHECK(map.erase(id - kStaying) == slot_of(id - kStaying));
      }
    }
    done.store(true);
    for (std::thread& reader : readers) reader.join();
  }
}
