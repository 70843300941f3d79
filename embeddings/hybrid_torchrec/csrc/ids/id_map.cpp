#include "ids/id_map.h"

#include <algorithm>

#include "ids/bucket.h"

namespace hybrid_torchrec {
namespace {

// Of 100 entries, how many are in use before the map grows.
constexpr size_t kFullest = 75;
constexpr size_t kSmallestBuckets = 8;
// Buckets that an insertion moves; twice as many entries must fit before all old buckets are moved.
constexpr size_t kMoved = 2;
constexpr size_t kMovedAhead = 8;  // buckets between the fetch of the lines of one and its move
// By how much a map of less than kSmall bytes grows: each growth moves everything. One that grows for a batch has room
// for as many ids again.
constexpr size_t kSmall = size_t{8} << 20;
constexpr size_t kSmallFactor = 4;
// Memory that a call which shall not stall may clear.
constexpr size_t kClearedAtOnce = size_t{1} << 20;
constexpr size_t kAhead = 32;     // lookups between the fetch of a line and its use
constexpr size_t kNear = 12;      // and of the one behind it
constexpr size_t kTogether = 32;  // insertions between which buckets are moved

size_t buckets_for(size_t entries, size_t per_bucket) {
  return std::max(kSmallestBuckets, entries * 100 / kFullest / per_bucket + 1);
}

size_t limit(size_t entries) { return entries * kFullest / 100; }

}  // namespace

IdMap::IdMap(size_t capacity)
    : current_(std::make_shared<Buckets>(buckets_for(capacity, Bucket::kEntries), Arena::Pages::kCleared)) {
  publish(current_, nullptr);
}

IdMap::~IdMap() = default;

std::shared_ptr<const IdMap::View> IdMap::view() const {
  const std::lock_guard<std::mutex> lock(publishing_);
  return view_;
}

void IdMap::publish(std::shared_ptr<Buckets> current, std::shared_ptr<Buckets> old) {
  auto next = std::make_shared<const View>(View{std::move(current), std::move(old)});
  {
    const std::lock_guard<std::mutex> lock(publishing_);
    view_.swap(next);
    views_.fetch_add(1, std::memory_order_release);
  }
  // The last view goes here, or with its last reader.
}

size_t IdMap::capacity() const { return limit(current_->entries()); }

bool IdMap::growing() const { return old_ != nullptr; }

size_t IdMap::bytes() const { return current_->bytes() + (old_ ? old_->bytes() : 0); }

void IdMap::find(const int64_t* ids, size_t count, int64_t* slots) const {
  uint64_t views = views_.load(std::memory_order_acquire);  // before the view, which may then be a later one
  std::shared_ptr<const View> now = view();
  size_t homes[2][2 * kAhead];
  const auto fetch = [&](size_t i) {
    const size_t place = i % (2 * kAhead);
    homes[0][place] = now->current->home(ids[i]);
    now->current->prefetch(homes[0][place]);
    if (now->old) {
      homes[1][place] = now->old->home(ids[i]);
      now->old->prefetch(homes[1][place]);
    }
  };
  const auto fetch_from = [&](size_t i) {
    for (size_t k = i; k < std::min(count, i + kAhead + 1); ++k) fetch(k);
  };
  fetch_from(0);
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) fetch(i + kAhead);
    if (i + kNear < count) {
      const size_t place = (i + kNear) % (2 * kAhead);
      now->current->prefetch_beyond(homes[0][place]);
      if (now->old) now->old->prefetch_beyond(homes[1][place]);
    }
    for (;;) {
      const size_t place = i % (2 * kAhead);
      // The old array first: an entry is put into the new one before it leaves the old one.
      Slot slot = now->old ? now->old->find(ids[i], homes[1][place]) : kAbsent;
      if (slot == kAbsent) slot = now->current->find(ids[i], homes[0][place]);
      slots[i] = slot == kAbsent ? -1 : static_cast<int64_t>(slot);
      if (slot != kAbsent) break;
      // Absent from these arrays: it may have moved to newer ones, which are published before anything moves.
      const uint64_t later = views_.load(std::memory_order_acquire);
      if (later == views) break;
      views = later;
      now = view();
      fetch_from(i);
    }
  }
}

IdMap::Slot IdMap::find(int64_t id) const {
  int64_t slot;
  find(&id, 1, &slot);
  return slot < 0 ? kAbsent : static_cast<Slot>(slot);
}

IdMap::Slot IdMap::insert(int64_t id, Slot slot) {
  Slot there = old_ ? old_->find(id, old_->home(id)) : kAbsent;
  if (there == kAbsent) there = current_->find(id, current_->home(id));
  if (there != kAbsent) return there;
  if (!old_ && size_ + 1 > capacity()) start_growth(size_ + 1);
  if (old_) most_moved_ = std::max(most_moved_, move_buckets(kMoved));
  current_->put(id, slot);
  ++size_;
  return kAbsent;
}

size_t IdMap::insert(const int64_t* ids, size_t count, const FreshSlots& fresh, int64_t* slots) {
  if (size_ + count > capacity()) {
    // So many ids that what is left to move is less than they may move.
    if (old_) move_buckets(old_->count());
    // So many that they may move everything: at once, none of them has to look into two arrays.
    if (size_ <= kMoved * Bucket::kEntries * count) {
      most_moved_ = std::max(most_moved_, (size_ + count - 1) / count);
      widen(size_ + count);
    } else {
      start_growth(size_ + count);
    }
  }
  size_t first = 0;
  size_t taken = 0;
  for (; old_ && first < count; first += kTogether) {
    const size_t part = std::min(kTogether, count - first);
    // Before they are moved: then it fetches the lines.
    uint64_t hashes[kTogether];
    for (size_t i = 0; i < part; ++i) {
      hashes[i] = Buckets::hash(ids[first + i]);
      current_->prefetch(current_->home_of(hashes[i]));
      old_->prefetch(old_->home_of(hashes[i]));
    }
    most_moved_ = std::max(most_moved_, (move_buckets(kMoved * part) + part - 1) / part);
    for (size_t i = 0; old_ && i < part; ++i) {
      old_->prefetch_beyond(old_->home_of(hashes[i]));
      current_->prefetch_beyond(current_->home_of(hashes[i]));
    }
    for (size_t i = 0; i < part; ++i) {
      Slot there = old_ ? old_->find(ids[first + i], old_->home_of(hashes[i])) : kAbsent;
      if (there == kAbsent) there = current_->insert(ids[first + i], fresh[taken], current_->home_of(hashes[i]));
      if (there == kAbsent) there = fresh[taken++];
      slots[first + i] = static_cast<int64_t>(there);
    }
  }
  if (first < count) taken = current_->insert(ids + first, count - first, fresh, taken, slots + first);
  size_ += taken;
  return taken;
}

void IdMap::assign(int64_t id, Slot slot) {
  const auto set = [slot](const Buckets& buckets) {
    return [slot, &buckets](size_t bucket, uint32_t entry) { buckets[bucket].set_slot(entry, slot); };
  };
  if (!current_->locate(id, current_->home(id), set(*current_)) && old_) old_->locate(id, old_->home(id), set(*old_));
}

IdMap::Slot IdMap::erase(int64_t id) {
  int64_t slot;
  erase(&id, 1, &slot);
  return slot < 0 ? kAbsent : static_cast<Slot>(slot);
}

void IdMap::erase(const int64_t* ids, size_t count, int64_t* slots) {
  uint64_t hashes[kAhead];
  // What it writes is used: a function that does nothing but fetch lines is one without effect to compilers, and goes.
  const auto fetch = [&](size_t i) {
    const uint64_t hash = hashes[i % kAhead] = Buckets::hash(ids[i]);
    current_->prefetch(current_->home_of(hash));
    if (old_) old_->prefetch(old_->home_of(hash));
  };
  for (size_t i = 0; i < std::min(count, kAhead); ++i) fetch(i);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = hashes[i % kAhead];
    if (i + kAhead < count) fetch(i + kAhead);
    if (i + kNear < count) current_->prefetch_beyond(current_->home_of(hashes[(i + kNear) % kAhead]));
    Slot slot = current_->erase(ids[i], current_->home_of(hash));
    if (slot == kAbsent && old_) slot = old_->erase(ids[i], old_->home_of(hash));
    if (slot != kAbsent) --size_;
    slots[i] = slot == kAbsent ? -1 : static_cast<int64_t>(slot);
  }
}

std::vector<std::pair<int64_t, IdMap::Slot>> IdMap::entries() const {
  std::vector<std::pair<int64_t, Slot>> entries;
  entries.reserve(size_);
  for (const Buckets* buckets : {current_.get(), old_.get()}) {
    for (size_t b = 0; buckets != nullptr && b < buckets->count(); ++b) {
      const Bucket& bucket = (*buckets)[b];
      for (uint32_t entry = 0; entry < Bucket::kEntries; ++entry) {
        if ((bucket.meta >> entry & 1u) != 0) entries.emplace_back(bucket.ids[entry], bucket.slots[entry]);
      }
    }
  }
  return entries;
}

void IdMap::clear() {
  current_ = std::make_shared<Buckets>(kSmallestBuckets, Arena::Pages::kCleared);
  old_.reset();
  size_ = 0;
  publish(current_, nullptr);
}

// Buckets for at least so many entries, more than there are.
size_t IdMap::wider(size_t entries) const {
  const size_t factor = current_->bytes() < kSmall ? kSmallFactor : 2;
  const size_t needed = buckets_for(entries, Bucket::kEntries);
  const bool small = needed * sizeof(Bucket) < kSmall;
  return std::max(factor * current_->count(), small ? buckets_for(2 * entries, Bucket::kEntries) : needed);
}

void IdMap::start_growth(size_t entries) {
  const size_t count = wider(entries);
  const bool little = count * sizeof(Bucket) <= kClearedAtOnce;
  auto next = std::make_shared<Buckets>(count, little ? Arena::Pages::kCleared : Arena::Pages::kRenewed);
  old_ = std::exchange(current_, std::move(next));
  next_to_move_ = 0;
  publish(current_, old_);
}

// Readers go on in the old array till the new one has all.
void IdMap::widen(size_t entries) {
  auto next = std::make_shared<Buckets>(wider(entries), Arena::Pages::kCleared);
  next->populate();
  for (size_t b = 0; b < current_->count(); ++b) {
    const Bucket& from = (*current_)[b];
    for (uint32_t used = from.meta & Bucket::kUsed; used != 0; used &= used - 1) {
      const auto entry = static_cast<uint32_t>(__builtin_ctz(used));
      next->put(from.ids[entry], from.slots[entry]);
    }
  }
  current_ = std::move(next);
  publish(current_, nullptr);
}

size_t IdMap::move_buckets(size_t count) {
  size_t moved = 0;
  for (; count > 0 && next_to_move_ < old_->count(); --count, ++next_to_move_) {
    if (const size_t later = next_to_move_ + kMovedAhead; later < old_->count()) {
      const size_t to = later * current_->count() / old_->count();  // where its ids go, or next to it
      old_->prefetch(later);
      current_->prefetch(to);
      current_->prefetch(current_->next(to));
    }
    Bucket& from = (*old_)[next_to_move_];
    const uint32_t used = from.meta & Bucket::kUsed;
    for (uint32_t entry = 0; entry < Bucket::kEntries; ++entry) {
      if ((used >> entry & 1u) == 0) continue;
      current_->put(from.ids[entry], from.slots[entry]);
      ++moved;
    }
    // What passed this bucket is still behind it, so its count stays.
    if (used != 0) from.remove(used);
  }
  if (next_to_move_ == old_->count()) {
    old_.reset();
    publish(current_, nullptr);
  }
  return moved;
}

}  // namespace hybrid_torchrec
