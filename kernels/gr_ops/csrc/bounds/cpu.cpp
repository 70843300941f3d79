#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <limits>
#include <mutex>
#include <string>

#include "bounds/checks.h"
#include "common/operators.h"
#include "common/override.h"
#include "common/parallel.h"

// Two steps. The offsets first: once they are in order the indices of a table are one segment, and the second step is
// a comparison of each with one limit, vectorised and shared by the threads.
namespace gr_ops::cpu {
namespace {

struct Violations {
  int64_t count = 0;
  std::string first;  // what is wrong with the first, in words
};

struct Layout {
  std::vector<int64_t> bags;  // first bag of each table, [T + 1]
  std::vector<int64_t> rows;  // of each table

  int64_t table_of(int64_t bag) const { return std::upper_bound(bags.begin(), bags.end(), bag) - bags.begin() - 1; }
};

std::vector<int64_t> longs_of(const at::Tensor& tensor) {
  const at::Tensor longs = tensor.to(at::kLong).contiguous();
  const auto* data = longs.const_data_ptr<int64_t>();
  return {data, data + longs.numel()};
}

// True if 0 <= offsets[0] <= offsets[1] <= ... == count. The sign bits tell, so that the loop is vectorised.
template <typename Offset>
bool offsets_are_valid(const Offset* offsets, int64_t bags, int64_t count) {
  using Unsigned = std::make_unsigned_t<Offset>;
  Unsigned signs = static_cast<Unsigned>(offsets[0]);
  for (int64_t bag = 0; bag < bags; ++bag) {
    const auto end = static_cast<Unsigned>(offsets[bag + 1]);
    signs |= end | (end - static_cast<Unsigned>(offsets[bag]));
  }
  return static_cast<Offset>(signs) >= 0 && static_cast<int64_t>(offsets[bags]) == count;
}

// repair: each start is raised to the end before it and each end is kept inside [start, count]. Otherwise raises.
template <typename Offset>
Violations check_offsets(const Layout& layout, Offset* offsets, int64_t bags, int64_t count, bool repair) {
  Violations found;
  const auto report = [&](const std::string& text) {
    TORCH_CHECK(repair, kBoundsOp, ": ", text);
    if (found.count++ == 0) found.first = text;
  };
  if (!repair && offsets[0] != 0) report(first_offset_violation(offsets[0]));
  if (offsets_are_valid(offsets, bags, count)) return found;

  if (static_cast<int64_t>(offsets[bags]) != count) {
    report(last_offset_violation(offsets[bags], count));
    offsets[bags] = static_cast<Offset>(count);
  }
  for (int64_t bag = 0; bag < bags; ++bag) {
    const int64_t start = offsets[bag];
    const int64_t end = offsets[bag + 1];
    if (start >= 0 && start <= end && end <= count) continue;
    const int64_t table = layout.table_of(bag);
    report(offset_violation(table, bag - layout.bags[table], start, end, count));
    const int64_t low = std::clamp<int64_t>(start, 0, count);
    offsets[bag] = static_cast<Offset>(low);
    offsets[bag + 1] = static_cast<Offset>(std::clamp(end, low, count));
  }
  return found;
}

constexpr int64_t kBlock = 1024;  // indices that are looked at together

// Calls bad(position) for the entries of indices[first, end) that are outside [-1, rows).
template <typename Index, typename Bad>
void for_bad_indices(const Index* indices, int64_t first, int64_t end, int64_t rows, const Bad& bad) {
  using Unsigned = std::make_unsigned_t<Index>;
  const auto limit = static_cast<Unsigned>(std::clamp<int64_t>(rows, 0, std::numeric_limits<Index>::max()));
  const auto sign = [&](int64_t i) {
    const Unsigned next = static_cast<Unsigned>(indices[i]) + Unsigned{1};
    return next | (limit - next);
  };
  for (int64_t block = first; block < end; block += kBlock) {
    const int64_t stop = std::min(block + kBlock, end);
    Unsigned signs = 0;
    for (int64_t i = block; i < stop; ++i) signs |= sign(i);
    for (int64_t i = block; static_cast<Index>(signs) < 0 && i < stop; ++i) {
      if (static_cast<Index>(sign(i)) < 0) bad(i);
    }
  }
}

// repair: what is out of range becomes 0. Otherwise nothing is written. The offsets are in order.
template <typename Index, typename Offset>
Violations check_entries(const Layout& layout, const Offset* offsets, Index* indices, int64_t count, bool repair) {
  std::vector<int64_t> starts;  // the first index of each table
  for (const int64_t bag : layout.bags) starts.push_back(offsets[bag]);
  std::mutex mutex;
  int64_t total = 0;
  int64_t first_position = count;
  int64_t first_table = 0;
  int64_t first_value = 0;
  parallel_rows(count, sizeof(Index), [&](int64_t first, int64_t end) {
    int64_t own = 0;
    int64_t position = count;
    int64_t table_of_first = 0;
    int64_t value_of_first = 0;
    int64_t table = std::max<int64_t>(0, std::upper_bound(starts.begin(), starts.end(), first) - starts.begin() - 1);
    for (; table < static_cast<int64_t>(layout.rows.size()) && starts[table] < end; ++table) {
      const int64_t low = std::max(first, starts[table]);
      for_bad_indices(indices, low, std::min(end, starts[table + 1]), layout.rows[table], [&](int64_t i) {
        if (own++ == 0) {
          position = i;
          table_of_first = table;
          value_of_first = indices[i];
        }
        if (repair) indices[i] = 0;
      });
    }
    const std::lock_guard<std::mutex> lock(mutex);
    total += own;
    if (position < first_position) {
      first_position = position;
      first_table = table_of_first;
      first_value = value_of_first;
    }
  });
  Violations found;
  found.count = total;
  if (total > 0) {
    const Offset* begin = offsets + layout.bags[first_table];
    const Offset* end = offsets + layout.bags[first_table + 1] + 1;
    const int64_t batch = std::upper_bound(begin, end, static_cast<Offset>(first_position)) - begin - 1;
    found.first = index_violation(first_table, batch, first_position, first_value, layout.rows[first_table]);
  }
  return found;
}

template <typename Index, typename Offset>
Violations check_all(const Layout& layout, Index* indices, int64_t count, Offset* offsets, int64_t bags, bool repair) {
  Violations found = check_offsets(layout, offsets, bags, count, repair);
  const Violations entries = check_entries(layout, offsets, indices, count, repair);
  TORCH_CHECK(repair || entries.count == 0, kBoundsOp, ": ", entries.first);
  if (found.count == 0) found.first = entries.first;
  found.count += entries.count;
  return found;
}

template <typename Index>
Violations check_all(const Layout& layout, const at::Tensor& indices, const at::Tensor& offsets, bool repair) {
  auto* entries = indices.mutable_data_ptr<Index>();
  const int64_t count = indices.numel();
  const int64_t bags = offsets.numel() - 1;
  if (offsets.scalar_type() == at::kInt) {
    return check_all(layout, entries, count, offsets.mutable_data_ptr<int32_t>(), bags, repair);
  }
  return check_all(layout, entries, count, offsets.mutable_data_ptr<int64_t>(), bags, repair);
}

void bounds_check_indices(const at::Tensor& rows_per_table, const at::Tensor& indices, const at::Tensor& offsets,
                          int64_t bounds_check_mode, const at::Tensor& warning,
                          const std::optional<at::Tensor>& weights, const std::optional<at::Tensor>& batch_offsets,
                          int64_t max_batch, const std::optional<at::Tensor>& /*b_t_map*/, int64_t /*info_bits*/,
                          int64_t /*info_mask*/, int64_t version) {
  const BoundsMode mode = bounds_mode(bounds_check_mode, version);
  if (mode == BoundsMode::none) return;
  check_bounds_arguments({rows_per_table, indices, offsets, warning, weights, batch_offsets, max_batch});
  const Layout layout{first_bags(rows_per_table, offsets, batch_offsets), longs_of(rows_per_table)};
  const bool repair = mode != BoundsMode::fatal;
  const Violations found = indices.scalar_type() == at::kInt ? check_all<int32_t>(layout, indices, offsets, repair)
                                                             : check_all<int64_t>(layout, indices, offsets, repair);
  if (mode != BoundsMode::warning) return;
  warning.mutable_data_ptr<int64_t>()[0] = found.count;
  if (found.count > 0) {
    TORCH_WARN(kBoundsOp, ": ", found.count, " violations were repaired, the first: ", found.first);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { m.impl(kBoundsOp, &bounds_check_indices); }
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) { FbgemmRegistrar(m).impl(kBoundsOp, forward_to_mxrec()); }

}  // namespace gr_ops::cpu
