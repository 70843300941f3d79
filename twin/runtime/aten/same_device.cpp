#include "same_device.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/op_registration/adaption.h>

namespace twin {
namespace {

struct Exempt {
  std::string_view operators;  // without namespace, overload and the underscore of the in-place form
  std::string_view argument;
};

// Element-wise operators whose operands may be a CPU tensor without dimensions, as torch_npu's own kernels take them
// (observed with TWIN_ATEN=aclnn; PyTorch would also take one in pow, where, remainder and others, torch_npu does not).
constexpr std::string_view EITHER_OPERAND[] = {
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "eq",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "maximum",
    "minimum",
    "min",
    "fmax",
    "fmin",
    // torch_npu has none of these: PyTorch's rule
    "copysign",
    "heaviside",
    "hypot",
    "igamma",
    "igammac",
    "lcm",
    "nextafter",
    "special_xlog1py",
    "special_zeta",
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
};

// One argument that may be such a tensor: the host reads its value, or it is the second operand.
constexpr Exempt SCALARS[] = {
    {"ne", "other"},           {"gt", "other"},         {"ge", "other"},           {"lt", "other"},
    {"le", "other"},           {"logical_or", "other"}, {"max", "other"},          {"fill", "value"},
    {"masked_fill", "value"},  {"index_fill", "value"}, {"linspace", "start"},     {"linspace", "end"},
    {"logspace", "start"},     {"logspace", "end"},     {"_foreach_add", "other"}, {"_foreach_mul", "other"},
    {"_foreach_div", "other"}, {"_fused_adam", "lr"},   {"_fused_adamw", "lr"},    {"_fused_sgd", "lr"},
};

// CPU tensors of any size: the operator itself takes them to the device.
constexpr Exempt INDICES[] = {
    {"index", "indices"},           {"_unsafe_index", "indices"},     {"index_put", "indices"},
    {"_index_put_impl", "indices"}, {"_unsafe_index_put", "indices"},
};

// Only CPU tensors: the host reads them.
constexpr Exempt ON_HOST[] = {
    {"_pack_padded_sequence", "lengths"},    {"_pack_padded_sequence_backward", "batch_sizes"},
    {"_pad_packed_sequence", "batch_sizes"}, {"_foreach_addcmul", "scalars"},
    {"_foreach_addcdiv", "scalars"},
};

std::string_view BaseName(const c10::OperatorHandle& op) {
  std::string_view name = op.operator_name().name;
  name.remove_prefix(std::string_view("aten::").size());
  if (name.size() > 2 && name.back() == '_' && name[name.size() - 2] != '_') {
    name.remove_suffix(1);
  }
  return name;
}

template <size_t N>
bool Listed(const Exempt (&table)[N], std::string_view name, const c10::Argument& argument) {
  return std::any_of(std::begin(table), std::end(table),
                     [&](const Exempt& entry) { return entry.operators == name && entry.argument == argument.name(); });
}

bool Written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The walk over one call's arguments, in PyTorch's order.
class Walk {
 public:
  explicit Walk(const c10::OperatorHandle& op) : op_(op), name_(BaseName(op)) {}

  void See(const c10::Argument& argument, const c10::IValue& value) {
    if (value.isTensor()) {
      See(argument, value.toTensor());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& member : value.toListRef()) {
        if (member.isTensor()) {
          See(argument, member.toTensor());
        }
      }
    }
  }

  // Each tensor of a foreach list has an operation of its own, with its fellows of the other lists.
  void SeeMember(const c10::Argument& argument, const c10::IValue& value, size_t index) {
    const auto members = value.toListRef();
    if (index < members.size() && members[index].isTensor()) {
      See(argument, members[index].toTensor());
    }
  }

 private:
  void See(const c10::Argument& argument, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return;
    }
    if (Listed(ON_HOST, name_, argument)) {
      TORCH_CHECK(tensor.device().is_cpu(), "'", argument.name(), "' argument should be a CPU tensor, but got ",
                  tensor.device(), " tensor");
      return;
    }
    if (tensor.device().is_cpu() && Takes(argument, tensor)) {
      return;
    }
    if (!common_) {
      common_ = tensor.device();
    } else if (*common_ != tensor.device()) {
      c10::impl::common_device_check_failure(*common_, tensor, op_.operator_name().name.c_str(),
                                             argument.name().c_str());
    }
  }

  bool Takes(const c10::Argument& argument, const at::Tensor& tensor) {
    if (Listed(INDICES, name_, argument)) {
      return true;
    }
    if (tensor.dim() != 0 || Written(argument)) {
      return false;
    }
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() || Listed(SCALARS, name_, argument)) {
      return true;
    }
    // The kernel takes one operand as a number; two beside an `out` on the device are a fault.
    const bool operand =
        std::find(std::begin(EITHER_OPERAND), std::end(EITHER_OPERAND), name_) != std::end(EITHER_OPERAND);
    return operand && !std::exchange(scalarSeen_, true);
  }

  const c10::OperatorHandle& op_;
  std::string_view name_;
  std::optional<c10::Device> common_;
  bool scalarSeen_ = false;
};

bool IsForeach(std::string_view name) { return name.substr(0, 9) == "_foreach_"; }

bool IsList(const c10::IValue& value) { return value.isTensorList() || value.isOptionalTensorList(); }

void RequireForeach(const c10::OperatorHandle& op, const c10::IValue* arguments) {
  const auto& formal = op.schema().arguments();
  size_t members = 0;
  for (size_t i = 0; i < formal.size(); ++i) {
    if (IsList(arguments[i])) {
      members = std::max(members, arguments[i].toListRef().size());
    }
  }
  for (size_t member = 0; member < members; ++member) {
    Walk walk(op);
    for (size_t i = 0; i < formal.size(); ++i) {
      if (IsList(arguments[i])) {
        walk.SeeMember(formal[i], arguments[i], member);
      } else {
        walk.See(formal[i], arguments[i]);
      }
    }
  }
}

}  // namespace

void RequireSameDevice(const c10::OperatorHandle& op, const c10::IValue* arguments) {
  const auto name = BaseName(op);
  if (name == "_foreach_copy") {  // a copy
    return;
  }
  if (IsForeach(name)) {
    RequireForeach(op, arguments);
    return;
  }
  Walk walk(op);
  const auto& formal = op.schema().arguments();
  for (size_t i = 0; i < formal.size(); ++i) {
    walk.See(formal[i], arguments[i]);
  }
}

bool StaysOnHost(const c10::OperatorHandle& op, size_t result) {
  return result == 1 && BaseName(op) == "_pack_padded_sequence";
}

}  // namespace twin
