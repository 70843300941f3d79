#pragma once

#include "sampled_softmax/cpu/piece.h"
#include "sampled_softmax/cpu/rows.h"

namespace gr_ops::sampled_softmax {
namespace {

template <typename T>
Kernels kernels() {
  return {&padded<T>, &measure<T>, &scratch_bytes<T>, &run<T>, &gather<T>};
}

}  // namespace
}  // namespace gr_ops::sampled_softmax
