// Shapes that a kernel writes: outputs marked OutputShapeDependOnCompute are given as large as they can get.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "twin/handles.h"

namespace twin {

// An output whose shape is in a record: 9 words of 64 bits, the number of dimensions and up to 8 of them. With bit 31
// of the first the words are read as 64 bits wide, without it as 32 bits. The record of the next output lies 72 bytes
// behind in both cases; the documentation says so of words of 64 bits only.
struct ShapedOutput {
  aclTensor* handle;
  std::string name;
  int64_t capacity;  // elements
};

constexpr std::size_t kShapeRecordBytes = 72;

// Gives the handles that still exist the shapes in `records`. Empty, or what is wrong with them.
std::string TakeShapes(const std::vector<ShapedOutput>& outputs, const unsigned char* records);

}  // namespace twin
