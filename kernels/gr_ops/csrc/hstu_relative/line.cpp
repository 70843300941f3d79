#include "hstu_relative/line.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gr_ops::hstu_relative {
namespace {

// As the kernels calculate it (hstu/cpu/near_buckets.h). It never falls as the seconds rise.
int bucket_on_line(float seconds, float slope, float start) {
  int32_t bits;
  std::memcpy(&bits, &seconds, sizeof(bits));
  const float at = std::fma(static_cast<float>(bits), slope, start);
  return std::max(static_cast<int>(at), 0);
}

double bits_of(float seconds) {
  int32_t bits;
  std::memcpy(&bits, &seconds, sizeof(bits));
  return bits;
}

}  // namespace

void draw_line(const std::vector<float>& edges, int64_t buckets, hstu::RelativeBias& bias) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max() / 2;
  const int64_t end = std::min<int64_t>(buckets, hstu::kNearBuckets);
  int64_t last = end - 1;  // with an edge that seconds of 32 bits reach
  while (last > 0 && edges[last] > static_cast<float>(most)) --last;
  const int64_t middle = last / 2;
  if (middle == 0 || edges[middle] == edges[last]) return;
  const double slope = static_cast<double>(last - middle) / (bits_of(edges[last]) - bits_of(edges[middle]));
  // As high as it can be: just below its edge no bucket is reached.
  double start = std::numeric_limits<double>::max();
  for (int64_t bucket = 1; bucket <= last; ++bucket) {
    if (edges[bucket] > 1) start = std::min(start, bucket - slope * bits_of(edges[bucket]));
  }
  bias.slope = static_cast<float>(slope);
  bias.start = static_cast<float>(start - 1e-3);  // more than what float rounds
  const auto on_line = [&](float seconds) { return bucket_on_line(seconds, bias.slope, bias.start); };
  for (int64_t bucket = 1; bucket <= last; ++bucket) {
    const float edge = edges[bucket];
    if (on_line(edge) < bucket - 1 || (edge > 1 && on_line(std::nextafter(edge, 0.0f)) > bucket - 1)) return;
  }
  // The line goes on beyond the table, and the table beyond the entries that are looked at.
  int32_t low = 0, high = most;
  if (end < buckets && edges[end] <= static_cast<float>(most)) high = static_cast<int32_t>(edges[end]) - 1;
  while (low < high) {
    const int32_t seconds = low + (high - low + 1) / 2;
    if (on_line(static_cast<float>(seconds)) <= std::min<int64_t>(last, hstu::kNearBuckets - 2)) {
      low = seconds;
    } else {
      high = seconds - 1;
    }
  }
  bias.near = low;
}

}  // namespace gr_ops::hstu_relative
