#include "aclnn/libraries.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gr_ops::aclnn {
namespace {

constexpr const char* kPriorityKey = "load_priority=";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (part = trimmed(part); !part.empty()) parts.push_back(part);
  }
  return parts;
}

std::vector<std::string> vendors_by_priority(const std::string& vendors) {
  std::ifstream config(vendors + "/config.ini");
  const std::string key(kPriorityKey);
  for (std::string line; std::getline(config, line);) {
    if (line.compare(0, key.size(), key) == 0) return split(line.substr(key.size()), ',');
  }
  return {};
}

enum class Owner { self, root_for_user, refused };

// Root must not run another user's code; a user may trust root's and his own.
Owner check_owner(uid_t owner) {
  const uid_t user = geteuid();
  if (owner == user) return Owner::self;
  return owner == 0 ? Owner::root_for_user : Owner::refused;
}

}  // namespace

const OperatorLibraries& OperatorLibraries::instance() {
  static const OperatorLibraries libraries;
  return libraries;
}

OperatorLibraries::OperatorLibraries() {
  const std::string custom = environment("ASCEND_CUSTOM_OPP_PATH");
  for (const std::string& directory : split(custom, ':')) open_vendor(directory);
  if (custom.empty()) report_.push_back("ASCEND_CUSTOM_OPP_PATH is not set");

  const std::string opp = environment("ASCEND_OPP_PATH");
  if (opp.empty()) {
    report_.push_back("ASCEND_OPP_PATH is not set");
  } else {
    const std::string vendors = opp + "/vendors";
    const std::vector<std::string> names = vendors_by_priority(vendors);
    if (names.empty()) report_.push_back(vendors + "/config.ini: no vendor in load_priority");
    for (const std::string& name : names) open_vendor(vendors + "/" + name);
  }

  for (const char* part : {"math", "nn", "cv", "transformer", "legacy"}) {
    open_builtin(std::string("libopapi_") + part + ".so");
  }
  open_builtin("libopapi.so");
  for (const char* part : {"ops_infer", "ops_train", "math", "sparse", "fft", "rand"}) {
    open_builtin(std::string("libaclnn_") + part + ".so");
  }
}

void OperatorLibraries::open_vendor(const std::string& vendor_directory) {
  const std::string path = vendor_directory + "/op_api/lib/libcust_opapi.so";
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    report_.push_back(path + ": not there");
    return;
  }
  switch (check_owner(status.st_uid)) {
    case Owner::refused: {
      const std::string why = "owned by user " + std::to_string(status.st_uid) + ", but this process runs as user " +
                              std::to_string(geteuid()) + ": skipped";
      TORCH_WARN(path, ": ", why, ". Install the package as root or as the user that runs.");
      report_.push_back(path + ": " + why);
      return;
    }
    case Owner::root_for_user:
      TORCH_WARN_ONCE(path, " is owned by root and used by user ", geteuid(), ".");
      break;
    case Owner::self:
      break;
  }
  // Absolute, since the package's version.info is looked for beside it later (interface.cpp).
  const std::string place = std::filesystem::absolute(path).string();
  if (void* handle = dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    handles_.push_back(handle);
    report_.push_back(path + ": loaded");
  } else {
    const char* error = dlerror();
    report_.push_back(path + ": " + (error == nullptr ? "cannot be loaded" : error));
  }
}

void OperatorLibraries::open_builtin(const std::string& library) {
  if (void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    handles_.push_back(handle);
    report_.push_back(library + ": loaded");
  } else if (library == "libopapi.so") {
    const char* error = dlerror();
    report_.push_back(library + ": " + (error == nullptr ? "cannot be loaded" : error));
  }
}

void* OperatorLibraries::find(const char* symbol) const {
  for (void* handle : handles_) {
    if (void* address = dlsym(handle, symbol)) return address;
  }
  return nullptr;
}

void* OperatorLibraries::require(const char* symbol) const {
  void* address = find(symbol);
  TORCH_CHECK(address != nullptr, symbol, " was not found in any operator library. Searched:\n", search_report(),
              "Install the operator's package (mxrec_opp_<op>.run) and set ASCEND_OPP_PATH to the opp directory, or "
              "ASCEND_CUSTOM_OPP_PATH to the vendor's directory, before the process starts.");
  return address;
}

std::string OperatorLibraries::search_report() const {
  std::string text;
  for (const std::string& line : report_) text += "  " + line + "\n";
  return text;
}

}  // namespace gr_ops::aclnn
