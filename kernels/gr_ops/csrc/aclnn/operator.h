#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "aclnn/arguments.h"
#include "aclnn/interface.h"
#include "aclnn/libraries.h"
#include "aclnn/types.h"

// The two-phase call of an aclnn operator: aclnn<Name>GetWorkspaceSize plans it, aclnn<Name> puts it on a stream.
namespace gr_ops::aclnn {

using Execute = int (*)(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

// Phase one of a call, already bound to its arguments.
using Plan = std::function<int(uint64_t* workspace_size, aclOpExecutor** executor)>;

// Runs phase one now and hands phase two to torch_npu, which runs it now or in its queue's consumer thread; that
// keeps the order with torch_npu's own operators. arguments live until phase two has returned.
void run(const std::string& name, const Plan& plan, Execute execute, std::shared_ptr<Arguments> arguments);

// An operator with the exact C parameter types of its GetWorkspaceSize function, without the two results: a width
// that differs from the callee's is not an error that the compiler or the linker could see, so the package says which
// interface it has.
template <typename... Parameters>
class Operator {
 public:
  explicit Operator(const char* name)
      : name_(name),
        get_workspace_size_(require_function<GetWorkspaceSize>((name_ + "GetWorkspaceSize").c_str())),
        execute_(require_function<Execute>(name)) {
    check_interface(name, reinterpret_cast<void*>(execute_));
  }

  void operator()(std::shared_ptr<Arguments> arguments, Parameters... parameters) const {
    const Plan plan = [&](uint64_t* workspace_size, aclOpExecutor** executor) {
      return get_workspace_size_(parameters..., workspace_size, executor);
    };
    run(name_, plan, execute_, std::move(arguments));
  }

 private:
  using GetWorkspaceSize = int (*)(Parameters..., uint64_t* workspace_size, aclOpExecutor** executor);

  std::string name_;
  GetWorkspaceSize get_workspace_size_;
  Execute execute_;
};

}  // namespace gr_ops::aclnn
