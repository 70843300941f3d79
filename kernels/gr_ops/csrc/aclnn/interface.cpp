#include "aclnn/interface.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <string>

#include "aclnn/interfaces.h"

namespace gr_ops::aclnn {
namespace {

const Interface* interface_of(const char* function) {
  for (const Interface& known : kInterfaces) {
    if (std::strcmp(known.function, function) == 0) return &known;
  }
  return nullptr;
}

// VENDOR of VENDOR/op_api/lib/libcust_opapi.so.
std::string vendor_of(const void* address) {
  Dl_info info{};
  std::string path = dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  for (int level = 0; level < 3; ++level) {
    const size_t slash = path.find_last_of('/');
    path.erase(slash == std::string::npos ? 0 : slash);
  }
  return path;
}

// What version.info of a vendor says of `key`; empty where it says nothing.
std::string info_of(const std::string& vendor, const std::string& key) {
  std::ifstream file(vendor + "/version.info");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.compare(0, key.size() + 1, key + "=") == 0) return line.substr(key.size() + 1);
  }
  return {};
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

}  // namespace

void check_interface(const char* function, void* address) {
  const Interface* expected = interface_of(function);
  if (expected == nullptr) return;
  const std::string vendor = vendor_of(address);
  const std::string found = info_of(vendor, "interface");
  TORCH_CHECK(found == expected->key, function, ": the operator package in ", vendor, " (",
              or_none(info_of(vendor, "package")), ", version ", or_none(info_of(vendor, "package_version")),
              ") is of another release than this gr_ops; expected interface ", expected->key, ", got ", or_none(found),
              ". Install the packages of this release: make install-ops, or bash ", expected->package, ".run");
}

}  // namespace gr_ops::aclnn
