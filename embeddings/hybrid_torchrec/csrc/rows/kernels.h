#pragma once

#include "row_math/row_kernels.h"

// Arithmetic on rows: that of gr_ops' tables (kernels/gr_ops/csrc/embedding/rows), compiled into this library too, and
// what hash tables need beside it. Once for each instruction set; the best one is chosen at run time.
namespace hybrid_torchrec::rows {

using gr_ops::rows::Bfloat16;
using gr_ops::rows::Half;
using gr_ops::rows::RowFunctions;
using gr_ops::rows::RowKernels;
using gr_ops::rows::RowState;
using gr_ops::rows::Step;
using gr_ops::rows::Update;

struct Kernels {
  const RowKernels* shared;
  Update lamb;
  // gradients[r] += weight_decay * weights of row r.
  Update decay;
};

const Kernels& kernels();

}  // namespace hybrid_torchrec::rows
