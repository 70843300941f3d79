#include "signature.h"

namespace twin::opapi {
namespace {

// Filled while the library is loaded, read afterwards; never destroyed.
std::string& List() {
  static auto& list = *new std::string;
  return list;
}

std::vector<const Signature*>& All() {
  static auto& all = *new std::vector<const Signature*>;
  return all;
}

std::string TypeNames(TypeSet set) {
  std::string names;
  for (int type = 0; type < static_cast<int>(at::ScalarType::NumOptions); ++type) {
    if (set >> type & 1) {
      names += (names.empty() ? "" : ", ") + std::string(c10::toString(static_cast<at::ScalarType>(type)));
    }
  }
  return names;
}

}  // namespace

Signature::Signature(const char* function, std::initializer_list<const char*> names, const char* text)
    : function_(function), names_(names), text_(text) {
  for (const char* name : names_) {
    types_.push_back(TypesOf(function, name));
  }
  List() += std::string(function) + " " + text + "\n";
  All().push_back(this);
}

void Signature::CheckTensor(size_t i, const HeldTensor& held) const {
  if (!held.view) {
    return;
  }
  const auto type = ScalarTypeOf(held.view->dataType, names_[i]);
  if (!(types_[i] >> static_cast<int>(type) & 1)) {
    throw Refusal(INVALID_ARGUMENT, std::string(names_[i]) + " has the data type " + c10::toString(type) +
                                        "; supported are " + TypeNames(types_[i]));
  }
}

}  // namespace twin::opapi

// One line for each function: "aclnnAdd (In, self), (In, other), (Number, alpha), (Out, out)".
extern "C" __attribute__((visibility("default"))) const char* twinAclnnFunctions() {
  return twin::opapi::List().c_str();
}

// One line for each function that has been called in this process, with the number of calls whose arguments were
// accepted: "aclnnAdd 3". Valid until the same thread asks again.
extern "C" __attribute__((visibility("default"))) const char* twinAclnnCalls() {
  thread_local std::string calls;
  calls.clear();
  for (const auto* signature : twin::opapi::All()) {
    if (const auto count = signature->Calls(); count != 0) {
      calls += std::string(signature->Function()) + " " + std::to_string(count) + "\n";
    }
  }
  return calls.c_str();
}
