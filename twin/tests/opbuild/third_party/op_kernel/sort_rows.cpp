#include "rows.h"

using namespace AscendC;

// Descending, by the library's functions: groups of 32, what is missing in the last one is far below.
struct SortRowsCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t whole) {
    pipe.InitBuffer(keyBuf, whole * sizeof(float));
    pipe.InitBuffer(indexBuf, whole * sizeof(uint32_t));
    pipe.InitBuffer(placeBuf, whole * sizeof(uint32_t));
    pipe.InitBuffer(sortedBuf, GetSortLen<float>(whole) * sizeof(float));
    pipe.InitBuffer(workBuf, GetSortLen<float>(whole) * sizeof(float));
  }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> keys = keyBuf.Get<float>();
    LocalTensor<float> sorted = sortedBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    LocalTensor<int32_t> index = indexBuf.Get<int32_t>();
    const int32_t repeats = (count + 31) / 32;
    Duplicate(keys, -3.0e38f, repeats * 32);
    Adds(keys, x, 0.0f, count);
    CreateVecIndex(index, 0, static_cast<uint32_t>(repeats * 32));
    LocalTensor<float> concat;
    Concat(concat, keys, work, repeats * 2);
    Sort<float, true>(sorted, concat, index.ReinterpretCast<uint32_t>(), work, repeats);
    Extract(keys, placeBuf.Get<uint32_t>(), sorted, repeats);
    Adds(y, keys, 0.0f, count);
  }
  TBuf<> keyBuf, indexBuf, placeBuf, sortedBuf, workBuf;
};

extern "C" __global__ __aicore__ void sort_rows(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<float, float, SortRowsCompute> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, tiling_data.columns);
  op.Process();
}
