#include <torch/library.h>

#include "common/operators.h"

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  gr_ops::define_if_absent(m, "mxrec", "new_operator(Tensor x, float factor) -> Tensor");
}
