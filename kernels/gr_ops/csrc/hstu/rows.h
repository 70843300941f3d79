#pragma once

#include "hstu/problem.h"

// What offsets, counts and pages hold, read to the host and checked. The CPU back end always
// does this; a device back end does it where it must know the longest row, and with MXREC_CHECK=1.
namespace gr_ops::hstu {

struct Row {
  int64_t q_begin, q_len;      // rows of q
  int64_t k_begin, k_len;      // rows of k, v
  int64_t context, target;     // tokens at the front and the end of the row
  int64_t page_begin, cached;  // hstu_paged: first entry of page_ids, tokens in the pages
  int64_t keys() const { return cached + k_len; }
  // Position of query 0 among the keys.
  int64_t shift() const { return keys() - q_len; }
};

// One entry per batch row; raises where the contents are inconsistent. Resolves the lengths of the problem.
std::vector<Row> read_rows(Problem& problem, const Arguments& arguments);

// A list of offsets is on the host whatever the device: raises what read_rows would raise of it, and resolves the
// lengths of the problem.
void check_list(Problem& problem, const Arguments& arguments);

}  // namespace gr_ops::hstu
