// What Matmul reads and writes: operands in GM or in the unified buffer, and rows of results.
#pragma once
#include <vector>

#include "ascendc/product.h"
#include "ascendc/tensor.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
constexpr twin::CubeType CubeTypeOf() {
  static_assert(kOneOf<T, half, bfloat16_t, float>, "E-30: this twin multiplies half, bfloat16_t and float");
  return std::is_same<T, float>::value  ? twin::CubeType::Float
         : std::is_same<T, half>::value ? twin::CubeType::Half
                                        : twin::CubeType::Bfloat16;
}

template <typename T>
T FromAccumulator(float value) {
  if constexpr (std::is_same<T, bfloat16_t>::value) {
    return ToBfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
float ToAccumulator(T value) {
  if constexpr (std::is_same<T, bfloat16_t>::value) {
    return ToFloat(value);
  } else {
    return static_cast<float>(value);
  }
}

// A or B as the caller has set it.
template <typename T>
struct MatmulOperand {
  GlobalTensor<T> gm;
  LocalTensor<T> local;
  bool transposed = false;
  bool inGm = true;
  bool set = false;

  void Set(const GlobalTensor<T>& tensor, bool trans) {
    gm = tensor;
    transposed = trans;
    inGm = true;
    set = true;
  }
  void Set(const LocalTensor<T>& tensor, bool trans) {
    local = tensor;
    transposed = trans;
    inGm = false;
    set = true;
    sent.clear();
  }
  // A tensor in VECOUT is sent through GM, once, when a product asks for it first; the request follows when that has
  // ended.
  void Send(uint64_t elements) {
    if (inGm || sent.size() == elements) {
      return;
    }
    auto& core = twin::Core::Current();
    core.Issue(PIPE_MTE3, "Matmul, tensor in VECOUT");
    const auto* from = reinterpret_cast<const T*>(core.UbRead(local.Range(), 0, elements * sizeof(T)));
    core.RequireDefined(local.Range(), 0, elements * sizeof(T));
    core.KnowFinished(PIPE_S, PIPE_MTE3);
    core.CubeCarries(local.Range(), 0, 1, elements * sizeof(T), 0, true);
    sent.assign(from, from + elements);
  }
  // The part of the stored matrix from (row, column), `rows` x `columns` as stored.
  twin::CubeMatrix Part(uint64_t row, uint64_t column, uint64_t rows, uint64_t columns, uint64_t pitch,
                        uint64_t localPitch) const {
    auto& core = twin::Core::Current();
    if (!inGm) {
      const uint64_t at = row * localPitch + column;
      core.CubeCarries(local.Range(), at * sizeof(T), rows, columns * sizeof(T), localPitch * sizeof(T), false);
      return {sent.data() + at, localPitch, CubeTypeOf<T>(), transposed};
    }
    const uint64_t at = row * pitch + column;
    gm.Check(at * sizeof(T), ((rows - 1) * pitch + columns) * sizeof(T));
    const void* data = core.GmReadRows(gm.GetPhyAddr() + at, rows, columns * sizeof(T), pitch * sizeof(T));
    return {data, pitch, CubeTypeOf<T>(), transposed};
  }
  // The same of a matrix in NZ: groups of columns of 32 bytes behind each other, each with its rows below each other,
  // padded to 16 rows. `gm` starts at a group, at any row.
  twin::CubeMatrix PartOfNz(uint64_t row, uint64_t column, uint64_t rows, uint64_t columns, uint64_t storedRows) const {
    constexpr uint64_t width = 32 / sizeof(T);
    const uint64_t group = (storedRows + 15) / 16 * 16 * width;
    const uint64_t first = column / width, groups = (column + columns - 1) / width - first + 1;
    const uint64_t at = first * group + row * width;
    gm.Check(at * sizeof(T), ((groups - 1) * group + rows * width) * sizeof(T));
    const auto* data = reinterpret_cast<const T*>(
        twin::Core::Current().GmReadRows(gm.GetPhyAddr() + at, groups, rows * width * sizeof(T), group * sizeof(T)));
    dense.resize(rows * columns);
    for (uint64_t c = 0; c < columns; ++c) {
      const T* from = data + ((column + c) / width - first) * group + (column + c) % width;
      for (uint64_t r = 0; r < rows; ++r) {
        dense[r * columns + c] = from[r * width];
      }
    }
    return {dense.data(), columns, CubeTypeOf<T>(), transposed};
  }
  std::vector<T> sent;           // of a tensor in VECOUT
  mutable std::vector<T> dense;  // of NZ
};

// Outputs and workspace start as a pattern (launch_plan.cpp).
template <typename CT>
bool Untouched(const CT* row, uint32_t count) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  for (uint64_t i = 0; i < count * sizeof(CT); ++i) {
    if (bytes[i] != 0xA5) {
      return false;
    }
  }
  return true;
}

// Writes a row of results, or adds it, or keeps the larger or the smaller (enAtomic 0 to 3).
template <typename CT>
void Combine(const float* from, CT* to, uint32_t count, uint8_t enAtomic) {
  switch (enAtomic) {
    case 0:
      for (uint32_t i = 0; i < count; ++i) {
        to[i] = FromAccumulator<CT>(from[i]);
      }
      break;
    case 1:
      for (uint32_t i = 0; i < count; ++i) {
        const auto rounded = ToAccumulator(FromAccumulator<CT>(from[i]));
        to[i] = FromAccumulator<CT>(ToAccumulator(to[i]) + rounded);
      }
      break;
    default:
      for (uint32_t i = 0; i < count; ++i) {
        const float old = ToAccumulator(to[i]);
        const float value = ToAccumulator(FromAccumulator<CT>(from[i]));
        to[i] = FromAccumulator<CT>((enAtomic == 2) == (value > old) ? value : old);
      }
      break;
  }
}

}  // namespace twin_detail

}  // namespace AscendC
