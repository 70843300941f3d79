#pragma once

#include "hstu/arguments.h"

// A checked attention problem in one form for every layout: what the kernels of every back end take.
//
// The normal layout [B, S, N, D] is the jagged one with rows of S tokens. Row b has queries [q_begin, q_end) of q and
// keys [k_begin, k_end) of k and v; query i of a row of m queries and n keys stands at position i + n - m.
namespace gr_ops::hstu {

enum class Mask : int64_t { Lower = 0, Upper = 1, None = 2, User = 3 };

struct Problem {
  const char* op;
  int64_t batch, heads, dim, value_dim;
  at::Tensor q;     // contiguous [Lq, N, D]
  at::Tensor k, v;  // contiguous [Lk, N, D], [Lk, N, Dv]
  at::Tensor grad;  // contiguous [Lq, N, Dv]; undefined in forward
  at::Tensor mask;  // User only: contiguous [B or 1, N or 1, M, M] of q's dtype, bool, uint8 or another floating dtype
  at::Tensor bias;  // undefined, or contiguous [B or 1, N or 1, M, M] of q's dtype
  at::Tensor q_offsets, k_offsets;     // contiguous [B + 1], int32 or int64, on q's device; undefined: rows of max_q
  at::Tensor num_context, num_target;  // contiguous [B], int32 or int64, on q's device; undefined: 0
  Mask mask_type;
  int64_t group;              // >= 1
  int64_t max_attn_len;       // local window over the tokens of the history; 0: none
  int64_t min_full_attn_len;  // the last rows of the history that a window does not narrow
  int64_t window_size;        // local window by distance in the row; -1: none
  int64_t max_q, max_k;       // >= the longest row; 0 where only the offsets tell (jagged, none given)
  double scale;               // 0 where only the offsets tell
  double alpha;
  bool deterministic;
  bool needs_bias_grad;
  // hstu_paged: keys of row b are the tokens of its pages, then its rows of k, v. Undefined in all other operators.
  at::Tensor kv_cache, page_offsets, page_ids, last_page_len;

  bool has_counts() const { return num_context.defined() || num_target.defined(); }
};

// Checks the arguments (checks.h) and normalises them. Reads no device memory; a list of offsets is checked by value
// and copied to q's device.
Problem make_problem(const Arguments& arguments);

// The maximum length of the keys is known now: sets max_q, max_k and scale where they are 0.
void resolve_lengths(Problem& problem, int64_t longest_q, int64_t longest_k);

// The output, shaped as q with v's head dimension; and the gradients, shaped as q, k, v and bias.
at::Tensor new_output(const Arguments& arguments);
Gradients new_gradients(const Arguments& arguments);

}  // namespace gr_ops::hstu
