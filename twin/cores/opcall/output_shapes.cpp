#include "output_shapes.h"

#include <algorithm>
#include <cstring>

#include "ascendc/launch.h"

namespace twin {

namespace {

constexpr uint32_t kWideMark = 0x80000000u;
constexpr uint64_t kMostDims = 8;

template <typename Word>
std::vector<int64_t> Dims(const unsigned char* record, uint64_t count) {
  Word words[1 + kMostDims];
  std::memcpy(words, record, sizeof(words));
  return {words + 1, words + 1 + count};
}

bool Untouched(const unsigned char* from, const unsigned char* to) {
  return std::all_of(from, to, [](unsigned char byte) { return byte == kPoison; });
}

std::string Text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(dim);
  }
  return text + "]";
}

// Elements, or more than `limit` where a product of them would be.
uint64_t ElementsUpTo(const std::vector<int64_t>& dims, uint64_t limit) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return 0;
  }
  uint64_t elements = 1;
  for (const int64_t dim : dims) {
    if (static_cast<uint64_t>(dim) > limit / elements) {
      return limit + 1;
    }
    elements *= static_cast<uint64_t>(dim);
  }
  return elements;
}

std::string TakeShape(const ShapedOutput& output, const unsigned char* record) {
  const std::string what = "the shape of " + output.name + " (OutputShapeDependOnCompute) ";
  if (Untouched(record, record + sizeof(uint64_t))) {
    return what + "was not written: it goes to the parameter behind the last output";
  }
  uint32_t first = 0;
  std::memcpy(&first, record, sizeof(first));
  const bool wide = (first & kWideMark) != 0;
  const uint64_t count = first & ~kWideMark;
  if (count > kMostDims) {
    return what + "has " + std::to_string(count) + " dimensions, at most 8 fit";
  }
  if (!wide && !Untouched(record + (1 + count) * sizeof(uint32_t), record + kShapeRecordBytes)) {
    return what + "has more than its " + std::to_string(count) +
           " dimensions: words of 64 bits are marked by bit 31 of the first, others are read as 32 bits wide";
  }
  const auto dims = wide ? Dims<uint64_t>(record, count) : Dims<uint32_t>(record, count);
  const auto capacity = static_cast<uint64_t>(output.capacity);
  if (ElementsUpTo(dims, capacity) > capacity) {
    return what + "is " + Text(dims) + ", the tensor has room for " + std::to_string(capacity) + " elements";
  }
  // Whoever destroyed the handle cannot read its shape.
  if (twinHandleKind(output.handle) == HandleKind::TENSOR) {
    output.handle->viewDims = dims;
    output.handle->strides.assign(count, 1);
    for (std::size_t i = count; i > 1; --i) {
      output.handle->strides[i - 2] = output.handle->strides[i - 1] * dims[i - 1];
    }
  }
  return "";
}

}  // namespace

std::string TakeShapes(const std::vector<ShapedOutput>& outputs, const unsigned char* records) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string fault = TakeShape(outputs[i], records + i * kShapeRecordBytes);
    if (!fault.empty()) {
      return fault;
    }
  }
  return "";
}

}  // namespace twin
