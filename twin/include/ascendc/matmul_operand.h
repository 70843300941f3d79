// What Matmul reads: operands in GM or in the unified buffer.
#pragma once
#include <algorithm>
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

// Of a stored matrix.
struct StoredShape {
  int32_t rows;
  int32_t columns;
};

// A or B as the caller has set it.
template <typename T>
struct MatmulOperand {
  // Columns of a group in NZ, which is 32 bytes wide: groups lie behind each other, each with its rows below each
  // other, padded to 16.
  static constexpr uint64_t kWidth = 32 / sizeof(T);

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
  template <bool nz>
  void Send(StoredShape shape) {
    const uint64_t elements = nz ? Groups(0, shape.columns) * GroupOf(shape) : uint64_t(shape.rows) * shape.columns;
    if (inGm || sent.size() == elements) {
      return;
    }
    auto& core = twin::Core::Current();
    core.Issue(PIPE_MTE3, "Matmul, tensor in VECOUT");
    const auto* from = reinterpret_cast<const T*>(core.UbRead(local.Range(), 0, elements * sizeof(T)));
    RequireDefined<nz>(shape);
    core.KnowFinished(PIPE_S, PIPE_MTE3);
    core.CubeCarries(local.Range(), 0, 1, elements * sizeof(T), 0, true);
    sent.assign(from, from + elements);
  }
  // The part of the stored matrix from (row, column), `rows` x `columns` as stored. In NZ `gm` starts at a group, at
  // any row.
  template <bool nz>
  twin::CubeMatrix Part(uint64_t row, uint64_t column, uint64_t rows, uint64_t columns, StoredShape shape) const {
    if constexpr (!nz) {
      const auto pitch = static_cast<uint64_t>(shape.columns);
      const T* data = Read(row * pitch + column, rows, columns, pitch);
      RequireWritten(row * pitch + column, rows, columns, pitch);
      return {data, pitch, CubeTypeOf<T>(), transposed};
    }
    const uint64_t group = GroupOf(shape), first = column / kWidth;
    const T* data = Read(first * group + row * kWidth, Groups(column, columns), rows * kWidth, group);
    // What fills up a group takes no part in a product.
    for (uint64_t c = column, next = 0; c < column + columns; c = next) {
      next = std::min((c / kWidth + 1) * kWidth, column + columns);
      RequireWritten(c / kWidth * group + row * kWidth + c % kWidth, rows, next - c, kWidth);
    }
    dense.resize(rows * columns);
    for (uint64_t c = 0; c < columns; ++c) {
      const T* from = data + ((column + c) / kWidth - first) * group + (column + c) % kWidth;
      for (uint64_t r = 0; r < rows; ++r) {
        dense[r * columns + c] = from[r * kWidth];
      }
    }
    return {dense.data(), columns, CubeTypeOf<T>(), transposed};
  }

 private:
  static uint64_t GroupOf(StoredShape shape) { return (static_cast<uint64_t>(shape.rows) + 15) / 16 * 16 * kWidth; }
  static uint64_t Groups(uint64_t column, uint64_t columns) {
    return (column + columns - 1) / kWidth - column / kWidth + 1;
  }
  // `count` stretches of elements, as the cube asks for them.
  const T* Read(uint64_t at, uint64_t count, uint64_t elements, uint64_t pitch) const {
    auto& core = twin::Core::Current();
    if (!inGm) {
      core.CubeCarries(local.Range(), at * sizeof(T), count, elements * sizeof(T), pitch * sizeof(T), false);
      return sent.data() + at;
    }
    gm.Check(at * sizeof(T), ((count - 1) * pitch + elements) * sizeof(T));
    return reinterpret_cast<const T*>(
        core.GmReadRows(gm.GetPhyAddr() + at, count, elements * sizeof(T), pitch * sizeof(T)));
  }
  void RequireWritten(uint64_t at, uint64_t count, uint64_t elements, uint64_t pitch) const {
    auto& core = twin::Core::Current();
    if (inGm && core.FullChecks()) {
      core.RequireWritten(gm.GetPhyAddr() + at, count, elements * sizeof(T), pitch * sizeof(T));
    }
  }
  // What fills up NZ takes no part in a product.
  template <bool nz>
  void RequireDefined(StoredShape shape) const {
    auto& core = twin::Core::Current();
    const auto rows = static_cast<uint64_t>(shape.rows), columns = static_cast<uint64_t>(shape.columns);
    if (!nz) {
      core.RequireDefined(local.Range(), 0, rows * columns * sizeof(T));
      return;
    }
    for (uint64_t column = 0; column < columns; column += kWidth) {
      const bool whole = columns - column >= kWidth;
      for (uint64_t row = 0; row < (whole ? 1 : rows); ++row) {
        const uint64_t at = column / kWidth * GroupOf(shape) + row * kWidth;
        core.RequireDefined(local.Range(), at * sizeof(T), (whole ? rows * kWidth : columns - column) * sizeof(T));
      }
    }
  }

  std::vector<T> sent;           // of a tensor in VECOUT
  mutable std::vector<T> dense;  // of NZ
};

}  // namespace twin_detail

}  // namespace AscendC
