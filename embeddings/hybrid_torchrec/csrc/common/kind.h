#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hybrid_torchrec {

// The row of a number in a table of kinds; throws std::invalid_argument, with the numbers that are known, if none has
// it.
template <typename Kind, size_t count>
const Kind& find_kind(const Kind (&kinds)[count], const std::string& what, int64_t number) {
  std::string known;
  for (const Kind& kind : kinds) {
    if (kind.number == number) return kind;
    known += (known.empty() ? "" : ", ") + std::to_string(kind.number) + " (" + kind.name + ")";
  }
  throw std::invalid_argument("unknown " + what + " " + std::to_string(number) + "; valid: " + known);
}

}  // namespace hybrid_torchrec
