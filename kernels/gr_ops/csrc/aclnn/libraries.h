#pragma once

#include <string>
#include <vector>

// Where operators are found: vendor packages first, then CANN's own libraries, in the order of torch_npu.
// ASCEND_CUSTOM_OPP_PATH and ASCEND_OPP_PATH are read once, as torch_npu does.
namespace gr_ops::aclnn {

class OperatorLibraries {
 public:
  static const OperatorLibraries& instance();

  // nullptr where no library has the symbol.
  void* find(const char* symbol) const;

  // As find, but raises an error that names the libraries searched and the variable to set.
  void* require(const char* symbol) const;

 private:
  OperatorLibraries();
  void open_vendor(const std::string& vendor_directory);
  void open_builtin(const std::string& library);
  std::string search_report() const;

  std::vector<void*> handles_;  // stay open until the process ends: kernels may still be queued at exit
  std::vector<std::string> report_;
};

template <typename Function>
Function find_function(const char* symbol) {
  return reinterpret_cast<Function>(OperatorLibraries::instance().find(symbol));
}

template <typename Function>
Function require_function(const char* symbol) {
  return reinterpret_cast<Function>(OperatorLibraries::instance().require(symbol));
}

}  // namespace gr_ops::aclnn
