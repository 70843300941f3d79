#pragma once

#include "hstu/problem.h"

// An HSTU problem as the operators in Ascend C take it.
namespace gr_ops::hstu {

// Checked, with offsets, counts and page tables of one type and the mask of a type that the operators know. Contents
// are read with MXREC_CHECK=1 alone.
Problem make_npu_problem(const Arguments& arguments);

// Whether there is nothing to calculate.
bool is_empty(const Problem& problem);

}  // namespace gr_ops::hstu
