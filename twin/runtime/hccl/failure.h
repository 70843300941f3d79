// What ends a collective: the HCCL code and a text that names call, communicator and ranks.
#pragma once
#include <stdexcept>
#include <string>

#include "hccl/hccl_types.h"

namespace twin::hccl {
class Failure : public std::runtime_error {
 public:
  Failure(HcclResult code, const std::string& text) : std::runtime_error(text), code_(code) {}
  HcclResult Code() const { return code_; }

 private:
  HcclResult code_;
};
}  // namespace twin::hccl
