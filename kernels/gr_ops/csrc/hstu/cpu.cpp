#include <torch/library.h>

#include "hstu/cpu/attention.h"
#include "hstu/entries.h"

// The HSTU operators on CPU tensors.
namespace gr_ops::hstu {
namespace {

at::Tensor forward(const Arguments& a) {
  Problem p = make_problem(a);
  const std::vector<Row> rows = read_rows(p, a);
  const at::Tensor output = new_output(a);
  if (output.numel() == 0) return output;

  Heads heads(p, rows);
  heads.set_output(output);
  forward_heads(heads);
  return output;
}

Gradients backward(const Arguments& a) {
  Problem p = make_problem(a);
  const std::vector<Row> rows = read_rows(p, a);
  Gradients gradients = new_gradients(a);
  if (p.needs_bias_grad) std::get<3>(gradients).zero_();  // cells that no query sees
  Heads heads(p, rows);
  heads.set_gradients(gradients);
  backward_heads(heads);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu
