#include "processes.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace twin::smi {
namespace {
bool MapsTheRuntime(const std::filesystem::path& process) {
  std::ifstream maps(process / "maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find("/libascendcl.so") != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool IsNumber(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); });
}
}  // namespace

std::vector<Process> UsersOfTheRuntime() {
  std::vector<Process> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (!IsNumber(name) || std::stol(name) == getpid() || !MapsTheRuntime(entry.path())) {
      continue;
    }
    std::string command;
    std::getline(std::ifstream(entry.path() / "comm"), command);
    found.push_back({static_cast<pid_t>(std::stol(name)), command});
  }
  std::sort(found.begin(), found.end(), [](const Process& a, const Process& b) { return a.id < b.id; });
  return found;
}
}  // namespace twin::smi
