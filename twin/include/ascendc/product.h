// The arithmetic of the cube: a product in fp32, terms added in ascending order of k.
#pragma once
#include <cstdint>

namespace twin {

enum class CubeType : uint8_t { Float, Half, Bfloat16 };

// A row-major matrix in memory. `transposed`: it is stored as the transpose of what the product needs.
struct CubeMatrix {
  const void* data;
  uint64_t pitch;  // elements from row to row as stored
  CubeType type;
  bool transposed;
};

// c[m, n] (dense) = a[m, k] b[k, n], added to c's content if `accumulate`.
void Multiply(const CubeMatrix& a, const CubeMatrix& b, uint32_t m, uint32_t n, uint32_t k, bool accumulate, float* c);

}  // namespace twin
