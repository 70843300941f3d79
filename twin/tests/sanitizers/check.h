// What the programs of this folder share: calls that must succeed, and a body run by several threads.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"

namespace sanitized {

inline void Require(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

inline void Call(const char* name, int code) {
  if (code != 0) {
    const char* text = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(name) + " returned " + std::to_string(code) + ": " +
                             (text == nullptr ? "" : text));
  }
}

template <typename F>
void InThreads(unsigned count, F body) {
  std::vector<std::string> faults(count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([i, &body, &faults] {
      try {
        body(i);
      } catch (const std::exception& fault) {
        faults[i] = fault.what();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& fault : faults) {
    Require(fault.empty(), fault);
  }
}

template <typename F>
int Main(const char* name, F body) {
  try {
    body();
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s: %s\n", name, fault.what());
    return 1;
  }
  std::printf("%s: ok\n", name);
  return 0;
}

}  // namespace sanitized

#define CALL(expression) ::sanitized::Call(#expression, expression)
