#pragma once

#include "hstu/arguments.h"

// hstu_relative: hstu_jagged with the relative bias position[distance in tokens] + time[bucket of the distance in
// time], made from two tables and timestamps where it is needed. Symbols as in hstu/arguments.h; P distances, T time
// buckets.
namespace gr_ops::hstu_relative {

using hstu::OptionalTensor;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // q, k, v, position, time

inline constexpr int64_t kCells = 512;

struct Tables {
  at::Tensor position, time;  // [P], [T] float32
  at::Tensor times;           // [L] int64, seconds
  at::Tensor cells;           // [512] int64: buckets by the upper 12 bits of a float32 (gr_ops/time_cells.py)
};

// The part that hstu_jagged has too. grad: backward only.
hstu::Arguments arguments(const char* op, const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& offsets, const OptionalTensor& num_context,
                          const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale);

// Raises where shapes, types or devices do not fit, of both parts.
void check(const hstu::Arguments& arguments, const Tables& tables);

// Empty gradients; an empty result is hstu::new_output's.
Gradients new_gradients(const hstu::Arguments& arguments, const Tables& tables);

at::Tensor call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& position,
                        const at::Tensor& time, const at::Tensor& times, const at::Tensor& cells,
                        const at::Tensor& offsets, const OptionalTensor& num_context, const OptionalTensor& num_target,
                        int64_t group, int64_t max_len, double scale);
Gradients call_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& position, const at::Tensor& time, const at::Tensor& times,
                        const at::Tensor& cells, const at::Tensor& offsets, const OptionalTensor& num_context,
                        const OptionalTensor& num_target, int64_t group, int64_t max_len, double scale);

}  // namespace gr_ops::hstu_relative
