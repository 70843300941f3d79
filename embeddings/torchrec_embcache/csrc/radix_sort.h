#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace embcache {

// Sorts by the bits [low, high) of key(item), a 64-bit word; stable. A comparison of random keys is mispredicted every
// other time, and a batch has a dozen of them for each row.
template <typename Item, typename Key>
void radix_sort(std::vector<Item>& items, int low, int high, const Key& key) {
  constexpr int kDigit = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kDigit) - 1;
  constexpr size_t kFew = 128;  // that are compared in less time than the counters are cleared
  if (items.size() < kFew) {
    const uint64_t above = high < 64 ? (uint64_t{1} << high) - 1 : UINT64_MAX;
    const auto part = [&](const Item& item) { return (key(item) & above) >> low; };
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) { return part(a) < part(b); });
    return;
  }
  std::vector<Item> sorted(items.size());
  for (; low < high; low += kDigit) {
    const uint64_t mask = high - low < kDigit ? (uint64_t{1} << (high - low)) - 1 : kMask;
    std::array<size_t, kMask + 1> place{};
    for (const Item& item : items) ++place[key(item) >> low & mask];
    size_t next = 0;
    for (size_t& at : place) at = std::exchange(next, next + at);
    for (const Item& item : items) sorted[place[key(item) >> low & mask]++] = item;
    items.swap(sorted);
  }
}

}  // namespace embcache
