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

// A and B in VECOUT, c tile by tile.
template <typename T, bool transA, bool transB>
void LocalOperands(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  matmul::Matmul<MatmulType<TPosition::VECOUT, CubeFormat::ND, T, transA>,
                 MatmulType<TPosition::VECOUT, CubeFormat::ND, T, transB>,
                 MatmulType<TPosition::GM, CubeFormat::ND, float>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  const uint32_t rowsB = transB ? t.n : t.k, columnsB = transB ? t.k : t.n;
  const GlobalTensor<T> a = Tensor<T>(arguments.a, static_cast<uint64_t>(transA ? t.k : t.m) * t.pitchA);
  const GlobalTensor<T> b = Tensor<T>(arguments.b, static_cast<uint64_t>(rowsB) * t.pitchB);
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> leftQueue, rightQueue;
  pipe.InitBuffer(leftQueue, 1, BLOCK_ROWS * t.k * static_cast<uint32_t>(sizeof(T)));
  pipe.InitBuffer(rightQueue, 1, rowsB * columnsB * static_cast<uint32_t>(sizeof(T)));
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    const auto load = [](TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>& queue, const GlobalTensor<T>& from,
                         uint32_t height, uint32_t width, uint32_t pitch) {
      LocalTensor<T> to = queue.AllocTensor<T>();
      const uint32_t bytes = width * static_cast<uint32_t>(sizeof(T));
      const uint32_t gap = (pitch - width) * static_cast<uint32_t>(sizeof(T));
      DataCopyPad(to, from, DataCopyExtParams(static_cast<uint16_t>(height), bytes, gap, 0, 0),
                  DataCopyPadExtParams<T>());
      queue.EnQue(to);
      return queue.DeQue<T>();
    };
    LocalTensor<T> left = load(leftQueue, a[transA ? row : static_cast<uint64_t>(row) * t.pitchA], transA ? t.k : rows,
                               transA ? rows : t.k, t.pitchA);
    LocalTensor<T> right = load(rightQueue, b, rowsB, columnsB, t.pitchB);
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
