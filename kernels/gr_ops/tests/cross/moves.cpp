// Moves of segments without PyTorch, against plain loops: for a processor that is emulated.
//
//   aarch64-linux-gnu-g++ -std=c++17 -O3 -static -Ikernels/gr_ops/csrc
//       kernels/gr_ops/tests/cross/moves.cpp kernels/gr_ops/csrc/common/moves.cpp -o moves
//   qemu-aarch64 ./moves
#include "common/moves.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using namespace gr_ops;

std::mt19937 draw(0);
long compared = 0;
long wrong = 0;

void expect(const std::vector<char>& got, const std::vector<char>& wanted, const char* what, int64_t longest) {
  ++compared;
  if (!std::equal(wanted.begin(), wanted.end(), got.begin()) && ++wrong <= 20) {
    std::printf("%s with rows up to %ld is wrong\n", what, static_cast<long>(longest));
  }
}

std::vector<char> random_bytes(int64_t count) {
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(draw());
  return bytes;
}

void test(int64_t longest, int64_t row_bytes) {
  const int64_t count = 150;
  std::vector<int64_t> starts = {0};
  for (int64_t p = 0; p < count; ++p) {
    const int64_t length = p == 0 ? longest : p % 40 < 5 ? 0 : static_cast<int64_t>(draw()) % (longest + 1);
    starts.push_back(starts.back() + std::abs(length));
  }
  const int64_t total = starts.back();
  const std::vector<char> dense = random_bytes(count * longest * row_bytes);
  std::vector<int64_t> sources(count);
  for (int64_t& source : sources) source = (static_cast<int64_t>(draw() % count)) * longest;

  for (const bool by_sources : {false, true}) {
    std::vector<char> wanted;
    for (int64_t p = 0; p < count; ++p) {
      const char* from = dense.data() + (by_sources ? sources[p] : p * longest) * row_bytes;
      wanted.insert(wanted.end(), from, from + (starts[p + 1] - starts[p]) * row_bytes);
    }
    // Cut anywhere: what one part spills over stays inside of it.
    for (const int64_t cut : {int64_t{0}, total / 3, total / 2 + 1, total}) {
      std::vector<char> moved(total * row_bytes, 77);
      const Segments segments{dense.data(), static_cast<int64_t>(dense.size()),
                              moved.data(), by_sources ? sources.data() : nullptr,
                              longest,      starts.data(),
                              count,        row_bytes};
      segments.move(cut, total);
      segments.move(0, cut);
      expect(moved, wanted, by_sources ? "segments from anywhere" : "segments of a dense tensor", longest);
    }
  }

  const int64_t line = longest * row_bytes;
  for (const int64_t bits : {int64_t{0}, int64_t{0x55}}) {
    const Padding padding(bits, 1);
    std::vector<char> lines(count * line + kSpill);
    std::vector<char> wanted(count * line, static_cast<char>(bits));
    for (int64_t p = 0; p < count; ++p) {
      const int64_t stored = std::min((starts[p + 1] - starts[p]) * row_bytes, line);
      std::vector<char> source = random_bytes(stored + kSpill);
      std::copy_n(source.data(), stored, wanted.data() + p * line);
      pad_line_spilling(lines.data() + p * line, line, source.data(), stored, padding);
    }
    expect(lines, wanted, "padded lines", longest);
  }

  for (int64_t bytes = 0; bytes < 700; bytes += 13) {
    const std::vector<char> source = random_bytes(bytes + kSpill);
    std::vector<char> copied(bytes + kSpill);
    copy_spilling(copied.data(), source.data(), bytes);
    expect(copied, {source.begin(), source.begin() + bytes}, "a copy", bytes);
  }
}

}  // namespace

int main() {
  for (const int64_t longest : {1, 3, 10, 40, 130}) {
    for (const int64_t row_bytes : {1, 2, 6, 8, 32, 120, 256}) test(longest, row_bytes);
  }
  std::printf("%ld moves compared, %ld wrong\n", compared, wrong);
  return wrong == 0 ? 0 : 1;
}
