#pragma once

#include "hstu/cpu/backward.h"
#include "hstu/cpu/forward.h"

namespace gr_ops::hstu {
namespace {

template <class P>
Kernels kernels() {
  return {&forward<P>,       &backward<P>,        &backward_keys<P>,    &backward_queries<P>,
          &bias_gradient<P>, &forward_scratch<P>, &backward_scratch<P>, &relative_scratch<P>};
}

}  // namespace
}  // namespace gr_ops::hstu
