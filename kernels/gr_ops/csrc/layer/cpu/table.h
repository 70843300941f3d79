#pragma once

#include "layer/cpu/by_vectors.h"
#include "layer/cpu/dropout_mask.h"
#include "layer/cpu/gate.h"
#include "layer/cpu/projection.h"

namespace gr_ops::layer {
namespace {

// Forward: how the gate's forward pass multiplies.
template <class P, class Forward = P>
Kernels kernels() {
  return {&padded<typename P::Sum>, &P::packed_bytes,       &P::pack,         &Forward::packed_bytes,
          &Forward::pack,           &projection_scratch<P>, &project<P>,      &project_backward<P>,
          &gate_scratch<Forward>,   &gate<Forward>,         &gate_scratch<P>, &gate_backward<P>};
}

inline KernelSet by_vectors() {
  const Kernels of_float = kernels<ByVectors<float, float>>();
  return {of_float,
          of_float,
          kernels<ByVectors<double, double>>(),
          kernels<ByVectors<hstu::Half, float>>(),
          kernels<ByVectors<hstu::BFloat16, float>>(),
          &dropout_mask};
}

}  // namespace
}  // namespace gr_ops::layer
