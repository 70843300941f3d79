#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <vector>

// Operators in fbgemm:: and mxrec::. fbgemm_gpu may have defined some of the fbgemm:: ones, and a second definition is
// an error in PyTorch, so each is defined only where it is absent.
namespace gr_ops {

// Every kernel of an operator must have one C++ signature, and fbgemm_gpu's kernels take a vector.
using TensorVector = std::vector<at::Tensor>;

bool is_defined(const std::string& name, const std::string& overload = "");

// space: "fbgemm" or "mxrec"; text: a schema without the space.
void define_if_absent(torch::Library& library, const std::string& space, const char* text);

// A kernel for an operator of fbgemm:: that calls mxrec's operator of the same name, on whatever key. Arguments that
// only one of the two has must be left at their defaults: releases of fbgemm_gpu differ in them. It is boxed: an
// unboxed kernel must have the C++ signature of fbgemm_gpu's own, which is not that of the schema and differs by
// release (1.1.0: int8_t for an int of bounds_check_indices, a reference to an optional in the permutations).
torch::CppFunction forward_to_mxrec();

template <typename Signature>
auto find_operator(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

}  // namespace gr_ops
