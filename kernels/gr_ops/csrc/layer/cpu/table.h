#pragma once

#include "layer/cpu/dropout_mask.h"
#include "layer/cpu/gate.h"
#include "layer/cpu/projection.h"

namespace gr_ops::layer {
namespace {

template <typename T>
Kernels kernels() {
  return {&padded<T>,       &pack<T>, &projection_scratch<T>, &project<T>, &project_backward<T>,
          &gate_scratch<T>, &gate<T>, &gate_backward<T>};
}

}  // namespace
}  // namespace gr_ops::layer
