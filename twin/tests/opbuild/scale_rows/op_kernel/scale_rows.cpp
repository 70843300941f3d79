#include "kernel_operator.h"

extern "C" __global__ __aicore__ void scale_rows(GM_ADDR x, GM_ADDR bias, GM_ADDR y, GM_ADDR workspace,
                                                 GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  using T = DTYPE_X;
  if (t.tag[0] != 11 || t.tag[1] != -22 || t.tag[2] != 33 || t.range.used != 1 ||
      t.range.rows != AscendC::GetBlockNum()) {
    AscendC::Trap();
  }
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
  const uint32_t bytes = t.columns * static_cast<uint32_t>(sizeof(T));
  const uint32_t pitch = AscendC::AlignUp(bytes, 32);
  pipe.InitBuffer(buffer, 2 * pitch);
  AscendC::LocalTensor<T> row = buffer.Get<T>();
  AscendC::LocalTensor<T> offset = row[pitch / sizeof(T)];
  const int64_t at = AscendC::GetBlockIdx() * t.columns;
  const AscendC::DataCopyExtParams burst(1, bytes, 0, 0, 0);
  const AscendC::DataCopyPadExtParams<T> pad(false, 0, 0, T(0));
  AscendC::GlobalTensor<T> gm;
  gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x) + at, t.columns);
  AscendC::DataCopyPad(row, gm, burst, pad);
  if (TILING_KEY_IS(2)) {
    gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(bias), t.columns);
    AscendC::DataCopyPad(offset, gm, burst, pad);
  } else if (TILING_KEY_IS(1)) {
    AscendC::Duplicate(offset, T(0), static_cast<int32_t>(t.columns));
  }
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::Muls(row, row, static_cast<T>(t.factor), static_cast<int32_t>(t.columns));
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(row, row, offset, static_cast<int32_t>(t.columns));
  AscendC::PipeBarrier<PIPE_ALL>();
  gm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y) + at, t.columns);
  AscendC::DataCopyPad(gm, row, burst);
}
