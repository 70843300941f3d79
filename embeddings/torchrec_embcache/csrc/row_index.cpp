#include "row_index.h"

#include <unistd.h>

#include <algorithm>

namespace embcache {
namespace {

constexpr int64_t kShare = 16;           // of all entries, one in so many may be in memory
constexpr size_t kMergeEntries = 65536;  // that are written at once
constexpr int64_t kProbes = 64;          // that are worth another thread

}  // namespace

RowIndex::RowIndex(std::string folder, int64_t memory_entries, bool read_only)
    : folder_(std::move(folder)), memory_entries_(std::max<int64_t>(1, memory_entries)), read_only_(read_only) {
  for (const uint64_t number : IndexRun::list(folder_)) next_number_ = std::max(next_number_, number + 1);
}

void RowIndex::find_in_runs(std::vector<Probe>& probes, IoPool& pool, std::vector<Hit>& hits) const {
  std::sort(probes.begin(), probes.end(), [](const Probe& a, const Probe& b) { return a.hash < b.hash; });
  std::mutex mutex;
  pool.run(static_cast<int64_t>(probes.size()), kProbes, [&](int64_t begin, int64_t end) {
    std::vector<Hit> found;
    IndexRun::Page page;
    const IndexRun* last = nullptr;
    for (int64_t k = begin; k < end; ++k) {
      const IndexRun* run = run_of(probes[k].hash);
      if (run != last) page.number = UINT64_MAX;
      last = run;
      run->find(probes[k].hash, page, [&](uint32_t row) { found.push_back({row, probes[k].position}); });
    }
    const std::lock_guard<std::mutex> lock(mutex);
    hits.insert(hits.end(), found.begin(), found.end());
  });
}

int64_t RowIndex::limit() const {
  const int64_t share = run_ == nullptr ? 0 : static_cast<int64_t>(run_->size()) / kShare;
  return std::max(memory_entries_, share);
}

// A merge is to end when the memory for the next one is half full.
bool RowIndex::is_behind(bool finish) const {
  if (finish) return true;
  const double due = 2.0 * static_cast<double>(active_.size()) / static_cast<double>(limit());
  return merge_->next == kPartitions || merge_->next < due * kPartitions;
}

std::unique_ptr<RowIndex::Merge> RowIndex::begin_merge() {
  const uint64_t room = static_cast<uint64_t>(active_.size()) + (run_ == nullptr ? 0 : run_->size());
  auto merge = std::make_unique<Merge>(IndexRun::create(folder_, next_number_, room), run_.get());
  ++next_number_;
  return merge;
}

void RowIndex::freeze(std::unique_ptr<Merge> merge) {
  std::swap(merge->frozen, active_);
  merge_ = std::move(merge);
}

void RowIndex::merge_some(const Live& live) {
  Merge& merge = *merge_;
  while (merge.next < kPartitions && merge.run->pending() < kMergeEntries) {
    merge_partition(merge.next, live);
    ++merge.next;
  }
  const bool last = merge.next == kPartitions;
  merge.run->write(last);
  merge.done = last;
}

void RowIndex::merge_partition(uint32_t number, const Live& live) {
  static const std::vector<uint64_t> kNone;
  Merge& merge = *merge_;
  const std::vector<uint64_t>& old = merge.reader == nullptr ? kNone : merge.reader->partition(number);
  const std::vector<uint64_t>& fresh = merge.frozen.partition(number);
  const auto take = [&](uint64_t entry) {
    if (live(row_of(entry))) merge.run->add(number, entry);
  };
  size_t k = 0;
  for (const uint64_t entry : fresh) {
    for (; k < old.size() && old[k] < entry; ++k) take(old[k]);
    if (k < old.size() && old[k] == entry) ++k;
    take(entry);
  }
  for (; k < old.size(); ++k) take(old[k]);
  merge.run->end_partition(number);
}

void RowIndex::publish() {
  Merge& merge = *merge_;
  const uint32_t visible = merge.run->written_partitions(merge.next);
  merge.frozen.drop(merge.visible, visible);
  if (run_ != nullptr) run_->drop_filter_before(visible);
  merge.visible = visible;
  if (!merge.done) return;
  const uint64_t before = run_ == nullptr ? 0 : run_->number();
  run_ = std::move(merge.run);
  merge_.reset();
  if (before != 0 && before != saved_) remove_file(before);
}

void RowIndex::remove_file(uint64_t number) const {
  if (!read_only_) ::unlink(IndexRun::path(folder_, number).c_str());
}

IndexRun::Seal RowIndex::seal() { return run_ == nullptr ? IndexRun::Seal{} : run_->seal(); }

void RowIndex::keep(const IndexRun::Seal& seal) {
  saved_ = seal.number;
  if (read_only_) return;
  for (const uint64_t number : IndexRun::list(folder_)) {
    if (number != saved_) remove_file(number);
  }
}

int64_t RowIndex::bytes() const {
  int64_t total = active_.bytes();
  if (run_ != nullptr) total += run_->bytes();
  if (merge_ != nullptr) total += merge_->frozen.bytes() + merge_->run->bytes();
  return total;
}

int64_t RowIndex::disk_bytes() const {
  return (run_ == nullptr ? 0 : run_->disk_bytes()) + (merge_ == nullptr ? 0 : merge_->run->disk_bytes());
}

void RowIndex::clear() {
  merge_.reset();
  run_.reset();
  active_ = MemoryIndex();
  saved_ = 0;
}

}  // namespace embcache
