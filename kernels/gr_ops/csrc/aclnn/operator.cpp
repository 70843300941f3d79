#include "aclnn/operator.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace gr_ops::aclnn {
namespace {

// CANN's host-side pool of one call; the functions are optional.
struct HugeMemory {
  int (*init)(void*, bool) = find_function<int (*)(void*, bool)>("InitHugeMemThreadLocal");
  void (*uninit)(void*, bool) = find_function<void (*)(void*, bool)>("UnInitHugeMemThreadLocal");
  void (*release)(void*, bool) = find_function<void (*)(void*, bool)>("ReleaseHugeMem");

  static const HugeMemory& functions() {
    static const HugeMemory table;
    return table;
  }
};

class HugeMemoryScope {
 public:
  HugeMemoryScope() {
    if (HugeMemory::functions().init != nullptr) HugeMemory::functions().init(nullptr, false);
  }
  ~HugeMemoryScope() {
    if (HugeMemory::functions().uninit != nullptr) HugeMemory::functions().uninit(nullptr, false);
  }
  HugeMemoryScope(const HugeMemoryScope&) = delete;
  HugeMemoryScope& operator=(const HugeMemoryScope&) = delete;
};

// libtorch_npu.so has loaded the runtime library already; it is not linked, since it is absent at build time.
std::string recent_error() {
  using GetRecentErrMsg = const char* (*)();
  void* runtime = dlopen("libascendcl.so", RTLD_LAZY | RTLD_NOLOAD);
  if (runtime == nullptr) return {};
  const auto get = reinterpret_cast<GetRecentErrMsg>(dlsym(runtime, "aclGetRecentErrMsg"));
  const char* text = get == nullptr ? nullptr : get();
  std::string result = text == nullptr ? "" : std::string(": ") + text;
  dlclose(runtime);
  return result;
}

const char* meaning(int status) {
  switch (status) {
    case 161001:
      return "a required argument is null";
    case 161002:
      return "an argument is invalid";
    case 361001:
      return "runtime failure";
    case 561001:
      return "shape inference failed";
    case 561002:
      return "tiling failed";
    case 561003:
      return "no kernel for these dtypes or this SoC";
    default:
      return "internal error";
  }
}

}  // namespace

void run(const std::string& name, const Plan& plan, Execute execute, std::shared_ptr<Arguments> arguments) {
  // false: the raw stream without draining the task queue.
  aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
  const HugeMemoryScope scope;
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  if (const int status = plan(&workspace_size, &executor); status != 0) {
    TORCH_CHECK(false, name, "GetWorkspaceSize failed with ", status, " (", meaning(status), ")", recent_error());
  }
  // Freed on return: the allocator gives its block to later work of the same stream only. A launch that held it would
  // keep one workspace per call that waits in the queue, or in the queue of calls to be released.
  at::Tensor workspace;
  void* memory = nullptr;
  if (workspace_size > 0) {
    workspace = at::empty({static_cast<int64_t>(workspace_size)},
                          at::TensorOptions(c10::DeviceType::PrivateUse1).dtype(at::kByte));
    memory = workspace.data_ptr();
  }
  const auto launch = [memory, workspace_size, executor, stream, execute,
                       arguments = std::move(arguments)]() mutable -> int {
    const int status = execute(memory, workspace_size, executor, stream);
    arguments.reset();
    if (HugeMemory::functions().release != nullptr) HugeMemory::functions().release(nullptr, false);
    return status;
  };
  at_npu::native::OpCommand::RunOpApiV2(name, launch);
}

}  // namespace gr_ops::aclnn
