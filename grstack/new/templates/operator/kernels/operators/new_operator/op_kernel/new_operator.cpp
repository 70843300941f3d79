// y = x * factor. Each core takes one run of elements, tile by tile: load (MTE2), multiply (V), store (MTE3).
#include "kernel_operator.h"
#include "new_operator_tiling.h"

template <typename T>
class NewOperatorKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, GM_ADDR y, const NewOperatorTilingData& tiling) {
    tile_ = tiling.tileElements;
    factor_ = tiling.factor;
    const int64_t first = AscendC::GetBlockIdx() * tiling.elementsPerCore;
    const int64_t rest = tiling.elements - first;
    count_ = rest < tiling.elementsPerCore ? rest : tiling.elementsPerCore;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x) + first, static_cast<uint64_t>(count_));
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y) + first, static_cast<uint64_t>(count_));
    pipe->InitBuffer(loads_, 2, tile_ * static_cast<uint32_t>(sizeof(T)));
    pipe->InitBuffer(stores_, 2, tile_ * static_cast<uint32_t>(sizeof(T)));
    if (sizeof(T) < sizeof(float)) {
      pipe->InitBuffer(wide_, tile_ * static_cast<uint32_t>(sizeof(float)));
    }
  }

  __aicore__ inline void Process() {
    for (int64_t done = 0; done < count_; done += tile_) {
      const int64_t left = count_ - done;
      const uint32_t now = left < tile_ ? static_cast<uint32_t>(left) : tile_;
      const AscendC::DataCopyExtParams burst(1, now * static_cast<uint32_t>(sizeof(T)), 0, 0, 0);

      AscendC::LocalTensor<T> x = loads_.template AllocTensor<T>();
      AscendC::DataCopyPad(x, x_[done], burst, AscendC::DataCopyPadExtParams<T>(false, 0, 0, 0));
      loads_.EnQue(x);

      x = loads_.template DeQue<T>();
      AscendC::LocalTensor<T> y = stores_.template AllocTensor<T>();
      Multiply(y, x, static_cast<int32_t>(now));
      loads_.FreeTensor(x);
      stores_.EnQue(y);

      y = stores_.template DeQue<T>();
      AscendC::DataCopyPad(y_[done], y, burst);
      stores_.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& y, const AscendC::LocalTensor<float>& x,
                                  int32_t count) {
    AscendC::Muls(y, x, factor_, count);
  }

  // The factor has no exact image in float16, so the product is a float32 one and is rounded once.
  __aicore__ inline void Multiply(const AscendC::LocalTensor<half>& y, const AscendC::LocalTensor<half>& x,
                                  int32_t count) {
    AscendC::LocalTensor<float> wide = wide_.template Get<float>();
    AscendC::Cast(wide, x, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(wide, wide, factor_, count);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(y, wide, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
  }

  uint32_t tile_;
  float factor_;
  int64_t count_;
  AscendC::GlobalTensor<T> x_;
  AscendC::GlobalTensor<T> y_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> loads_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> stores_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wide_;
};

extern "C" __global__ __aicore__ void new_operator(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(NewOperatorTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  AscendC::TPipe pipe;
  NewOperatorKernel<DTYPE_X> kernel;
  kernel.Init(&pipe, x, y, tilingData);
  kernel.Process();
}
