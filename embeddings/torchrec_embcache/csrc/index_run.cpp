#include "index_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "crc32c.h"
#include "error.h"

namespace embcache {
namespace {

constexpr uint64_t kReadPages = 256;

}  // namespace

std::string IndexRun::path(const std::string& folder, uint64_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "/index-%08" PRIu64 ".run", number);
  return folder + name;
}

std::vector<uint64_t> IndexRun::list(const std::string& folder) {
  std::vector<uint64_t> numbers;
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  if (open == nullptr && errno == ENOENT) return numbers;  // a new store
  if (open == nullptr) throw_system_error("list", folder, errno);
  while (const dirent* entry = ::readdir(open.get())) {
    uint64_t number;
    if (std::sscanf(entry->d_name, "index-%" SCNu64 ".run", &number) == 1 &&
        path("", number) == std::string("/") + entry->d_name) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

IndexRun::IndexRun(File file, uint64_t number, uint64_t room)
    : file_(std::move(file)), number_(number), room_(room), filter_(room), starts_(kPartitions + 1) {
  file_.advise_random();
}

std::unique_ptr<IndexRun> IndexRun::create(const std::string& folder, uint64_t number, uint64_t room) {
  File file(path(folder, number), O_RDWR | O_CREAT | O_TRUNC);
  return std::unique_ptr<IndexRun>(new IndexRun(std::move(file), number, room));
}

std::unique_ptr<IndexRun> IndexRun::open(const std::string& folder, const Seal& seal) {
  if (::access(path(folder, seal.number).c_str(), R_OK) != 0) return nullptr;
  File file(path(folder, seal.number), O_RDONLY);
  std::unique_ptr<IndexRun> run(new IndexRun(std::move(file), seal.number, seal.room));
  const auto at = static_cast<int64_t>((seal.entries + kPageEntries - 1) / kPageEntries * kPageBytes);
  const size_t starts_bytes = run->starts_.size() * sizeof(uint64_t);
  if (run->file_.read_at(run->starts_.data(), starts_bytes, at) != starts_bytes) return nullptr;
  const int64_t filter_at = at + static_cast<int64_t>(starts_bytes);
  if (run->file_.read_at(run->filter_.data(), run->filter_.bytes(), filter_at) != run->filter_.bytes()) return nullptr;
  const uint32_t crc = crc32c(crc32c(0, run->starts_.data(), starts_bytes), run->filter_.data(), run->filter_.bytes());
  if (crc != seal.checksum || run->size() != seal.entries) return nullptr;
  run->added_ = run->written_ = seal.entries;
  run->seal_ = seal;
  return run;
}

IndexRun::Seal IndexRun::seal() {
  if (seal_.number != 0) return seal_;
  const auto at = static_cast<int64_t>(pages() * kPageBytes);
  const size_t starts_bytes = starts_.size() * sizeof(uint64_t);
  file_.write_at(starts_.data(), starts_bytes, at);
  file_.write_at(filter_.data(), filter_.bytes(), at + static_cast<int64_t>(starts_bytes));
  file_.sync();
  const uint32_t crc = crc32c(crc32c(0, starts_.data(), starts_bytes), filter_.data(), filter_.bytes());
  seal_ = {number_, size(), room_, crc};
  return seal_;
}

int64_t IndexRun::bytes() const { return static_cast<int64_t>(starts_.size() * sizeof(uint64_t) + filter_.bytes()); }

int64_t IndexRun::disk_bytes() const { return file_.size(); }

uint32_t IndexRun::page_checksum(const void* page, uint64_t number) const {
  const uint64_t place[2] = {number_, number};
  return crc32c(crc32c(0, place, sizeof place), page, kPageEntries * sizeof(uint64_t));
}

void IndexRun::throw_corrupt(uint64_t page) const {
  throw StoreError(Fault::kCorrupt, file_.path() + ": page " + std::to_string(page) + " at byte " +
                                        std::to_string(page * kPageBytes) +
                                        " is damaged (checksum); close the store and delete this file: the next "
                                        "opening makes the index from the rows");
}

void IndexRun::load(uint64_t number, Page& page) const {
  if (page.number == number) return;
  page.number = UINT64_MAX;
  const size_t got = file_.read_at(page.words, kPageBytes, static_cast<int64_t>(number * kPageBytes));
  if (got != kPageBytes || page.words[kPageEntries] != page_checksum(page.words, number)) throw_corrupt(number);
  page.number = number;
}

uint64_t IndexRun::lower_bound(const Page& page, uint64_t from, uint64_t end, uint64_t entry) {
  const uint64_t first = page.number * kPageEntries;
  const uint64_t* begin = page.words + (from - first);
  const uint64_t* stop = page.words + (std::min(end, first + kPageEntries) - first);
  return first + static_cast<uint64_t>(std::lower_bound(begin, stop, entry) - page.words);
}

const std::vector<uint64_t>& IndexRun::Reader::partition(uint32_t number) {
  const uint64_t begin = run_.starts_[number];
  const uint64_t end = run_.starts_[number + 1];
  entries_.clear();
  for (uint64_t k = begin; k < end;) {
    const uint64_t page = k / kPageEntries;
    if (page < first_page_ || page >= end_page_) {
      const uint64_t some = std::min(kReadPages, run_.pages() - page);
      pages_.resize(some * kPageBytes);
      end_page_ = 0;
      const size_t got = run_.file_.read_at(pages_.data(), pages_.size(), static_cast<int64_t>(page * kPageBytes));
      for (uint64_t p = 0; p < some; ++p) {
        uint64_t stored;
        const unsigned char* bytes = pages_.data() + p * kPageBytes;
        std::memcpy(&stored, bytes + kPageEntries * sizeof(uint64_t), sizeof stored);
        if (got < (p + 1) * kPageBytes || stored != run_.page_checksum(bytes, page + p)) run_.throw_corrupt(page + p);
      }
      first_page_ = page;
      end_page_ = page + some;
    }
    const uint64_t some = std::min(end - k, kPageEntries - k % kPageEntries);
    const size_t at = entries_.size();
    entries_.resize(at + some);
    std::memcpy(entries_.data() + at,
                pages_.data() + (page - first_page_) * kPageBytes + k % kPageEntries * sizeof(uint64_t),
                some * sizeof(uint64_t));
    k += some;
  }
  return entries_;
}

void IndexRun::write(bool last) {
  const size_t count = last ? pending_.size() : pending_.size() / kPageEntries * kPageEntries;
  if (count == 0) return;
  const uint64_t first = written_ / kPageEntries;
  const size_t pages = (count + kPageEntries - 1) / kPageEntries;
  std::vector<uint64_t> words(pages * (kPageEntries + 1), UINT64_MAX);
  for (size_t p = 0; p < pages; ++p) {
    uint64_t* page = words.data() + p * (kPageEntries + 1);
    const size_t some = std::min(kPageEntries, count - p * kPageEntries);
    std::memcpy(page, pending_.data() + p * kPageEntries, some * sizeof(uint64_t));
    page[kPageEntries] = page_checksum(page, first + p);
  }
  file_.write_at(words.data(), words.size() * sizeof(uint64_t), static_cast<int64_t>(first * kPageBytes));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  written_ += count;
  if (last) std::vector<uint64_t>().swap(pending_);
}

uint32_t IndexRun::written_partitions(uint32_t ended) const {
  const auto first = starts_.begin();
  return static_cast<uint32_t>(std::upper_bound(first, first + ended + 1, written_) - first) - 1;
}

}  // namespace embcache
