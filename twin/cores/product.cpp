#include "ascendc/product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ascendc/bulk.h"
#include "clones.h"
#include "launch_work.h"

namespace twin {

namespace {

constexpr uint32_t kRows = 4;  // of a register tile
constexpr uint32_t kColumns = 16;
constexpr uint32_t kDepth = 256;  // k of a packed panel, which stays in the first-level cache

// `count` elements of one stored row as floats.
const float* StoredRow(const CubeMatrix& matrix, uint64_t row, uint64_t column, uint32_t count, float* buffer) {
  const uint64_t at = row * matrix.pitch + column;
  if (matrix.type == CubeType::Float) {
    return static_cast<const float*>(matrix.data) + at;
  }
  const auto* from = static_cast<const uint16_t*>(matrix.data) + at;
  matrix.type == CubeType::Half ? WidenHalf(from, buffer, count) : WidenBfloat16(from, buffer, count);
  return buffer;
}

// dst[row, column] with `pitch`, for rows [row0, row0 + rows) and columns [column0, column0 + columns) of the matrix
// that the product needs.
void Pack(const CubeMatrix& matrix, uint32_t row0, uint32_t rows, uint32_t column0, uint32_t columns, uint32_t pitch,
          float* dst, std::vector<float>& buffer) {
  const uint32_t outer = matrix.transposed ? columns : rows;
  const uint32_t inner = matrix.transposed ? rows : columns;
  buffer.resize(inner);
  for (uint32_t i = 0; i < outer; ++i) {
    const float* from = matrix.transposed ? StoredRow(matrix, column0 + i, row0, inner, buffer.data())
                                          : StoredRow(matrix, row0 + i, column0, inner, buffer.data());
    if (!matrix.transposed) {
      std::copy_n(from, inner, dst + static_cast<uint64_t>(i) * pitch);
      continue;
    }
    for (uint32_t j = 0; j < inner; ++j) {
      dst[static_cast<uint64_t>(j) * pitch + i] = from[j];
    }
  }
}

// Adds a[rows, depth] (pitch kDepth) times b[depth, columns] (pitch bPitch, padded with zeros) to c[rows, columns].
// kRegister: bytes of a register. The sums of a longer vector would go through the stack.
template <uint32_t kRegister>
inline __attribute__((always_inline)) void AddPanelsBy(const float* a, const float* b, uint64_t bPitch, uint32_t rows,
                                                       uint32_t columns, uint32_t depth, uint64_t cPitch, float* c) {
  typedef float Lanes __attribute__((vector_size(kRegister)));
  constexpr uint32_t kVectors = kColumns * sizeof(float) / kRegister;
  for (uint32_t j = 0; j < columns; j += kColumns) {
    const uint32_t width = std::min(kColumns, columns - j);
    for (uint32_t i = 0; i < rows; i += kRows) {
      const uint32_t height = std::min(kRows, rows - i);
      const float* lines[kRows];
      Lanes sums[kRows][kVectors];
      for (uint32_t r = 0; r < kRows; ++r) {
        const uint32_t row = i + std::min(r, height - 1);
        lines[r] = a + static_cast<uint64_t>(row) * kDepth;
        float line[kColumns] = {};
        std::memcpy(line, c + row * cPitch + j, width * sizeof(float));
        for (uint32_t v = 0; v < kVectors; ++v) {
          std::memcpy(&sums[r][v], line + v * kColumns / kVectors, kRegister);
        }
      }
      for (uint32_t p = 0; p < depth; ++p) {
        Lanes terms[kVectors];
        for (uint32_t v = 0; v < kVectors; ++v) {
          std::memcpy(&terms[v], b + p * bPitch + j + v * kColumns / kVectors, kRegister);
        }
        for (uint32_t r = 0; r < kRows; ++r) {
          for (uint32_t v = 0; v < kVectors; ++v) {
            sums[r][v] += lines[r][p] * terms[v];
          }
        }
      }
      for (uint32_t r = 0; r < height; ++r) {
        float line[kColumns];
        for (uint32_t v = 0; v < kVectors; ++v) {
          std::memcpy(line + v * kColumns / kVectors, &sums[r][v], kRegister);
        }
        std::memcpy(c + (i + r) * cPitch + j, line, width * sizeof(float));
      }
    }
  }
}

BY_REGISTER(AddPanels,
            (const float* a, const float* b, uint64_t bPitch, uint32_t rows, uint32_t columns, uint32_t depth,
             uint64_t cPitch, float* c),
            a, b, bPitch, rows, columns, depth, cPitch, c)

}  // namespace

void Multiply(const CubeMatrix& a, const CubeMatrix& b, uint32_t m, uint32_t n, uint32_t k, bool accumulate, float* c) {
  launchWork.products += static_cast<uint64_t>(m) * n * k;
  if (!accumulate) {
    std::fill_n(c, static_cast<uint64_t>(m) * n, 0.0f);
  }
  thread_local std::vector<float> left;
  thread_local std::vector<float> right;
  thread_local std::vector<float> buffer;
  const uint32_t padded = (n + kColumns - 1) / kColumns * kColumns;
  left.resize(static_cast<uint64_t>(m) * kDepth);
  for (uint32_t from = 0; from < k; from += kDepth) {
    const uint32_t depth = std::min(kDepth, k - from);
    right.assign(static_cast<uint64_t>(depth) * padded, 0.0f);
    Pack(a, 0, m, from, depth, kDepth, left.data(), buffer);
    Pack(b, from, depth, 0, n, padded, right.data(), buffer);
    AddPanels(left.data(), right.data(), padded, m, n, depth, n, c);
  }
}

}  // namespace twin
