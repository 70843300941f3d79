// aclSetCompileopt, aclGetCompileopt: kept and given back. Nothing is compiled, so no option changes a result.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "acl/acl_op_compiler.h"
#include "refusal.h"

using namespace twin;

namespace {

class Options {
 public:
  void Set(aclCompileOpt option, const char* value) {
    const std::lock_guard lock(mutex_);
    values_[option] = value;
  }
  std::string Get(aclCompileOpt option) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(option);
    return found == values_.end() ? std::string() : found->second;
  }

 private:
  std::mutex mutex_;
  // An Atlas A2 does not compile operators at run time unless it is asked to.
  std::map<aclCompileOpt, std::string> values_{{ACL_OP_JIT_COMPILE, "disable"}};
};

// Never destroyed: torch_npu's threads may ask while the process exits.
Options& CompileOptions() {
  static Options& options = *new Options;
  return options;
}

bool Known(aclCompileOpt option) { return option >= ACL_PRECISION_MODE && option <= ACL_OP_DEBUG_OPTION; }

}  // namespace

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  if (!Known(opt) || value == nullptr) {
    return Refuse(ACL_ERROR_INVALID_PARAM, "aclSetCompileopt(opt=%d, value=%s): unknown option or null",
                  static_cast<int>(opt), value == nullptr ? "null" : value);
  }
  CompileOptions().Set(opt, value);
  return ACL_SUCCESS;
}

size_t aclGetCompileoptSize(aclCompileOpt opt) { return CompileOptions().Get(opt).size() + 1; }

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  const std::string held = CompileOptions().Get(opt);
  if (!Known(opt) || value == nullptr || length <= held.size()) {
    return Refuse(ACL_ERROR_INVALID_PARAM,
                  "aclGetCompileopt(opt=%d, value=%p, length=%zu): unknown, null or shorter than %zu",
                  static_cast<int>(opt), static_cast<void*>(value), length, held.size() + 1);
  }
  std::memcpy(value, held.c_str(), held.size() + 1);
  return ACL_SUCCESS;
}
