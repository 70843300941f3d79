// Arenas that take the memory of those that are gone: what is in it, and how much of it is kept.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/arena.h"
#include "program.h"

using namespace hybrid_torchrec;

namespace {

constexpr size_t kMega = size_t{1} << 20;

size_t idle() { return MappingPool::instance().idle(); }
size_t lent() { return MappingPool::instance().lent(); }

void fill(const Arena& arena) { std::memset(arena.data(), 0xa5, arena.size()); }

// Each byte beside the next, by a call that ThreadSanitizer checks as a range: a loop takes it a minute.
bool all(const Arena& arena, size_t first, size_t last, unsigned char value) {
  const char* data = arena.data() + first;
  return static_cast<unsigned char>(*data) == value && std::memcmp(data, data + 1, last - first - 1) == 0;
}

void leave_filled(size_t reserve, size_t bytes) {
  Arena arena(reserve, Arena::Pages::kAny);
  arena.grow(bytes);
  arena.populate(0, bytes);
  fill(arena);
}

void fresh_memory_is_zero_and_goes_back() {
  const size_t before = idle();
  for (int round = 0; round < 2; ++round) {
    Arena arena(64 * kMega);
    arena.grow(kMega);
    CHECK(arena.size() == kMega && all(arena, 0, arena.size(), 0));
    fill(arena);
  }
  CHECK(idle() == before);
}

void taken_memory_is_cleared_as_it_is_used() {
  leave_filled(64 * kMega, 2 * kMega);
  const size_t before = idle();
  CHECK(before >= 2 * kMega);
  Arena arena(64 * kMega, Arena::Pages::kCleared);
  CHECK(arena.size() == 0 && idle() == before);
  arena.grow(kMega / 2);
  CHECK(idle() == before - kMega / 2 && all(arena, 0, kMega / 2, 0) && all(arena, kMega / 2, 2 * kMega, 0xa5));
  fill(arena);
  arena.grow(5 * kMega);  // past what was there
  CHECK(idle() == before - 2 * kMega && arena.size() == 6 * kMega);
  CHECK(all(arena, 0, kMega / 2, 0xa5) && all(arena, kMega / 2, arena.size(), 0));
  const char* place = arena.data();
  arena.populate(0, arena.size());
  arena.grow(100 * kMega);  // past what is reserved
  CHECK(arena.data() != place && all(arena, 0, kMega / 2, 0xa5) && all(arena, kMega / 2, 6 * kMega, 0));
}

void uncleared_memory_is_as_it_was() {
  leave_filled(32 * kMega, 3 * kMega);
  Arena arena(32 * kMega, Arena::Pages::kAny);
  arena.grow(kMega);
  CHECK(all(arena, 0, kMega, 0xa5));
}

void other_reservations_are_left() {
  leave_filled(16 * kMega, kMega);
  const size_t before = idle();
  Arena arena(18 * kMega, Arena::Pages::kAny);
  arena.grow(kMega);
  CHECK(idle() == before && all(arena, 0, kMega, 0));
}

void little_is_kept() {
  leave_filled(128 * kMega, MappingPool::kLargest + 2 * kMega);
  for (int i = 0; i < 5; ++i) {
    std::vector<std::unique_ptr<Arena>> arenas;
    for (int k = 0; k < 10; ++k) {
      arenas.push_back(std::make_unique<Arena>(128 * kMega, Arena::Pages::kCleared));
      arenas.back()->grow(10 * kMega);
      CHECK(all(*arenas.back(), 0, 10 * kMega, 0));
      fill(*arenas.back());
    }
    arenas.clear();
    CHECK(idle() <= MappingPool::kMost && idle() >= MappingPool::kMost - 10 * kMega);
  }
  // What small arenas hold of large mappings counts as kept, so that they cannot collect them.
  std::vector<std::unique_ptr<Arena>> small;
  for (int i = 0; i < 20; ++i) {
    small.push_back(std::make_unique<Arena>(128 * kMega, Arena::Pages::kAny));
    small.back()->grow(1);
    leave_filled(128 * kMega, 10 * kMega);
    CHECK(idle() <= MappingPool::kMost);
  }
}

// Whether all pages of the bytes are in memory.
bool resident(const char* data, size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  CHECK(mincore(const_cast<char*>(data), bytes, pages.data()) == 0);
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1u) != 0; });
}

// Bytes that the system may take, as it says itself.
size_t lazily_freed() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word && word != "LazyFree:") continue;
  size_t kilobytes = 0;
  CHECK(file >> kilobytes);
  return kilobytes << 10;
}

void large_memory_is_lent() {
  constexpr size_t kBytes = MappingPool::kLargest + 2 * kMega;
  const size_t before = idle();
  const size_t lent_before = lent();
  leave_filled(256 * kMega, kBytes);
  CHECK(idle() == before && lent() == lent_before + kBytes && lazily_freed() > kBytes / 2);
  {
    Arena arena(256 * kMega, Arena::Pages::kAny);
    arena.grow(kMega);
    CHECK(lent() == lent_before + kBytes - kMega);
    // What the system took of it since is zero, what it left is as it was.
    CHECK(all(arena, 0, 4096, 0xa5) || all(arena, 0, 4096, 0));
    fill(arena);
    arena.populate(0, kMega);
    CHECK(resident(arena.data(), kMega) && all(arena, 0, kMega, 0xa5));
  }
  CHECK(idle() == before && lent() == lent_before + kBytes);
  {
    Arena arena(256 * kMega, Arena::Pages::kCleared);
    arena.grow(kBytes + kMega);  // past what was lent
    CHECK(lent() == lent_before && all(arena, 0, kBytes + kMega, 0));
    fill(arena);
  }
  {
    Arena arena(256 * kMega, Arena::Pages::kRenewed);
    CHECK(!resident(arena.data(), kMega));
    arena.grow(kBytes);
    CHECK(all(arena, 0, kBytes, 0));
  }
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Arena>> arenas;
    for (int i = 0; i < 10; ++i) {
      arenas.push_back(std::make_unique<Arena>(1024 * kMega, Arena::Pages::kRenewed));
      arenas.back()->grow(128 * kMega);
    }
    arenas.clear();
    CHECK(lent() <= MappingPool::kMostLent && lent() > MappingPool::kMostLent / 2);
  }
}

void too_large_to_be_lent() {
  leave_filled(256 * kMega, MappingPool::kLargest + 2 * kMega);
  const size_t before = idle();
  const size_t lent_before = lent();
  CHECK(lent_before > 0);
  {
    Arena arena(2 * MappingPool::kMostLent, Arena::Pages::kAny);
    arena.grow(MappingPool::kMostLent + 2 * kMega);
  }
  CHECK(idle() == before && lent() == lent_before);
}

// Where pages are of 4 KiB, to drop many takes longer than a call that shall not stall may take.
void renewal_is_short() {
  constexpr size_t kBytes = 512 * kMega;
  constexpr size_t kReserve = 4096 * kMega;
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  {
    Arena arena(kReserve, Arena::Pages::kAny);
    arena.grow(kBytes);
    for (size_t i = 0; i < kBytes; i += 4096) arena.data()[i] = 1;
  }
  CHECK(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0);
  const size_t before = idle();
  const size_t lent_before = lent();
  {
    Arena renewed(kReserve, Arena::Pages::kRenewed);
    renewed.grow(kBytes);
    CHECK(lent() == lent_before);  // it took no mapping of the pool
    for (size_t i = 0; i < kBytes; i += 4096) CHECK(renewed.data()[i] == 0);
    Arena as_it_was(kReserve, Arena::Pages::kAny);
    as_it_was.grow(kBytes);
    CHECK(lent() == lent_before - kBytes && as_it_was.data()[kBytes - 4096] == 1);
  }
  CHECK(idle() == before && lent() <= MappingPool::kMostLent);
}

void from_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (size_t k = 1; k < 300; ++k) {
        Arena arena(k % 3 == 0 ? Arena::kUnlimited : 8 * kMega, Arena::Pages::kCleared);
        arena.grow(k * 4096);
        CHECK(all(arena, 0, 4096, 0) && all(arena, arena.size() - 4096, arena.size(), 0));
        std::memset(arena.data(), i + 1, arena.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  fresh_memory_is_zero_and_goes_back();
  taken_memory_is_cleared_as_it_is_used();
  uncleared_memory_is_as_it_was();
  other_reservations_are_left();
  little_is_kept();
  large_memory_is_lent();
  too_large_to_be_lent();
  renewal_is_short();
  from_threads();
}
