#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "common/operators.h"

namespace gr_ops {
namespace {

// Overload resolution tries overloads in the order of definition: the default comes first.
constexpr const char* kSchemas[] = {
    "jagged_to_padded_dense(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) -> Tensor",
    "jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) "
    "-> Tensor",
    "jagged_to_padded_dense_backward(Tensor grad_output, Tensor[] offsets, SymInt total_L) -> Tensor",
    "dense_to_jagged(Tensor dense, Tensor[] x_offsets, SymInt? total_L=None) -> (Tensor, Tensor[])",
    "dense_to_jagged_forward(Tensor dense, Tensor[] x_offsets, SymInt? total_L=None) -> Tensor",
    "dense_to_jagged_backward(Tensor grad, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.) -> Tensor",
};

// An overload is the default one with other argument types, whatever back end serves the default.
template <const char* Name>
struct PaddedOverloads {
  using Default = at::Tensor(const at::Tensor&, const TensorVector&, c10::SymIntArrayRef, double);

  static at::Tensor call(const at::Tensor& values, const TensorVector& offsets, c10::SymIntArrayRef max_lengths,
                         double padding_value) {
    static const auto op = find_operator<Default>(Name);
    return op.call(values, offsets, max_lengths, padding_value);
  }
  static at::Tensor one_length(const at::Tensor& values, const TensorVector& offsets, int64_t max_length,
                               double padding_value) {
    const c10::SymInt length(max_length);
    return call(values, offsets, c10::SymIntArrayRef(&length, 1), padding_value);
  }
  static at::Tensor int_lengths(const at::Tensor& values, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                double padding_value) {
    return call(values, offsets, c10::fromIntArrayRefSlow(max_lengths), padding_value);
  }
};

constexpr char kFbgemmPad[] = "fbgemm::jagged_to_padded_dense";
constexpr char kFbgemmPadForward[] = "fbgemm::jagged_to_padded_dense_forward";
constexpr char kMxrecPad[] = "mxrec::jagged_to_padded_dense";
constexpr char kMxrecPadForward[] = "mxrec::jagged_to_padded_dense_forward";
constexpr char kMxrecUnpadBackward[] = "mxrec::dense_to_jagged_backward";

template <const char* Name>
void define_one_length(torch::Library& library, const std::string& name) {
  const std::string schema =
      name + ".v1(Tensor values, Tensor[] offsets, int max_lengths, float padding_value=0.) -> Tensor";
  library.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  const std::string overload = name + ".v1";
  library.impl(overload.c_str(), c10::DispatchKey::CompositeImplicitAutograd, &PaddedOverloads<Name>::one_length);
}

template <const char* Name>
void define_int_lengths(torch::Library& library, const std::string& name) {
  const std::string schema =
      name + ".v2(Tensor values, Tensor[] offsets, int[] max_lengths, float padding_value=0.) -> Tensor";
  library.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  const std::string overload = name + ".v2";
  library.impl(overload.c_str(), c10::DispatchKey::CompositeImplicitAutograd, &PaddedOverloads<Name>::int_lengths);
}

std::tuple<at::Tensor, TensorVector> dense_to_jagged_pair(const at::Tensor& dense, const TensorVector& offsets,
                                                          std::optional<c10::SymInt> total_length) {
  using Default = at::Tensor(const at::Tensor&, const TensorVector&, std::optional<c10::SymInt>);
  static const auto op = find_operator<Default>("mxrec::dense_to_jagged_forward");
  return {op.call(dense, offsets, std::move(total_length)), offsets};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  const bool stock_pad = is_defined(kFbgemmPad);
  const bool stock_pad_forward = is_defined(kFbgemmPadForward);
  for (const char* schema : kSchemas) define_if_absent(m, "fbgemm", schema);
  define_one_length<kFbgemmPad>(m, "jagged_to_padded_dense");
  define_one_length<kFbgemmPadForward>(m, "jagged_to_padded_dense_forward");
  if (!stock_pad) define_int_lengths<kFbgemmPad>(m, "jagged_to_padded_dense");
  if (!stock_pad_forward) define_int_lengths<kFbgemmPadForward>(m, "jagged_to_padded_dense_forward");
}

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  for (const char* schema : kSchemas) define_if_absent(m, "mxrec", schema);
  define_one_length<kMxrecPad>(m, "jagged_to_padded_dense");
  define_one_length<kMxrecPadForward>(m, "jagged_to_padded_dense_forward");
  define_int_lengths<kMxrecPad>(m, "jagged_to_padded_dense");
  define_int_lengths<kMxrecPadForward>(m, "jagged_to_padded_dense_forward");
  m.def("dense_to_jagged_backward.v1(Tensor grad, Tensor[] offsets, int max_lengths, float padding_value=0.) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.impl("dense_to_jagged_backward.v1", c10::DispatchKey::CompositeImplicitAutograd,
         &PaddedOverloads<kMxrecUnpadBackward>::one_length);
  m.def("dense_to_jagged_forward.pair(Tensor dense, Tensor[] x_offsets, SymInt? total_L=None) -> (Tensor, Tensor[])");
  m.impl("dense_to_jagged_forward.pair", c10::DispatchKey::CompositeImplicitAutograd, &dense_to_jagged_pair);
}

}  // namespace gr_ops
