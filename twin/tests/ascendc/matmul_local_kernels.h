// Products with operands or the result in the unified buffer.
#pragma once
#include "matmul_kernels.h"

namespace cases {

// A in VECOUT, C in VECIN.
inline void LocalProduct(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  matmul::Matmul<MatmulType<TPosition::VECOUT, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>,
                 MatmulType<TPosition::VECIN, CubeFormat::ND, float>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  const GlobalTensor<float> a = Tensor<float>(arguments.a, static_cast<uint64_t>(t.m) * t.pitchA);
  const GlobalTensor<float> b = Tensor<float>(arguments.b, static_cast<uint64_t>(t.k) * t.pitchB);
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> in;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, BLOCK_ROWS * t.k * 4);
  pipe.InitBuffer(out, 1, BLOCK_ROWS * t.n * 4);
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    LocalTensor<float> left = in.AllocTensor<float>();
    if (t.breaks != UNDEFINED_OPERAND) {
      DataCopyPad(left, a[static_cast<uint64_t>(row) * t.pitchA],
                  DataCopyExtParams(static_cast<uint16_t>(rows), t.k * 4, (t.pitchA - t.k) * 4, 0, 0),
                  DataCopyPadExtParams<float>(false, 0, 0, 0));
    }
    in.EnQue(left);
    left = in.DeQue<float>();
    LocalTensor<float> result = out.AllocTensor<float>();
    mm.SetOrgShape(static_cast<int>(t.m), static_cast<int>(t.pitchB), static_cast<int>(t.k), static_cast<int>(t.k));
    mm.SetSingleShape(static_cast<int>(rows), static_cast<int>(t.n), static_cast<int>(t.k));
    mm.SetTensorA(left);
    mm.SetTensorB(b);
    mm.IterateAll(result, t.breaks == ATOMIC_IN_VECIN ? 1 : 0);
    mm.End();
    in.FreeTensor(left);
    out.EnQue(result);
    result = out.DeQue<float>();
    DataCopyPad(c[static_cast<uint64_t>(row) * t.pitchC], result,
                DataCopyExtParams(static_cast<uint16_t>(rows), t.n * 4, 0, (t.pitchC - t.n) * 4, 0));
    out.FreeTensor(result);
  }
}

// C in VECIN in NZ, at once or tile by tile, and from there to its place in ND.
template <bool tiles>
void LocalNzProduct(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  matmul::Matmul<MatmulType<TPosition::GM, CubeFormat::ND, float>, MatmulType<TPosition::GM, CubeFormat::ND, float>,
                 MatmulType<TPosition::VECIN, CubeFormat::NZ, float>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  const GlobalTensor<float> a = Tensor<float>(arguments.a, static_cast<uint64_t>(t.m) * t.pitchA);
  const GlobalTensor<float> b = Tensor<float>(arguments.b, static_cast<uint64_t>(t.k) * t.pitchB);
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> out;
  pipe.InitBuffer(out, 1, BLOCK_ROWS * ((t.n + 15) / 16 * 16) * 4);
  const uint32_t width = tiles ? static_cast<uint32_t>(t.mm.baseN) : t.n;
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    mm.SetOrgShape(static_cast<int>(t.m), static_cast<int>(t.pitchB), static_cast<int>(t.pitchA),
                   static_cast<int>(t.k));
    mm.SetSingleShape(static_cast<int>(rows), static_cast<int>(t.n), static_cast<int>(t.k));
    mm.SetTensorA(a[static_cast<uint64_t>(row) * t.pitchA]);
    mm.SetTensorB(b);
    for (uint32_t from = 0; from < t.n; from += width) {
      LocalTensor<float> result = out.AllocTensor<float>();
      if (tiles) {
        mm.Iterate();
        mm.GetTensorC(result);
      } else {
        mm.IterateAll(result);
      }
      out.EnQue(result);
      result = out.DeQue<float>();
      for (uint32_t column = from; column < t.n && column < from + width; column += 16) {
        const uint32_t count = t.n - column < 16 ? t.n - column : 16;
        DataCopyPad(
            c[static_cast<uint64_t>(row) * t.pitchC + column], result[(column - from) * rows],
            DataCopyExtParams(static_cast<uint16_t>(rows), count * 4, 2 - (count + 7) / 8, (t.pitchC - count) * 4, 0));
      }
      out.FreeTensor(result);
    }
    mm.End();
  }
}

template <HardEvent event>
void WaitFor() {
  const auto id = GetTPipePtr()->FetchEventID(event);
  SetFlag<event>(id);
  WaitFlag<event>(id);
}

// `rows` x `columns` as they are stored. In GM rows lie `stride` elements apart, or groups of columns in NZ, of which
// the last one is left out where it must be missed. In NZ what fills up the rows stays undefined.
template <CubeFormat FORMAT, typename T>
LocalTensor<T> LoadStored(TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>& queue, const GlobalTensor<T>& from,
                          uint32_t rows, uint32_t columns, uint32_t stride, bool all) {
  constexpr uint32_t bytes = sizeof(T), width = 32 / bytes;
  LocalTensor<T> to = queue.AllocTensor<T>();
  const auto load = [](const LocalTensor<T>& place, const GlobalTensor<T>& gm, uint32_t count, uint32_t length,
                       uint32_t gap) {
    DataCopyPad(place, gm, DataCopyExtParams(static_cast<uint16_t>(count), length * bytes, gap * bytes, 0, 0),
                DataCopyPadExtParams<T>());
  };
  if (FORMAT == CubeFormat::ND) {
    load(to, from, rows, columns, stride - columns);
  } else {
    for (uint32_t column = 0; column < columns && (all || column + width < columns); column += width) {
      const uint32_t group = column / width;
      load(to[group * ((rows + 15) / 16 * 16) * width], from[group * stride], 1, rows * width, 0);
    }
  }
  queue.EnQue(to);
  return queue.DeQue<T>();
}

// A and B in VECOUT, c tile by tile.
template <typename T, bool transA, bool transB, CubeFormat FORMAT = CubeFormat::ND>
void LocalOperands(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  matmul::Matmul<MatmulType<TPosition::VECOUT, FORMAT, T, transA>, MatmulType<TPosition::VECOUT, FORMAT, T, transB>,
                 MatmulType<TPosition::GM, CubeFormat::ND, float>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  using Whole = Product<T, transA, transB, FORMAT>;
  constexpr bool nz = FORMAT == CubeFormat::NZ;
  constexpr uint32_t width = 32 / sizeof(T);
  const auto padded = [](uint32_t rows) { return static_cast<uint32_t>(Whole::Padded(rows)); };
  const uint32_t rowsA = transA ? t.k : t.m, rowsB = transB ? t.n : t.k, columnsB = transB ? t.k : t.n;
  const GlobalTensor<T> a = Tensor<T>(arguments.a, Whole::Stored(rowsA, t.pitchA));
  const GlobalTensor<T> b = Tensor<T>(arguments.b, Whole::Stored(rowsB, t.pitchB));
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> leftQueue, rightQueue;
  const auto room = [](uint64_t elements) { return static_cast<uint32_t>(elements * sizeof(T)); };
  pipe.InitBuffer(leftQueue, 1, room(transA ? Whole::Stored(t.k, BLOCK_ROWS) : Whole::Stored(BLOCK_ROWS, t.k)));
  pipe.InitBuffer(rightQueue, 1, room(Whole::Stored(rowsB, columnsB)));
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    const bool all = t.breaks != UNDEFINED_OPERAND;
    const uint64_t start = nz ? (transA ? row * Whole::Padded(t.k) : static_cast<uint64_t>(row) * width)
                              : (transA ? row : static_cast<uint64_t>(row) * t.pitchA);
    LocalTensor<T> left = LoadStored<FORMAT>(leftQueue, a[start], transA ? t.k : rows, transA ? rows : t.k,
                                             nz ? padded(rowsA) * width : t.pitchA, all);
    LocalTensor<T> right =
        LoadStored<FORMAT>(rightQueue, b, rowsB, columnsB, nz ? padded(rowsB) * width : t.pitchB, true);
    const auto size = [](uint32_t value) { return static_cast<int>(value); };
    mm.SetOrgShape(size(t.m), size(t.n), size(t.k), size(t.k), size(t.pitchC));
    mm.SetSingleShape(size(rows), size(t.n), size(t.k));
    mm.SetTensorA(left, transA);
    mm.SetTensorB(right, transB);
    while (mm.Iterate()) {
      if (t.breaks == OPERANDS_OVERWRITTEN) {
        WaitFor<HardEvent::MTE3_V>();
        Duplicate(left, static_cast<T>(7.0f), size(rows * t.k));
        Duplicate(right, static_cast<T>(7.0f), size(rowsB * columnsB));
        PipeBarrier<PIPE_V>();
      }
      mm.GetTensorC(c[static_cast<uint64_t>(row) * t.pitchC]);
    }
    mm.End();
    leftQueue.FreeTensor(left);
    rightQueue.FreeTensor(right);
  }
}

}  // namespace cases
