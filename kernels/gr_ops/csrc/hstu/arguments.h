#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

// What a caller of any HSTU operator gave, under one set of names, unchecked.
// Symbols: B rows, N heads, D and Dv head dimensions of q, k and of v, S padded length, L tokens of all rows,
// M side of a square mask or bias.
namespace gr_ops::hstu {

// The names of the arguments in messages: the operators of the documents and the newer ones spell them differently.
struct Names {
  const char* bias;
  const char* mask_type;
  const char* max_len;
  const char* max_len_k;
  const char* scale;
  const char* offsets;
  const char* offsets_k;
};

inline constexpr Names kCamelNames{"attnBias",  "maskType",  "maxSeqLen", "maxSeqLenK",
                                   "siluScale", "seqOffset", "seqOffsetK"};
inline constexpr Names kSnakeNames{"attn_bias",  "mask_type",  "max_seq_len", "max_seq_len_k",
                                   "silu_scale", "seq_offset", "seq_offset_k"};

// A tensor that was not given is undefined.
struct Arguments {
  const char* op = "";
  Names names = kCamelNames;
  std::string layout = "jagged";
  at::Tensor q, k, v;
  at::Tensor grad;  // of the output; backward only
  at::Tensor mask, bias;
  int64_t mask_type = 0;
  int64_t max_len = 0;    // of the queries; 0: the longest row
  int64_t max_len_k = 0;  // of the keys; 0: the longest row
  double scale = 0.0;     // 0: 1 / the maximum length of the keys
  double alpha = 1.0;
  at::Tensor offsets;                               // [B + 1], rows of q (and of k, v where offsets_k is absent)
  at::Tensor offsets_k;                             // [B + 1], rows of k, v; varlen and paged only
  std::optional<std::vector<int64_t>> offset_list;  // instead of offsets
  at::Tensor num_context, num_target;               // [B]
  int64_t group = 0;                                // targets per group; 0 means 1
  int64_t max_attn_len = 0;                         // local window over the tokens of the history; 0: none
  int64_t min_full_attn_len = 0;
  int64_t window_size = -1;  // local window by distance in the row; -1: none
  bool deterministic = false;
  bool needs_bias_grad = true;
  bool varlen = false;  // q may have fewer rows than k, v
  bool paged = false;
  at::Tensor kv_cache;        // [pages, 2, page_size, N, D]
  at::Tensor target_offsets;  // [B + 1], another form of num_target
  at::Tensor page_offsets;    // [B + 1], pages of each row in page_ids
  at::Tensor page_ids;        // [pages in use]
  at::Tensor last_page_len;   // [B], tokens in the last page
};

using OptionalTensor = std::optional<at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // of q, k, v, bias ([0] without bias)

Arguments dense_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const OptionalTensor& mask, const OptionalTensor& bias, c10::string_view layout,
                          int64_t mask_type, int64_t max_len, double scale);

Arguments jagged_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                           double scale, const OptionalTensor& offsets, const OptionalTensor& num_context,
                           const OptionalTensor& num_target, std::optional<int64_t> group, std::optional<double> alpha,
                           int64_t max_attn_len, int64_t min_full_attn_len, bool deterministic, int64_t window_size);

Arguments varlen_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                           int64_t max_len_k, double scale, const OptionalTensor& offsets,
                           const OptionalTensor& offsets_k);

}  // namespace gr_ops::hstu
