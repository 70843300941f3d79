// Which of the bytes that the cores ask for come from or go to HBM, for TWIN_COUNTS_L2=BYTES: a cache of so many bytes
// in lines of 512, of which the one that was longest unused gives way. It is empty when a launch starts, and what is
// written in it goes to HBM at the end.
#pragma once
#include <cstdint>
#include <unordered_map>
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

// What one core asks for, in order.
class L2Requests {
 public:
  void Clear() { all.clear(); }
  void Add(const void* address, uint64_t bytes, bool read, bool write, uint64_t barrier);

  std::vector<L2Access> all;
};

class L2Cache {
 public:
  explicit L2Cache(uint64_t bytes) : capacity_(bytes / kL2Line) {}

  // What cores ask for at the same time. Between two barriers each takes a turn of 64 KiB.
  void Serve(const std::vector<const L2Requests*>& cores);
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
