// Kernels are compiled with -fsanitize=integer-divide-by-zero. Its handler, otherwise the sanitizer's, is here, so that
// a division by zero (E-37) is reported like every other fault of a kernel.
#include <cstdint>
#include <string>

#include "scheduler.h"

namespace {

// The layout is part of the compiler's interface.
struct SourceLocation {
  const char* file;
  uint32_t line;
  uint32_t column;
};

}  // namespace

extern "C" void __ubsan_handle_divrem_overflow(void* data, uintptr_t, uintptr_t) {
  auto* core = twin::currentCore;
  if (core == nullptr) {
    return;  // host code of the operator: the processor's own trap follows
  }
  const auto& where = *static_cast<const SourceLocation*>(data);
  const std::string file = where.file == nullptr ? "" : where.file;
  const std::string place = file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line);
  core->scheduler->Drop(*core, std::string("operator ") + core->scheduler->launch.name + " block " +
                                   std::to_string(core->block) + " call " + core->call +
                                   ": [E-37] division by zero at " + place);
}
