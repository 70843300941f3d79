// Output for debugging: it is printed at once, each line after its block.
#pragma once
#include <cstdio>

#include "ascendc/tensor.h"

namespace AscendC {

namespace twin_detail {

template <typename T>
T Passed(T argument) {
  return argument;
}
template <typename Tensor>
typename Tensor::PrimType Passed(const Element<Tensor>& element) {
  return element;
}

}  // namespace twin_detail

template <class... Arguments>
void printf(const char* format, Arguments... arguments) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  std::printf(format, twin_detail::Passed(arguments)...);
#pragma GCC diagnostic pop
}

namespace twin_detail {

template <typename T>
double Printed(T value) {
  return static_cast<double>(value);
}
inline double Printed(bfloat16_t value) { return static_cast<double>(ToFloat(value)); }

template <typename T>
void Dump(const T* values, uint32_t description, uint32_t count) {
  std::printf("DumpTensor: block %lld, desc %u:", static_cast<long long>(twin::Core::Current().BlockIdx()),
              description);
  for (uint32_t i = 0; i < count; ++i) {
    std::printf(" %g", Printed(values[i]));
  }
  std::printf("\n");
}

}  // namespace twin_detail

template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize) {
  const uint32_t count = dumpSize < tensor.GetSize() ? dumpSize : tensor.GetSize();
  twin_detail::Dump(reinterpret_cast<const T*>(twin::Core::Current().UbData(tensor.Range())), desc, count);
}

}  // namespace AscendC

#define PRINTF(...) ::AscendC::printf(__VA_ARGS__)
