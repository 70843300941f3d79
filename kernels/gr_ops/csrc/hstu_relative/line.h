#pragma once

#include <cstdint>
#include <vector>

#include "hstu/cpu/head.h"

namespace gr_ops::hstu_relative {

// Sets slope, start and near of `bias`. near stays 0 where the buckets are not spaced like a logarithm.
// edges: of each of so many buckets the least seconds that are of it or of a later one, infinity for none.
void draw_line(const std::vector<float>& edges, int64_t buckets, hstu::RelativeBias& bias);

}  // namespace gr_ops::hstu_relative
