#include <cstdio>
#include <cstring>
#include <new>

#include "crc32c.h"
#include "id_counts.h"
#include "id_positions.h"
#include "row_store.h"

// The C interface that torchrec_embcache/store/library.py calls. It needs no torch and no Python, so one build serves
// all of them. 0 is success, else a Fault, and `message` (of kMessage bytes) says what.

using embcache::Column;
using embcache::Fault;
using embcache::RowStore;
using embcache::StoreError;

namespace {

constexpr size_t kMessage = 1024;

template <typename Body>
int guarded(char* message, const Body& body) {
  try {
    body();
    return 0;
  } catch (const StoreError& error) {
    std::snprintf(message, kMessage, "%s", error.what());
    return static_cast<int>(error.fault());
  } catch (const std::exception& error) {
    std::snprintf(message, kMessage, "%s", error.what());
    return static_cast<int>(Fault::kIo);
  }
}

std::vector<Column> columns_of(void* const* data, const uint32_t* widths, int count) {
  std::vector<Column> columns(static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) columns[k] = {static_cast<unsigned char*>(data[k]), widths[k]};
  return columns;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int embcache_open(const char* folder, uint32_t row_bytes, int64_t slab_bytes, int64_t index_entries, int io_threads,
                  int read_only, int repair, RowStore** store, char* message) {
  return guarded(message, [&] {
    embcache::Options options;
    options.folder = folder;
    options.row_bytes = row_bytes;
    options.slab_bytes = slab_bytes;
    options.index_entries = index_entries;
    options.io_threads = io_threads;
    options.read_only = read_only != 0;
    options.repair = repair != 0;
    *store = new RowStore(options);
  });
}

void embcache_close(RowStore* store) { delete store; }

int embcache_write(RowStore* store, const int64_t* ids, int64_t count, void* const* data, const uint32_t* widths,
                   int columns, char* message) {
  return guarded(message, [&] { store->write(ids, count, columns_of(data, widths, columns)); });
}

int embcache_read(RowStore* store, const int64_t* ids, int64_t count, void* const* data, const uint32_t* widths,
                  int columns, unsigned char* found, char* message) {
  return guarded(message, [&] { store->read(ids, count, columns_of(data, widths, columns), found); });
}

int embcache_erase(RowStore* store, const int64_t* ids, int64_t count, int64_t* erased, char* message) {
  return guarded(message, [&] { *erased = store->erase(ids, count); });
}

int embcache_scan(RowStore* store, uint64_t* sequence, uint32_t* record, int64_t capacity, int64_t* ids,
                  void* const* data, const uint32_t* widths, int columns, int64_t* filled, char* message) {
  return guarded(message, [&] {
    RowStore::Cursor cursor{*sequence, *record};
    *filled = store->scan(&cursor, capacity, ids, columns_of(data, widths, columns));
    *sequence = cursor.sequence;
    *record = cursor.record;
  });
}

int embcache_flush(RowStore* store, int snapshot, char* message) {
  return guarded(message, [&] { store->flush(snapshot != 0); });
}

void embcache_stats(RowStore* store, int64_t* values) {
  const embcache::Stats stats = store->stats();
  std::memcpy(values, &stats, sizeof stats);
}

embcache::IdCounts* embcache_counts_new() { return new (std::nothrow) embcache::IdCounts; }

void embcache_counts_delete(embcache::IdCounts* counts) { delete counts; }

// -1: no memory, here and below.
int64_t embcache_counts_add(embcache::IdCounts* counts, const int64_t* ids, int64_t count) {
  try {
    return counts->add(ids, count);
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

int64_t embcache_counts_remove(embcache::IdCounts* counts, const int64_t* ids, int64_t count) {
  return counts->remove(ids, count);
}

int64_t embcache_counts_contains(embcache::IdCounts* counts, const int64_t* ids, int64_t count, unsigned char* there) {
  return counts->contains(ids, count, there);
}

// Null: no memory.
embcache::IdPositions* embcache_positions_new(const int64_t* ids, int64_t count) {
  try {
    return new embcache::IdPositions(ids, count);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void embcache_positions_delete(embcache::IdPositions* positions) { delete positions; }

void embcache_positions_find(const embcache::IdPositions* positions, const int64_t* ids, int64_t count, int64_t* out) {
  positions->find(ids, count, out);
}

int64_t embcache_distinct(const int64_t* ids, int64_t count, int64_t* out) {
  try {
    return embcache::distinct_ids(ids, count, out);
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

uint32_t embcache_crc32c(const void* data, size_t size, int portable) {
  return portable != 0 ? embcache::crc32c_portable(0, data, size) : embcache::crc32c(0, data, size);
}
#pragma GCC visibility pop
}
