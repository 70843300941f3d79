// twinInstallAten: replaces torch_npu's kernels of the ATen operators. Called by aclInit, which torch_npu
// calls at the first use of a device, when all its own kernels are registered.
#include <memory>
#include <mutex>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "alias.h"
#include "boxed.h"
#include "kept.h"
#include "twin/counts.h"

namespace twin {
namespace {

using c10::DispatchKey;

const std::string NAMESPACE = "aten::";

// Every replaced registration warns once; that is the purpose here.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

class Registrar {
 public:
  void Register(const c10::OperatorHandle& op) {
    const bool onNpu = op.hasKernelForDispatchKey(DispatchKey::PrivateUse1);
    const bool npuAutograd = op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
    const bool onCpu = op.hasKernelForDispatchKey(DispatchKey::CPU);
    const bool composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    const auto name = Name(op);
    // Three have a CPU kernel too (silu_backward): the CPU does not decompose those either.
    const bool wholeOnCpu = onCpu && op.hasKernelForDispatchKey(DispatchKey::Autograd);
    if (composite && !wholeOnCpu) {
      if (onNpu || npuAutograd) {
        autograd_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunDecomposition>());
        npu_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunDecomposition>());
      }
      return;
    }
    if (!onNpu && !onCpu) {
      return;
    }
    if (onNpu && npuAutograd) {
      autograd_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunStockAutograd>());
      npuBelowStockAutograd_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
    }
    npu_.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
  }

 private:
  static std::string Name(const c10::OperatorHandle& op) {
    const auto& name = op.operator_name();
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  }

  torch::Library npu_{torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__};
  torch::Library autograd_{torch::Library::IMPL, "aten", DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__};
  torch::Library npuBelowStockAutograd_{torch::Library::IMPL, "aten", DispatchKey::PrivateUse2, __FILE__, __LINE__};
};

// Hands over what waits in torch_npu's task queue for this thread's device.
void Drain() {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  SynchronizeDevice(guard.getDevice());
}

void Install() {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  // Never destroyed: the registrations last as long as the process, past static destruction.
  auto* registrar = new Registrar;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.compare(0, NAMESPACE.size(), NAMESPACE) != 0 || IsKept(name.name.substr(NAMESPACE.size()))) {
      continue;
    }
    if (const auto op = dispatcher.findSchema(name)) {
      registrar->Register(*op);
    }
  }
}

}  // namespace
}  // namespace twin

extern "C" __attribute__((visibility("default"))) void twinInstallAten() {
  static std::once_flag once;
  std::call_once(once, twin::Install);
  twinCountsDrain(twin::Drain);
}
