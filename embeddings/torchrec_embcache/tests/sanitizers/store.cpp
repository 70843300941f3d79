// One thread writes, erases and flushes; others read, scan and measure, while the index is merged and slabs are
// compacted. Every row that a reader gets is its id's own, whole, and ids that are never erased are always there.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "row_store.h"

using embcache::Column;
using embcache::RowStore;

// A check that stays in optimised builds.
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (false)

namespace {

constexpr int64_t kIds = 600;
constexpr int64_t kStaying = 200;  // the first of them
constexpr int64_t kWords = 4;      // of a row: its id, and three times the same version
constexpr int kRounds = 6;

struct Rows {
  explicit Rows(int64_t room) : ids(room), words(room * kWords), found(room) {}
  std::vector<Column> columns() { return {{reinterpret_cast<unsigned char*>(words.data()), kWords * sizeof(int64_t)}}; }
  void check(int64_t row) const {
    const int64_t* at = words.data() + row * kWords;
    CHECK(at[0] == ids[row] && at[1] == at[2] && at[2] == at[3]);
  }

  std::vector<int64_t> ids;
  std::vector<int64_t> words;
  std::vector<unsigned char> found;
};

void write(RowStore& store, int64_t first, int64_t end, int64_t version) {
  Rows rows(end - first);
  for (int64_t k = 0; k < end - first; ++k) {
    rows.ids[k] = rows.words[k * kWords] = first + k;
    for (int64_t word = 1; word < kWords; ++word) rows.words[k * kWords + word] = version;
  }
  store.write(rows.ids.data(), end - first, rows.columns());
}

void read(RowStore& store, const std::atomic<bool>& done) {
  Rows rows(kIds);
  for (int64_t k = 0; k < kIds; ++k) rows.ids[k] = k;
  while (!done.load()) {
    store.read(rows.ids.data(), kIds, rows.columns(), rows.found.data());
    for (int64_t k = 0; k < kIds; ++k) {
      CHECK(rows.found[k] != 0 || k >= kStaying);
      if (rows.found[k] != 0) rows.check(k);
    }
  }
}

void scan(RowStore& store, const std::atomic<bool>& done) {
  Rows rows(100);
  while (!done.load()) {
    std::vector<bool> seen(kIds);
    RowStore::Cursor cursor;
    while (const int64_t filled = store.scan(&cursor, 100, rows.ids.data(), rows.columns())) {
      for (int64_t k = 0; k < filled; ++k) {
        rows.check(k);
        seen[rows.ids[k]] = true;
      }
    }
    for (int64_t k = 0; k < kStaying; ++k) CHECK(seen[k]);
    const embcache::Stats stats = store.stats();
    CHECK(stats.rows >= kStaying && stats.rows <= kIds && stats.records >= stats.rows && stats.bytes_written > 0);
  }
}

}  // namespace

int main(int, char** arguments) {
  embcache::Options options;
  options.folder = arguments[1];
  options.row_bytes = kWords * sizeof(int64_t);
  options.slab_bytes = 16 * 1024;
  options.index_entries = 32;
  options.io_threads = 3;
  std::filesystem::create_directories(options.folder);
  RowStore store(options);
  write(store, 0, kIds, 0);
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int k = 0; k < 2; ++k) others.emplace_back([&] { read(store, done); });
  others.emplace_back([&] { scan(store, done); });
  for (int round = 1; round <= kRounds; ++round) {
    for (int64_t first = 0; first < kIds; first += 100) write(store, first, first + 100, round);
    std::vector<int64_t> gone;
    for (int64_t id = kStaying + round % 3; id < kIds; id += 3) gone.push_back(id);
    store.erase(gone.data(), static_cast<int64_t>(gone.size()));
    store.flush(round % 8 == 0);
  }
  done.store(true);
  for (std::thread& other : others) other.join();
}
