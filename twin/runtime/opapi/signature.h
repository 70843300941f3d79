// An aclnn function as a table row: its name, its arguments, and the data types that each of them may have.
#pragma once
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "arguments.h"

namespace twin::opapi {

// A set of data types, one bit for each at::ScalarType.
using TypeSet = uint64_t;

class Signature {
 public:
  // `text`: "(In, self), (Out, out)", the kinds and names as the definition has them.
  Signature(const char* function, std::initializer_list<const char*> names, const char* text);
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;

  const char* Function() const { return function_; }
  const char* Name(size_t i) const { return names_[i]; }
  std::string Text() const { return std::string(function_) + " takes " + text_; }

  // A call whose arguments were accepted.
  void Count() const { calls_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t Calls() const { return calls_.load(std::memory_order_relaxed); }

  template <class Held>
  void CheckType(size_t i, const Held& held) const {
    if constexpr (std::is_base_of_v<HeldTensor, Held>) {
      CheckTensor(i, held);
    } else if constexpr (std::is_same_v<Held, HeldInputList> || std::is_same_v<Held, HeldOutputList>) {
      for (const auto& member : held.members) {
        CheckTensor(i, member);
      }
    }
  }

 private:
  void CheckTensor(size_t i, const HeldTensor& held) const;

  const char* function_;
  std::vector<const char*> names_;
  const char* text_;
  std::vector<TypeSet> types_;
  mutable std::atomic<uint64_t> calls_{0};
};

// The data types that `argument` of `function` may have (types.cpp).
TypeSet TypesOf(const std::string& function, const std::string& argument);

}  // namespace twin::opapi
