#include "out_form.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MetaFunctions.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>

namespace twin {
namespace {

using Arguments = const c10::IValue*;
using Geometry = at::Tensor (*)(Arguments);

template <at::Tensor (*meta)(const at::Tensor&)>
at::Tensor Unary(Arguments a) {
  return meta(a[0].toTensor());
}

template <at::Tensor (*meta)(const at::Tensor&, const at::Tensor&)>
at::Tensor Binary(Arguments a) {
  return meta(a[0].toTensor(), a[1].toTensor());
}

template <at::Tensor (*meta)(const at::Tensor&, const at::Tensor&, const at::Scalar&)>
at::Tensor Scaled(Arguments a) {
  return meta(a[0].toTensor(), a[1].toTensor(), a[2].toScalar());
}

at::Tensor Addmm(Arguments a) {
  return at::meta::addmm(a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), a[3].toScalar(), a[4].toScalar());
}

at::Tensor Softmax(Arguments a) { return at::meta::_softmax(a[0].toTensor(), a[1].toInt(), a[2].toBool()); }

at::Tensor LogSoftmax(Arguments a) { return at::meta::_log_softmax(a[0].toTensor(), a[1].toInt(), a[2].toBool()); }

at::Tensor Cat(Arguments a) {
  const auto tensors = a[0].toTensorVector();
  return at::meta::cat(at::ITensorListRef(tensors), a[1].toInt());
}

at::Tensor Gather(Arguments a) {
  return at::meta::gather(a[0].toTensor(), a[1].toInt(), a[2].toTensor(), a[3].toBool());
}

at::Tensor Zeros(Arguments a) {
  const bool strided = a[2].isNone() || a[2].toLayout() == at::kStrided;
  const bool pinned = !a[4].isNone() && a[4].toBool();
  const auto sizes = a[0].toIntVector();
  const bool valid = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
  if (!strided || pinned || !valid) {
    return {};
  }
  const auto dtype = a[1].isNone() ? c10::typeMetaToScalarType(at::get_default_dtype()) : a[1].toScalarType();
  return at::detail::empty_meta(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

at::Tensor IndexSelect(Arguments a) {
  const auto& self = a[0].toTensor();
  const auto& index = a[2].toTensor();
  const auto dim = a[1].toInt();
  if (self.dim() == 0 || index.dim() > 1 || dim < -self.dim() || dim >= self.dim()) {
    return {};
  }
  auto sizes = self.sizes().vec();
  sizes[at::maybe_wrap_dim(dim, self.dim())] = index.numel();
  return at::detail::empty_meta(sizes, self.options().device(at::kMeta));
}

at::Tensor Where(Arguments a) {
  const auto& condition = a[0].toTensor();
  const auto& self = a[1].toTensor();
  const auto& other = a[2].toTensor();
  if (condition.scalar_type() != at::kBool || self.scalar_type() != other.scalar_type()) {
    return {};
  }
  return at::TensorIteratorConfig()
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .declare_static_dtype_and_device(self.scalar_type(), c10::kMeta)
      .add_owned_output(at::Tensor())
      .add_owned_const_input(condition)
      .add_owned_const_input(self)
      .add_owned_const_input(other)
      .build()
      .output();
}

struct Known {
  const char* name;
  const char* overload;
  const char* out;  // the overload with `out`
  Geometry geometry;
};

const Known KNOWN[] = {
    {"zeros", "", "out", Zeros},
    {"add", "Tensor", "out", Scaled<at::meta::add>},
    {"sub", "Tensor", "out", Scaled<at::meta::sub>},
    {"mul", "Tensor", "out", Binary<at::meta::mul>},
    {"div", "Tensor", "out", Binary<at::meta::div>},
    {"maximum", "", "out", Binary<at::meta::maximum>},
    {"minimum", "", "out", Binary<at::meta::minimum>},
    {"where", "self", "self_out", Where},
    {"mm", "", "out", Binary<at::meta::mm>},
    {"bmm", "", "out", Binary<at::meta::bmm>},
    {"addmm", "", "out", Addmm},
    {"exp", "", "out", Unary<at::meta::exp>},
    {"log", "", "out", Unary<at::meta::log>},
    {"neg", "", "out", Unary<at::meta::neg>},
    {"sqrt", "", "out", Unary<at::meta::sqrt>},
    {"rsqrt", "", "out", Unary<at::meta::rsqrt>},
    {"sigmoid", "", "out", Unary<at::meta::sigmoid>},
    {"silu", "", "out", Unary<at::meta::silu>},
    {"tanh", "", "out", Unary<at::meta::tanh>},
    {"sigmoid_backward", "", "grad_input", Binary<at::meta::sigmoid_backward>},
    {"silu_backward", "", "grad_input", Binary<at::meta::silu_backward>},
    {"tanh_backward", "", "grad_input", Binary<at::meta::tanh_backward>},
    {"_softmax", "", "out", Softmax},
    {"_log_softmax", "", "out", LogSoftmax},
    {"cat", "", "out", Cat},
    {"gather", "", "out", Gather},
    {"index_select", "", "out", IndexSelect},
};

bool Plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor() && !tensor.has_names();
}

bool PlainValue(const c10::IValue& value) {
  if (value.isTensorList()) {
    const auto members = value.toListRef();
    return std::all_of(members.begin(), members.end(), PlainValue);
  }
  return !value.isTensor() || Plain(value.toTensor());
}

std::unordered_map<c10::OperatorHandle, OutForm> Forms() {
  std::unordered_map<c10::OperatorHandle, OutForm> forms;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const Known& known : KNOWN) {
    const auto name = std::string("aten::") + known.name;
    const auto op = dispatcher.findSchemaOrThrow(name.c_str(), known.overload);
    OutForm form{dispatcher.findSchemaOrThrow(name.c_str(), known.out), known.geometry, {}};
    for (const auto& argument : form.op.schema().arguments()) {
      if (!argument.is_out()) {
        const auto index = op.schema().argumentIndexWithName(argument.name());
        TORCH_INTERNAL_ASSERT(index, name, " has no ", argument.name());
        form.arguments.push_back(*index);
      }
    }
    forms.emplace(op, std::move(form));
  }
  return forms;
}

}  // namespace

at::Tensor OutForm::GeometryOf(const c10::IValue* given, std::size_t count) const {
  return std::all_of(given, given + count, PlainValue) ? geometry(given) : at::Tensor();
}

void OutForm::Call(torch::jit::Stack* stack, std::size_t count, const at::Tensor& out) const {
  torch::jit::Stack call;
  const auto* given = stack->data() + stack->size() - count;
  for (const auto index : arguments) {
    call.push_back(given[index]);
  }
  call.push_back(out);
  op.callBoxed(&call);
  torch::jit::drop(*stack, count);
  stack->push_back(out);
}

const OutForm* OutFormOf(const c10::OperatorHandle& op) {
  static const auto& forms = *new std::unordered_map<c10::OperatorHandle, OutForm>(Forms());
  const auto found = forms.find(op);
  return found == forms.end() ? nullptr : &found->second;
}

}  // namespace twin
