// The processes that use the emulated devices.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace twin::smi {
struct Process {
  pid_t id;
  std::string name;
};

// Those that have an emulated libascendcl.so mapped; of other users' processes nothing can be seen.
std::vector<Process> UsersOfTheRuntime();
}  // namespace twin::smi
