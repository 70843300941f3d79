#include <torch/library.h>

#include "common/result.h"
#include "hstu/cpu/attention.h"
#include "hstu/entries.h"

// The HSTU operators on CPU tensors.
namespace gr_ops::hstu {
namespace {

at::Tensor forward(const Arguments& a) {
  Problem p = make_problem(a);
  const std::vector<Row> rows = read_rows(p, a);
  const at::Tensor output = new_cpu_output(a);
  if (output.numel() == 0) return output;

  Heads heads(p, rows);
  heads.set_output(output);
  forward_heads(heads);
  return output;
}

Gradients backward(const Arguments& a) {
  Problem p = make_problem(a);
  const std::vector<Row> rows = read_rows(p, a);
  const at::Tensor dbias = p.needs_bias_grad ? new_result_like(a.bias) : a.q.new_empty({0});
  if (p.needs_bias_grad) dbias.zero_();  // cells that no query sees
  const Gradients gradients{new_result_like(a.q), new_result_like(a.k), new_result_like(a.v), dbias};
  Heads heads(p, rows);
  heads.set_gradients(gradients);
  backward_heads(heads);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu
