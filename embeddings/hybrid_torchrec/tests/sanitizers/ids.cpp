// The id map and the index beside std::map, single-threaded: random calls, ids that share one bucket, extremes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "common/mix.h"
#include "ids/index.h"
#include "program.h"

using namespace hybrid_torchrec;

namespace {

// The inverse of mix64.
uint64_t unmix(uint64_t x) {
  const auto unshift = [](uint64_t value, int bits) {
    uint64_t result = value;
    for (int done = bits; done < 64; done += bits) result = value ^ (result >> bits);
    return result;
  };
  const auto inverse = [](uint64_t odd) {
    uint64_t y = odd;
    for (int i = 0; i < 6; ++i) y *= 2 - odd * y;
    return y;
  };
  x = unshift(x, 31) * inverse(0x94d049bb133111ebu);
  x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9u);
  return unshift(x, 30);
}

// Ids whose hashes are the lowest numbers: all of them want the first bucket.
int64_t crowded(uint64_t i) {
  const uint64_t id = unmix(i) - kGoldenGamma;
  CHECK(mix64(id + kGoldenGamma) == i);
  return static_cast<int64_t>(id);
}

void compare(const IdMap& map, const std::map<int64_t, IdMap::Slot>& model, const std::vector<int64_t>& ids) {
  CHECK(map.size() == model.size());
  std::vector<int64_t> slots(ids.size());
  map.find(ids.data(), ids.size(), slots.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto entry = model.find(ids[i]);
    CHECK(slots[i] == (entry == model.end() ? -1 : static_cast<int64_t>(entry->second)));
  }
}

void random_calls(std::vector<int64_t> ids, size_t capacity, uint32_t seed) {
  IdMap map(capacity);
  std::map<int64_t, IdMap::Slot> model;
  std::mt19937 random(seed);
  for (int call = 0; call < 30000; ++call) {
    const int64_t id = ids[random() % ids.size()];
    // Times of growth and of decay take turns.
    const bool adding = random() % 10 < (call / 5000 % 2 == 0 ? 8u : 3u);
    if (adding) {
      const auto slot = static_cast<IdMap::Slot>(call);
      const auto [entry, fresh] = model.emplace(id, slot);
      CHECK(map.insert(id, slot) == (fresh ? IdMap::kAbsent : entry->second));
      if (random() % 4 == 0) {
        map.assign(id, slot + 1);
        entry->second = slot + 1;
      }
    } else {
      const auto entry = model.find(id);
      CHECK(map.erase(id) == (entry == model.end() ? IdMap::kAbsent : entry->second));
      if (entry != model.end()) model.erase(entry);
    }
    if (call % 1000 == 0) compare(map, model, ids);
  }
  compare(map, model, ids);
  CHECK(map.most_moved() <= 10);
  map.clear();
  compare(map, {}, ids);
}

void growth_moves_little() {
  IdMap map;
  for (int64_t i = 0; i < 200000; ++i) CHECK(map.insert(i * 3, static_cast<IdMap::Slot>(i)) == IdMap::kAbsent);
  CHECK(map.size() == 200000);
  CHECK(map.most_moved() == 10);
  for (int64_t i = 0; i < 200000; ++i) CHECK(map.find(i * 3) == static_cast<IdMap::Slot>(i));
}

// Many at a time, of which some are there already, some twice among themselves, and some take slots that others left;
// in maps that are growing by insertions of one.
void many_at_a_time(const std::vector<int64_t>& ids, size_t capacity, uint32_t seed) {
  IdMap map(capacity);
  std::map<int64_t, IdMap::Slot> model;
  std::mt19937 random(seed);
  IdMap::Slot next = 1;
  std::vector<IdMap::Slot> freed;
  for (int call = 0; call < 400; ++call) {
    std::vector<int64_t> given(random() % 5 == 0 ? random() % 1500 : random() % 40);
    for (int64_t& id : given) id = ids[random() % ids.size()];
    const size_t reused = freed.size() < given.size() ? freed.size() : given.size();
    const IdMap::FreshSlots fresh{freed.data() + freed.size() - reused, reused, next};
    std::vector<int64_t> slots(given.size());
    const size_t put = map.insert(given.data(), given.size(), fresh, slots.data());
    size_t expected = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      const auto [entry, absent] = model.emplace(given[i], fresh[expected]);
      expected += absent ? 1 : 0;
      CHECK(slots[i] == static_cast<int64_t>(entry->second));
    }
    CHECK(put == expected);
    const size_t again = put < reused ? put : reused;
    freed.resize(freed.size() - again);
    next += static_cast<IdMap::Slot>(put - again);
    for (int i = 0; i < 10; ++i) {
      const int64_t id = ids[random() % ids.size()];
      if (model.emplace(id, next).second) CHECK(map.insert(id, next++) == IdMap::kAbsent);
    }
    for (size_t i = 0; i < given.size() / 2; ++i) {
      const auto entry = model.find(ids[random() % ids.size()]);
      if (entry == model.end()) continue;
      CHECK(map.erase(entry->first) == entry->second);
      freed.push_back(entry->second);
      model.erase(entry);
    }
    if (call % 20 == 0) compare(map, model, ids);
  }
  compare(map, model, ids);
  CHECK(map.most_moved() <= 10);
}

void many_into_a_growing_map() {
  for (const int64_t together : {1, 10, 100, 1000, 100000}) {
    IdMap map;
    int64_t id = 0;
    while (!map.growing()) map.insert(id, static_cast<IdMap::Slot>(id)), ++id;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < together; ++i) ids.push_back(id + i);
    std::vector<int64_t> slots(ids.size());
    CHECK(map.insert(ids.data(), ids.size(), {nullptr, 0, static_cast<IdMap::Slot>(id)}, slots.data()) == ids.size());
    for (int64_t i = 0; i < id + together; ++i) CHECK(map.find(i) == static_cast<IdMap::Slot>(i));
  }
}

// A batch that may move every id leaves no second array, and moves no more for each of its ids.
void many_grow_at_once() {
  constexpr size_t kCount = 10000;
  IdMap map;
  std::map<int64_t, IdMap::Slot> model;
  std::vector<int64_t> ids(kCount);
  std::vector<int64_t> slots(kCount);
  for (size_t size = 0; size < 20 * kCount; size += kCount) {
    for (size_t i = 0; i < kCount; ++i) {
      ids[i] = static_cast<int64_t>(size + i) * 3;
      model.emplace(ids[i], static_cast<IdMap::Slot>(size + i));
    }
    CHECK(map.insert(ids.data(), kCount, {nullptr, 0, static_cast<IdMap::Slot>(size)}, slots.data()) == kCount);
    if (size <= 10 * kCount) CHECK(!map.growing());
  }
  for (const auto& [id, slot] : model) CHECK(map.find(id) == slot);
  CHECK(map.find(1) == IdMap::kAbsent && map.entries().size() == model.size() && map.most_moved() <= 10);
}

// Slots that ids left are given to new ones, and only to them.
void index_gives_free_slots() {
  Index index(4);
  const std::vector<int64_t> shows(6, 1);
  std::vector<int64_t> slots(6);
  const std::vector<int64_t> first = {10, 11, 12, 13, 14, 15};
  index.insert(first.data(), shows.data(), 6, 1, slots.data());
  CHECK(slots == std::vector<int64_t>({1, 2, 3, 4, 5, 6}));
  for (const int64_t id : {11, 13, 14}) CHECK(index.erase(id) > 0);
  const std::vector<int64_t> second = {12, 20, 10, 20};
  index.insert(second.data(), shows.data(), 4, 2, slots.data());
  slots.resize(4);
  CHECK(slots == std::vector<int64_t>({3, 5, 1, 5}));
  CHECK(index.free_slots() == std::vector<uint32_t>({2, 4}) && index.slots() == 7 && index.size() == 4);
  CHECK(index.id(5) == 20 && index.stats(5).last_step == 2 && index.stats(3).last_step == 1);
}

// An index in the memory of others knows nothing of what they left.
void index_in_used_memory() {
  {
    std::vector<std::unique_ptr<Arena>> used;
    for (int i = 0; i < 3; ++i) {
      used.push_back(std::make_unique<Arena>(Arena::kUnlimited, Arena::Pages::kAny));
      used.back()->grow(size_t{1} << 20);
      std::memset(used.back()->data(), 0x5a, used.back()->size());
    }
  }
  constexpr size_t kCount = 70000;
  std::vector<int64_t> ids(kCount);
  std::vector<int64_t> slots(kCount);
  const std::vector<int64_t> shows(kCount, 3);
  for (int64_t round = 1; round < 4; ++round) {
    Index index(0);
    CHECK(index.id(0) == 0 && index.versions()[0] == 0);
    CHECK(index.stats(0).last_step == 0 && index.stats(0).shows == 0.0f);
    for (const int64_t of : {round - 1, round}) {
      for (size_t i = 0; i < kCount; ++i) ids[i] = (static_cast<int64_t>(i) << 2 | of) * 77 + 1;
      index.find(ids.data(), kCount, slots.data());
      CHECK(std::all_of(slots.begin(), slots.end(), [](int64_t slot) { return slot == -1; }));
    }
    index.insert(ids.data(), shows.data(), kCount, round + 5, slots.data());
    for (size_t i = 0; i < kCount; ++i) {
      const size_t slot = i + 1;
      CHECK(slots[i] == static_cast<int64_t>(slot) && index.id(slot) == ids[i] && index.versions()[slot] == 1);
      CHECK(index.stats(slot).last_step == round + 5 && index.stats(slot).shows == 3.0f);
    }
  }
}

void index_calls() {
  Index index(4);
  index.count_with(OccurrenceCounts::sketch(64, 3, 7));
  std::map<int64_t, int64_t> model;
  std::mt19937 random(5);
  for (int step = 1; step < 400; ++step) {
    std::vector<int64_t> ids(50);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % 300) - 150;
    std::vector<int64_t> slots(ids.size());
    index.find(ids.data(), ids.size(), slots.data());
    index.touch(slots.data(), slots.size(), step, 0.9, 0, 1);
    const auto [fresh, shows] = index.admit(ids.data(), slots.data(), slots.size(), step, {2, 0.9, 3});
    std::vector<int64_t> given(fresh.size());
    index.insert(fresh.data(), shows.data(), fresh.size(), step, given.data());
    for (size_t i = 0; i < fresh.size(); ++i) CHECK(model.emplace(fresh[i], given[i]).second);
    index.resolve(ids.data(), slots.data(), slots.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      CHECK(slots[i] == (model.count(ids[i]) != 0 ? model[ids[i]] : 0));
    }
    if (index.size() > 100) {
      const auto victims = index.victims(
          20, {find_kind(kEvictions, "eviction policy", static_cast<int64_t>(Eviction::kScore)), 1.0, 1.0, 0.9, 0},
          step, slots.data(), slots.size());
      const std::set<int64_t> kept(slots.begin(), slots.end());
      for (const int64_t slot : victims) {
        CHECK(kept.count(slot) == 0);
        const int64_t id = index.id(static_cast<size_t>(slot));
        CHECK(model[id] == slot && index.erase(id) == slot && index.erase(id) == -1);
        model.erase(id);
      }
    }
    if (index.size() > 100) {
      const EvictionKind lru = find_kind(kEvictions, "eviction policy", static_cast<int64_t>(Eviction::kLRU));
      std::set<std::pair<int64_t, int64_t>> order;  // last step, id
      for (const int64_t slot : index.used_slots()) {
        order.emplace(index.stats(static_cast<size_t>(slot)).last_step, index.id(static_cast<size_t>(slot)));
      }
      auto next = order.begin();
      for (const int64_t slot : index.victims(3, {lru, 1.0, 0.0, 1.0, 0}, step, nullptr, 0)) {
        CHECK(index.id(static_cast<size_t>(slot)) == (next++)->second);
      }
      const int64_t again[2] = {order.rbegin()->second, order.begin()->second};  // the oldest becomes young, and back
      const float zeros[2] = {0, 0};
      const int64_t steps[2] = {order.begin()->first, order.rbegin()->first};
      int64_t places[2];
      index.put(again, zeros, zeros, steps, 2, places);
      CHECK(places[0] == model[again[0]] && places[1] == model[again[1]]);
    }
    if (step % 50 == 0) {
      CHECK(index.next_version() == index.version());
      index.forget_erased(index.version() - 1);
      for (const int64_t id : index.erased_ids(0)) CHECK(model.count(id) == 0);
    }
    CHECK(index.size() == model.size() && index.used_slots().size() == model.size());
  }
}

}  // namespace

int main() {
  std::vector<int64_t> few = {0, 1, -1, INT64_MIN, INT64_MAX};
  for (int64_t i = 2; i < 3000; ++i) few.push_back(i << (i % 40));
  random_calls(few, 0, 1);
  random_calls(few, 100000, 2);
  std::vector<int64_t> crowd;
  for (uint64_t i = 0; i < 1500; ++i) crowd.push_back(crowded(i));
  random_calls(crowd, 0, 3);
  many_at_a_time(few, 0, 4);
  many_at_a_time(few, 100000, 5);
  many_at_a_time(crowd, 0, 6);
  many_into_a_growing_map();
  many_grow_at_once();
  growth_moves_little();
  index_gives_free_slots();
  index_in_used_memory();
  index_calls();
}
