#include "hstu/rows.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace gr_ops::hstu {
namespace {

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().to(at::kLong).contiguous();
  const int64_t* data = host.const_data_ptr<int64_t>();
  return {data, data + host.numel()};
}

void check_offsets(const char* op, const char* name, at::IntArrayRef offsets, const char* of, int64_t rows) {
  TORCH_CHECK(offsets[0] == 0, op, ": ", name, " must start at 0; expected ", name, "[0]=0, got ", offsets[0]);
  for (size_t i = 1; i < offsets.size(); ++i) {
    TORCH_CHECK(offsets[i] >= offsets[i - 1], op, ": ", name, " must be non-decreasing: ", name, "[", i,
                "]=", offsets[i], " < ", name, "[", i - 1, "]=", offsets[i - 1]);
    TORCH_CHECK(offsets[i] - offsets[i - 1] <= std::numeric_limits<int32_t>::max(), op, ": ", name,
                " has a too long row; expected at most 2^31 - 1 tokens, got ", offsets[i] - offsets[i - 1], " in row ",
                i - 1);
  }
  TORCH_CHECK(offsets.back() == rows, op, ": ", name, "[", offsets.size() - 1, "]=", offsets.back(), " but ", of,
              " has ", rows, " rows; expected ", rows, ", got ", offsets.back());
}

std::vector<int64_t> read_offsets(const char* op, const char* name, const at::Tensor& tensor, const char* of,
                                  int64_t rows) {
  std::vector<int64_t> offsets = values_of(tensor);
  check_offsets(op, name, offsets, of, rows);
  return offsets;
}

void read_offsets(std::vector<Row>& rows, const Problem& p, const Arguments& a) {
  if (!p.q_offsets.defined()) {
    for (int64_t b = 0; b < p.batch; ++b) rows[b] = {b * p.max_q, p.max_q, b * p.max_q, p.max_q, 0, 0, 0, 0};
    return;
  }
  const std::vector<int64_t> q = read_offsets(p.op, a.names.offsets, p.q_offsets, "q", p.q.size(0));
  const bool own_keys = a.offsets_k.defined();
  const std::vector<int64_t> k = own_keys ? read_offsets(p.op, a.names.offsets_k, p.k_offsets, "k", p.k.size(0)) : q;
  TORCH_CHECK(own_keys || q.back() == p.k.size(0), p.op, ": ", a.names.offsets, "[", q.size() - 1, "]=", q.back(),
              " but k has ", p.k.size(0), " rows; expected ", p.k.size(0), ", got ", q.back());
  for (int64_t b = 0; b < p.batch; ++b) rows[b] = {q[b], q[b + 1] - q[b], k[b], k[b + 1] - k[b], 0, 0, 0, 0};
}

void read_pages(std::vector<Row>& rows, const Problem& p) {
  if (!p.kv_cache.defined()) return;
  const int64_t pages = p.kv_cache.size(0);
  const int64_t page_size = p.kv_cache.size(2);
  const std::vector<int64_t> offsets =
      read_offsets(p.op, "page_offsets", p.page_offsets, "page_ids", p.page_ids.size(0));
  const std::vector<int64_t> ids = values_of(p.page_ids);
  const std::vector<int64_t> last = values_of(p.last_page_len);
  for (size_t i = 0; i < ids.size(); ++i) {
    TORCH_CHECK(ids[i] >= 0 && ids[i] < pages, p.op, ": page_ids[", i, "] is out of range; expected 0 <= id < ", pages,
                ", got ", ids[i]);
  }
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t count = offsets[b + 1] - offsets[b];
    rows[b].page_begin = offsets[b];
    if (count == 0) continue;
    TORCH_CHECK(last[b] >= 1 && last[b] <= page_size, p.op, ": last_page_len[", b,
                "] is out of range; expected 1 <= length <= ", page_size, ", got ", last[b]);
    rows[b].cached = (count - 1) * page_size + last[b];
  }
}

void read_counts(std::vector<Row>& rows, const Problem& p, const Arguments& a) {
  if (p.num_context.defined()) {
    const std::vector<int64_t> counts = values_of(p.num_context);
    for (int64_t b = 0; b < p.batch; ++b) rows[b].context = counts[b];
  }
  if (p.num_target.defined()) {
    const std::vector<int64_t> counts = values_of(p.num_target);
    for (int64_t b = 0; b < p.batch; ++b) rows[b].target = counts[b];
  }
  if (a.target_offsets.defined()) {
    const std::vector<int64_t> offsets = values_of(a.target_offsets);
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t count = offsets[b + 1] - offsets[b];
      TORCH_CHECK(!p.num_target.defined() || rows[b].target == count, p.op,
                  ": seq_offset_t and num_target disagree in row ", b, "; expected ", rows[b].target, ", got ", count);
      rows[b].target = count;
    }
  }
  for (int64_t b = 0; b < p.batch; ++b) {
    const Row& row = rows[b];
    TORCH_CHECK(row.context >= 0, p.op, ": num_context[", b, "] is negative; expected >= 0, got ", row.context);
    TORCH_CHECK(row.target >= 0, p.op, ": num_target[", b, "] is negative; expected >= 0, got ", row.target);
    TORCH_CHECK(row.context <= row.keys() && row.target <= row.keys() - row.context, p.op, ": num_context[", b,
                "] + num_target[", b, "] is too large; expected at most the ", row.keys(), " tokens of row ", b,
                ", got ", row.context, " + ", row.target);
  }
}

void check_longest(const Problem& p, const char* name, int64_t given, int64_t longest) {
  TORCH_CHECK(given == 0 || given >= longest, p.op, ": ", name, "=", given, " is smaller than the longest row (",
              longest, "); expected 0 or at least ", longest, ", got ", given);
}

void check_side(const Problem& p, const char* name, const at::Tensor& tensor, int64_t longest) {
  TORCH_CHECK(!tensor.defined() || tensor.size(3) >= longest, p.op, ": ", name,
              " must be at least as large as the "
              "longest row (",
              longest, "); expected [B,N,M,M] with M >= ", longest, ", got ", tensor.sizes());
}

void check_lengths(const Problem& p, const Arguments& a, int64_t longest_q, int64_t longest_k) {
  if (p.q_offsets.defined()) {
    check_longest(p, a.names.max_len, a.max_len, longest_q);
    if (a.varlen) check_longest(p, a.names.max_len_k, a.max_len_k, longest_k);
  }
  check_side(p, a.names.bias, p.bias, longest_k);
  check_side(p, "mask", p.mask, longest_k);
}

}  // namespace

std::vector<Row> read_rows(Problem& p, const Arguments& a) {
  std::vector<Row> rows(p.batch);
  read_offsets(rows, p, a);
  read_pages(rows, p);
  int64_t longest_q = 0;
  int64_t longest_k = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    const Row& row = rows[b];
    TORCH_CHECK(row.q_len <= row.keys(), p.op, ": row ", b, " has more queries than keys; expected at most ",
                row.keys(), " queries, got ", row.q_len);
    longest_q = std::max(longest_q, row.q_len);
    longest_k = std::max(longest_k, row.keys());
  }
  check_lengths(p, a, longest_q, longest_k);
  read_counts(rows, p, a);
  resolve_lengths(p, longest_q, longest_k);
  return rows;
}

void check_list(Problem& p, const Arguments& a) {
  const std::vector<int64_t>& list = *a.offset_list;
  check_offsets(p.op, a.names.offsets, list, "q", p.q.size(0));
  int64_t longest = 0;
  for (size_t i = 1; i < list.size(); ++i) longest = std::max(longest, list[i] - list[i - 1]);
  check_lengths(p, a, longest, longest);
  resolve_lengths(p, longest, longest);
}

}  // namespace gr_ops::hstu
