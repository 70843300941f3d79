// Tensors of an aclnn call as kernels get them: dense, and with their own address.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "twin/handles.h"

namespace twin {

struct View {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  unsigned char* data = nullptr;  // of element 0
  int64_t elementBytes = 0;
  std::string name;
  bool output = false;

  int64_t Elements() const;
  int64_t Bytes() const { return Elements() * elementBytes; }
  bool Contiguous() const;
  void Gather(unsigned char* dense) const;
  void Scatter(const unsigned char* dense) const;
};

View ViewOf(const aclTensor& tensor, const std::string& name, bool output);

}  // namespace twin
