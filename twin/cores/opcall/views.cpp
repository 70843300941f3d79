#include "views.h"

#include <cstring>

#include "graph/types.h"

namespace twin {

int64_t View::Elements() const {
  int64_t count = 1;
  for (const auto dim : dims) {
    count *= dim;
  }
  return count;
}

bool View::Contiguous() const {
  int64_t expected = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != expected) {
      return Elements() == 0;
    }
    expected *= dims[i];
  }
  return true;
}

namespace {

template <typename F>
void ForElements(const View& view, F f) {
  const int64_t count = view.Elements();
  std::vector<int64_t> index(view.dims.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(i, view.data + offset * view.elementBytes);
    for (std::size_t d = view.dims.size(); d-- > 0;) {
      offset += view.strides[d];
      if (++index[d] < view.dims[d]) {
        break;
      }
      offset -= view.strides[d] * view.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void View::Gather(unsigned char* dense) const {
  const auto bytes = static_cast<std::size_t>(elementBytes);
  ForElements(*this, [&](int64_t i, unsigned char* at) { std::memcpy(dense + i * elementBytes, at, bytes); });
}

void View::Scatter(const unsigned char* dense) const {
  const auto bytes = static_cast<std::size_t>(elementBytes);
  ForElements(*this, [&](int64_t i, unsigned char* at) { std::memcpy(at, dense + i * elementBytes, bytes); });
}

View ViewOf(const aclTensor& tensor, const std::string& name, bool output) {
  View view;
  view.dims = tensor.viewDims;
  view.strides = tensor.strides;
  if (view.strides.size() != view.dims.size()) {
    view.strides.assign(view.dims.size(), 1);
    for (std::size_t i = view.dims.size(); i-- > 1;) {
      view.strides[i - 1] = view.strides[i] * view.dims[i];
    }
  }
  view.elementBytes = ge::GetSizeByDataType(static_cast<ge::DataType>(tensor.dataType));
  view.data = static_cast<unsigned char*>(tensor.data) + tensor.offset * view.elementBytes;
  view.name = name;
  view.output = output;
  return view;
}

}  // namespace twin
