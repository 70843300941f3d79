#include <torch/library.h>

#include "hstu/checks.h"
#include "hstu/entries.h"
#include "hstu/problem.h"

// Shape inference without a device.
namespace gr_ops::hstu {
namespace {

at::Tensor forward(const Arguments& a) {
  check(a);
  return new_output(a);
}

Gradients backward(const Arguments& a) {
  check(a);
  return new_gradients(a);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu
