#include "boxed.h"

#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "alias.h"
#include "counted_call.h"
#include "out_form.h"
#include "random.h"
#include "same_device.h"
#include "strict_call.h"
#include "twin/counts.h"

namespace twin {
namespace {

constexpr auto NPU = c10::DeviceType::PrivateUse1;

// One call: what its arguments said about devices and random numbers.
struct Call {
  AliasTable aliases;
  std::optional<c10::Device> requested;  // an NPU device argument
  bool wantsCpu = false;                 // an explicit CPU device argument
  at::Generator generator;               // an explicit generator argument
  c10::IValue* generatorSlot = nullptr;

  c10::Device Device() const {
    static const c10::impl::VirtualGuardImpl guard(NPU);
    if (requested && requested->has_index()) {
      return *requested;
    }
    return !requested && !aliases.Devices().empty() ? aliases.Devices().front() : guard.getDevice();
  }
};

void ConvertDevice(Call& call, c10::IValue& value) {
  const auto device = value.toDevice();
  if (device.type() == NPU) {
    call.requested = device;
    value = c10::Device(c10::kCPU);
  } else if (device.type() == c10::kCPU) {
    call.wantsCpu = true;
  }
}

bool TakesGenerator(const c10::Argument& argument) {
  const auto& type = argument.type();
  if (type->kind() == c10::TypeKind::GeneratorType) {
    return true;
  }
  const auto optional = type->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

void ConvertArgument(Call& call, const c10::Argument& argument, c10::IValue& value) {
  if (TakesGenerator(argument)) {
    call.generatorSlot = &value;
    if (value.isGenerator()) {
      call.generator = value.toGenerator();
    }
  } else if (value.isTensor()) {
    value = call.aliases.ToCpu(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(call.aliases.ToCpu(tensor));
    }
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::make_optional(call.aliases.ToCpu(*tensor)) : std::nullopt);
    }
    value = std::move(list);
  } else if (value.isDevice()) {
    ConvertDevice(call, value);
  }
}

void ConvertResult(const Call& call, c10::Device device, c10::IValue& value) {
  if (value.isTensor()) {
    value = call.aliases.ToNpu(value.toTensor(), device);
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(call.aliases.ToNpu(tensor, device));
    }
    value = std::move(list);
  }
}

// The alias of a new tensor on the device for the result; undefined where the kernel makes the result itself.
at::Tensor ResultFor(Call& call, const OutForm& form, const c10::IValue* arguments, size_t count, c10::Device device) {
  const auto geometry = form.GeometryOf(arguments, count);
  if (!geometry.defined()) {
    return {};
  }
  const auto npu = at::empty_strided(geometry.sizes(), geometry.strides(), geometry.options().device(device));
  // The block may be one that another thread freed while its work still runs on the stream.
  SynchronizeDevice(device);
  return call.aliases.ToCpu(npu);
}

void CallCpuKernel(Call& call, const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device) {
  // The NPU's autograd and autocast are above us; the aliases are plain CPU tensors for this call only.
  const at::AutoDispatchBelowAutograd belowAutograd;
  const c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
  // A result in its place needs no copy; a sixth of a training step's time went into those.
  if (const auto* form = OutFormOf(op); form != nullptr && (call.requested || !call.aliases.Devices().empty())) {
    const auto count = op.schema().arguments().size();
    const auto out = ResultFor(call, *form, stack->data() + stack->size() - count, count, device);
    if (out.defined()) {
      form->Call(stack, count, out);
      return;
    }
  }
  op.callBoxed(stack);
}

}  // namespace

void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  auto* arguments = stack->data() + stack->size() - schema.arguments().size();
  RequireSameDevice(op, arguments);
  if (twinCounting()) {
    CountCall(op, arguments);
  }
  Call call;
  std::optional<StrictCall> strict;
  if (twinStrictStreams()) {
    strict.emplace(op, arguments);
  }
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    ConvertArgument(call, schema.arguments()[i], arguments[i]);
  }
  const auto device = call.Device();
  SynchronizeDevice(device);
  for (const auto other : call.aliases.Devices()) {
    if (other != device) {
      SynchronizeDevice(other);
    }
  }
  if (strict) {
    strict->Begin(device);
  }

  if (call.generatorSlot != nullptr) {
    *call.generatorSlot = TakeCpuGenerator(call.generator, device);
    CallCpuKernel(call, op, stack, device);
  } else if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    const DefaultGeneratorOverride seeded(TakeCpuGenerator({}, device));
    CallCpuKernel(call, op, stack, device);
  } else {
    CallCpuKernel(call, op, stack, device);
  }

  call.aliases.CommitArguments();
  if (call.wantsCpu && !call.requested) {
    if (twinCounting()) {
      twinCountValue(toString(op.operator_name()).c_str());
    }
    if (strict) {
      strict->GiveValue();
    }
    return;
  }
  auto* results = stack->data() + stack->size() - schema.returns().size();
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    if (!StaysOnHost(op, i)) {
      ConvertResult(call, device, results[i]);
    }
  }
  if (strict) {
    strict->End(results);
  }
}

void RunDecomposition(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // AutogradXLA is an unused run-time key; a composite operator's kernel there is its decomposition.
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::AutogradXLA), stack);
}

void RunStockAutograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // AutogradPrivateUse2 is an unused run-time key above AutogradPrivateUse1 that still has PyTorch's formula.
  op.redispatchBoxed(keys | c10::DispatchKeySet(c10::DispatchKey::AutogradPrivateUse2), stack);
}

}  // namespace twin
