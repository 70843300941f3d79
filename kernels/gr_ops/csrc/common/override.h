#pragma once

#include <torch/library.h>

#include <memory>
#include <utility>

// Kernels of ours in place of fbgemm_gpu's CPU kernels, which refuse or corrupt some legal calls
// (docs/generated/fbgemm-names.md lists them). Autograd goes with them: fbgemm's differentiable form sits on its CPU
// kernels.
namespace gr_ops {

// False if MXREC_NO_FBGEMM_OVERRIDE=1 when the library is loaded.
bool override_enabled();

// Registers kernels in fbgemm::, for CPU or AutogradCPU. PyTorch warns about each kernel that is replaced, and here it
// is meant: the warnings are held back for the registrar's life.
class FbgemmRegistrar {
 public:
  explicit FbgemmRegistrar(torch::Library& library);
  ~FbgemmRegistrar();
  FbgemmRegistrar(const FbgemmRegistrar&) = delete;
  FbgemmRegistrar& operator=(const FbgemmRegistrar&) = delete;

  template <typename Kernel>
  void impl(const char* name, Kernel&& kernel) {
    if (is_ours(name)) library_.impl(name, std::forward<Kernel>(kernel));
  }

 private:
  struct Silence;

  // True where fbgemm has no CPU kernel, or where ours goes before it.
  static bool is_ours(const char* name);

  torch::Library& library_;
  std::unique_ptr<Silence> silence_;
};

}  // namespace gr_ops
