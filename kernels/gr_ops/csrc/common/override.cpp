#include "common/override.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace gr_ops {
namespace {

class SilentHandler : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

// Whether fbgemm had a CPU kernel of its own, asked once per operator: before ours is there.
bool has_stock_cpu_kernel(const std::string& name) {
  static std::map<std::string, bool> answers;
  const auto known = answers.find(name);
  if (known != answers.end()) return known->second;
  const auto op = c10::Dispatcher::singleton().findOp({name, ""});
  return answers[name] = op.has_value() && op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

}  // namespace

bool override_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("MXREC_NO_FBGEMM_OVERRIDE");
    return value == nullptr || std::strcmp(value, "1") != 0;
  }();
  return enabled;
}

struct FbgemmRegistrar::Silence {
  SilentHandler handler;
  c10::WarningUtils::WarningHandlerGuard guard{&handler};
};

FbgemmRegistrar::FbgemmRegistrar(torch::Library& library) : library_(library), silence_(std::make_unique<Silence>()) {}

FbgemmRegistrar::~FbgemmRegistrar() = default;

bool FbgemmRegistrar::is_ours(const char* name) {
  const bool stock = has_stock_cpu_kernel(std::string("fbgemm::") + name);
  return !stock || override_enabled();
}

}  // namespace gr_ops
