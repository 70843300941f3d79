#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "common/derivatives.h"
#include "common/operators.h"
#include "common/override.h"

// Pad (jagged -> dense) and Unpad (dense -> jagged) are linear, and each is the gradient of the other
// (docs/operators.md). Each backward calls the other one's operator through the dispatcher with autograd on,
// so derivatives of every order exist.
namespace gr_ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using PadSignature = at::Tensor(const at::Tensor&, const TensorVector&, c10::SymIntArrayRef, double);
using UnpadSignature = at::Tensor(const at::Tensor&, const TensorVector&, std::optional<c10::SymInt>);
using PadBackwardSignature = at::Tensor(const at::Tensor&, const TensorVector&, c10::SymInt);

at::Tensor call_pad(const at::Tensor& values, const TensorVector& offsets, c10::SymIntArrayRef lengths,
                    double padding) {
  static const auto op = find_operator<PadSignature>("mxrec::jagged_to_padded_dense_forward");
  return op.call(values, offsets, lengths, padding);
}

at::Tensor call_unpad(const at::Tensor& dense, const TensorVector& offsets, std::optional<c10::SymInt> total) {
  static const auto op = find_operator<UnpadSignature>("mxrec::dense_to_jagged_forward");
  return op.call(dense, offsets, std::move(total));
}

at::Tensor call_pad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymInt total) {
  static const auto op = find_operator<PadBackwardSignature>("mxrec::jagged_to_padded_dense_backward");
  return op.call(grad, offsets, std::move(total));
}

at::Tensor call_unpad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymIntArrayRef lengths,
                               double padding) {
  static const auto op = find_operator<PadSignature>("mxrec::dense_to_jagged_backward");
  return op.call(grad, offsets, lengths, padding);
}

// One gradient for the tensor, none for the offsets and the plain arguments.
variable_list only_first(Variable grad, size_t offsets) {
  variable_list grads(offsets + 4);
  grads[0] = std::move(grad);
  return grads;
}

using PadCall = at::Tensor (*)(const at::Tensor&, const TensorVector&, c10::SymIntArrayRef, double);

struct Pad : torch::autograd::Function<Pad> {
  static Variable forward(AutogradContext* ctx, const Variable& values, const TensorVector& offsets, PadCall call,
                          c10::SymIntArrayRef lengths, double padding) {
    at::AutoDispatchBelowADInplaceOrView guard;
    Variable dense = call(values, offsets, lengths, padding);
    ctx->save_for_backward(offsets);
    ctx->saved_data["rows"] = values.sym_size(0);
    return dense;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list offsets = ctx->get_saved_variables();
    return only_first(call_pad_backward(grads[0], offsets, ctx->saved_data["rows"].toSymInt()), offsets.size());
  }
};

// total: none reads it from the offsets.
using UnpadCall = at::Tensor (*)(const at::Tensor&, const TensorVector&, std::optional<c10::SymInt>);

struct Unpad : torch::autograd::Function<Unpad> {
  static Variable forward(AutogradContext* ctx, const Variable& dense, const TensorVector& offsets, UnpadCall call,
                          std::optional<c10::SymInt> total) {
    at::AutoDispatchBelowADInplaceOrView guard;
    Variable values = call(dense, offsets, std::move(total));
    ctx->save_for_backward(offsets);
    const auto sizes = dense.sym_sizes().slice(1, offsets.size());
    ctx->saved_data["lengths"] = c10::SymIntArrayRef(sizes);
    return values;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list offsets = ctx->get_saved_variables();
    const auto lengths = ctx->saved_data["lengths"].toSymIntVector();
    return only_first(call_unpad_backward(grads[0], offsets, lengths, 0.0), offsets.size());
  }
};

at::Tensor apply_pad(PadCall call, const at::Tensor& values, const TensorVector& offsets, c10::SymIntArrayRef lengths,
                     double padding) {
  if (differentiable(values)) return Pad::apply(values, offsets, call, lengths, padding);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call(values, offsets, lengths, padding);
}

at::Tensor apply_unpad(UnpadCall call, const at::Tensor& dense, const TensorVector& offsets,
                       std::optional<c10::SymInt> total) {
  if (differentiable(dense)) return Unpad::apply(dense, offsets, call, std::move(total));
  at::AutoDispatchBelowADInplaceOrView guard;
  return call(dense, offsets, std::move(total));
}

at::Tensor pad(const at::Tensor& values, const TensorVector& offsets, c10::SymIntArrayRef lengths, double padding) {
  return apply_pad(&call_pad, values, offsets, lengths, padding);
}

at::Tensor unpad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymIntArrayRef lengths,
                          double padding) {
  return apply_pad(&call_unpad_backward, grad, offsets, lengths, padding);
}

at::Tensor unpad(const at::Tensor& dense, const TensorVector& offsets, std::optional<c10::SymInt> total) {
  return apply_unpad(&call_unpad, dense, offsets, std::move(total));
}

std::tuple<at::Tensor, TensorVector> unpad_with_offsets(const at::Tensor& dense, const TensorVector& offsets,
                                                        std::optional<c10::SymInt> total) {
  return {unpad(dense, offsets, std::move(total)), offsets};
}

at::Tensor pad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymInt total) {
  const UnpadCall call = [](const at::Tensor& g, const TensorVector& o, std::optional<c10::SymInt> t) {
    return call_pad_backward(g, o, *std::move(t));
  };
  return apply_unpad(call, grad, offsets, std::optional<c10::SymInt>(std::move(total)));
}

template <typename Library>
void register_autograd(Library& m) {
  m.impl("jagged_to_padded_dense", &pad);
  m.impl("jagged_to_padded_dense_forward", &pad);
  m.impl("jagged_to_padded_dense_backward", &pad_backward);
  m.impl("dense_to_jagged", &unpad_with_offsets);
  m.impl("dense_to_jagged_forward", &unpad);
  m.impl("dense_to_jagged_backward", &unpad_backward);
}

}  // namespace

// fbgemm's own CUDA autograd stays as it is; mxrec is ours on every back end.
TORCH_LIBRARY_IMPL(fbgemm, AutogradPrivateUse1, m) { register_autograd(m); }
TORCH_LIBRARY_IMPL(fbgemm, AutogradCPU, m) {
  FbgemmRegistrar registrar(m);
  register_autograd(registrar);
}
TORCH_LIBRARY_IMPL(mxrec, Autograd, m) { register_autograd(m); }

}  // namespace gr_ops
