#include "sampled_softmax/places.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>

namespace gr_ops::sampled_softmax {
namespace {

constexpr int64_t kMostTokens = 512;  // of a part: few, so that threads share a large group; many, as each has sums

std::vector<int64_t> in_order_of(const char* op, const int64_t* place, int64_t count, int64_t cells,
                                 std::vector<int64_t>& cell_of) {
  std::vector<int64_t> token_of(cells, -1);
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK(place[i] >= 0 && place[i] < cells, op, ": place[", i, "]=", place[i], " out of range; expected 0 to ",
                cells - 1);
    TORCH_CHECK(token_of[place[i]] < 0, op, ": place[", i, "]=", place[i], " is that of token ", token_of[place[i]],
                " too; expected places that differ");
    token_of[place[i]] = i;
  }
  std::vector<int64_t> tokens;
  tokens.reserve(count);
  for (int64_t cell = 0; cell < cells; ++cell) {
    if (token_of[cell] < 0) continue;
    tokens.push_back(token_of[cell]);
    cell_of.push_back(cell);
  }
  return tokens;
}

void check_id(const char* op, const char* name, int64_t id, int64_t rows) {
  TORCH_CHECK(id >= 0 && id < rows, op, ": ", name, " holds ", id, "; expected 0 <= id < ", rows,
              ", the rows there are");
}

}  // namespace

Parts::Parts(const char* op, int64_t count, int64_t groups, int64_t group, const OptionalTensor& place) {
  std::vector<int64_t> cell_of;
  if (place.has_value()) {
    const at::Tensor places = place->contiguous();
    tokens = in_order_of(op, places.const_data_ptr<int64_t>(), count, groups * group, cell_of);
  } else {
    tokens.resize(count);
    std::iota(tokens.begin(), tokens.end(), int64_t{0});
  }
  for (int64_t first = 0; first < count;) {
    const int64_t of_group = (cell_of.empty() ? first : cell_of[first]) / group;
    int64_t last = first;
    const int64_t end = std::min(count, first + kMostTokens);
    while (last < end && (cell_of.empty() ? last : cell_of[last]) / group == of_group) ++last;
    parts.push_back({of_group, first, last});
    first = last;
  }
}

Occurrences::Occurrences(const char* op, int64_t rows, const at::Tensor& targets, const at::Tensor& negatives,
                         const std::vector<Part>& parts)
    : starts(rows + 1) {
  const auto *target = targets.const_data_ptr<int64_t>(), *ids = negatives.const_data_ptr<int64_t>();
  const int64_t tokens = targets.numel(), width = negatives.size(1);
  const auto for_each = [&](const auto& body) {
    for (int64_t i = 0; i < tokens; ++i) body("targets", target[i], i);
    for (size_t p = 0; p < parts.size(); ++p) {
      const int64_t* of_group = ids + parts[p].group * width;
      const int64_t first = tokens + static_cast<int64_t>(p) * width;
      for (int64_t r = 0; r < width; ++r) body("negatives", of_group[r], first + r);
    }
  };
  for_each([&](const char* name, int64_t id, int64_t) {
    check_id(op, name, id, rows);
    ++starts[id];
  });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());  // where each row's entries end
  entries.resize(starts.back());
  // Backwards, so that each row's entries come out in order and its end becomes its start.
  for (size_t p = parts.size(); p-- > 0;) {
    const int64_t* of_group = ids + parts[p].group * width;
    const int64_t first = tokens + static_cast<int64_t>(p) * width;
    for (int64_t r = width; r-- > 0;) entries[--starts[of_group[r]]] = first + r;
  }
  for (int64_t i = tokens; i-- > 0;) entries[--starts[target[i]]] = i;
}

}  // namespace gr_ops::sampled_softmax
