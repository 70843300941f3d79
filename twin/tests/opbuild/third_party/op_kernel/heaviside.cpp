#include "elementwise.h"

using namespace AscendC;

// 0 below zero, 1 above, at zero the given value.
template <typename T>
struct HeavisideCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t tile) { pipe.InitBuffer(bits, tile / 8); }
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    const uint32_t whole = (count * sizeof(T) + 255) / 256 * 256 / sizeof(T);
    LocalTensor<uint8_t> mask = bits.Get<uint8_t>();
    Duplicate(y, static_cast<T>(0.0), whole);
    CompareScalar(mask, x, static_cast<T>(0.0), CMPMODE::LE, whole);
    Select(y, mask, y, static_cast<T>(1.0), SELMODE::VSEL_TENSOR_SCALAR_MODE, whole);
    CompareScalar(mask, x, static_cast<T>(0.0), CMPMODE::NE, whole);
    Select(y, mask, y, value, SELMODE::VSEL_TENSOR_SCALAR_MODE, whole);
    bits.FreeTensor(mask);
  }
  TBuf<QuePosition::VECCALC> bits;
  T value;
};

extern "C" __global__ __aicore__ void heaviside(GM_ADDR input, GM_ADDR values, GM_ADDR out, GM_ADDR workspace,
                                                GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<DTYPE_INPUT, HeavisideCompute<DTYPE_INPUT>> op;
  op.compute.value = *((__gm__ DTYPE_INPUT*)values);
  op.Init(input, out, tiling_data);
  op.Process();
}
