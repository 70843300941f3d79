// Which of the bytes that the cores ask for come from or go to HBM, for TWIN_COUNTS_L2=BYTES: a cache of so many bytes
// in lines of 512, of which the one that was longest unused gives way. It is empty when a launch starts, and what is
// written in it goes to HBM at the end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace twin {

constexpr uint64_t kL2Line = 512;

struct L2Access {
  uint64_t line;  // the first one
  uint32_t lines;
  uint32_t barrier : 30;  // how many this core has passed
  uint32_t read : 1;
  uint32_t write : 1;  // whole lines are written without being read; atomic sums do both
};

// How far a core has come.
struct L2Place {
  std::size_t requests = 0;
  std::size_t waits = 0;
};

// Cores that have set a flag for each other, and where each did.
struct L2Meeting {
  struct Member {
    std::size_t core;  // among those that are served together
    L2Place place;
  };
  std::vector<Member> members;
};

// What one core asks for, in order, and which flags it waits for in between.
class L2Requests {
 public:
  struct Wait {
    std::size_t before;  // this request
    std::shared_ptr<const L2Meeting> meeting;
  };

  void Clear();
  void Add(const void* address, uint64_t bytes, bool read, bool write, uint64_t barrier);

  // Where the core is. A later request is not joined to earlier ones.
  L2Place Mark();
  // Later requests come after all that the members of the meeting have asked for before it.
  void WaitFor(std::shared_ptr<const L2Meeting> meeting) { waits.push_back({Mark().requests, std::move(meeting)}); }

  std::vector<L2Access> all;
  std::vector<Wait> waits;

 private:
  std::size_t marked_ = 0;
};

class L2Cache {
 public:
  explicit L2Cache(uint64_t bytes) : capacity_(bytes / kL2Line) {}

  // What cores ask for at the same time. Between two barriers each takes a turn of 64 KiB, unless it waits for a flag.
  // False: all wait for each other, as those of a launch that has run cannot.
  [[nodiscard]] bool Serve(const std::vector<const L2Requests*>& cores);
  void Finish();

  uint64_t bytesRead = 0;  // of HBM
  uint64_t bytesWritten = 0;

 private:
  struct Line {
    uint64_t number;
    bool dirty;
    uint32_t before;  // neighbours by last use
    uint32_t after;
  };
  void Touch(uint64_t number, bool read, bool write);
  void Unlink(uint32_t at);
  void PutLast(uint32_t at);

  static constexpr uint32_t kNone = ~0u;
  uint64_t capacity_;
  std::vector<Line> lines_;
  std::unordered_map<uint64_t, uint32_t> places_;
  uint32_t first_ = kNone;
  uint32_t last_ = kNone;
};

}  // namespace twin
