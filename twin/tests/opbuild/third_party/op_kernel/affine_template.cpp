#include <type_traits>

#include "affine_template_tiling.h"
#include "kernel_operator.h"

using namespace AscendC;

template <typename T, uint32_t BUFFERS, bool HAS_SHIFT>
class Affine {
 public:
  __aicore__ inline Affine(GM_ADDR x, GM_ADDR y, const AffineTemplateTiling& data) : tiling(data) {
    xGm.SetGlobalBuffer((__gm__ T*)x, tiling.length);
    yGm.SetGlobalBuffer((__gm__ T*)y, tiling.length);
    pipe.InitBuffer(inQueue, BUFFERS, tiling.tileLength * sizeof(T));
    pipe.InitBuffer(outQueue, BUFFERS, tiling.tileLength * sizeof(T));
  }
  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < tiling.length; at += tiling.tileLength) {
      const uint32_t left = tiling.length - at;
      const uint32_t count = left < tiling.tileLength ? left : tiling.tileLength;
      const DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
      LocalTensor<T> in = inQueue.template AllocTensor<T>();
      DataCopyPad(in, xGm[at], copy, DataCopyPadExtParams<T>{false, 0, 0, 0});
      inQueue.EnQue(in);
      in = inQueue.template DeQue<T>();
      LocalTensor<T> out = outQueue.template AllocTensor<T>();
      Muls(out, in, static_cast<T>(tiling.scale), count);
      if constexpr (HAS_SHIFT) Adds(out, out, static_cast<T>(tiling.shift), count);
      outQueue.EnQue(out);
      inQueue.FreeTensor(in);
      out = outQueue.template DeQue<T>();
      DataCopyPad(yGm[at], out, copy);
      outQueue.FreeTensor(out);
    }
  }

 private:
  const AffineTemplateTiling tiling;
  TPipe pipe;
  TQue<QuePosition::VECIN, BUFFERS> inQueue;
  TQue<QuePosition::VECOUT, BUFFERS> outQueue;
  GlobalTensor<T> xGm, yGm;
};

template <typename D_T_X, int BUFFERS, bool HAS_SHIFT>
__global__ __aicore__ void affine_template(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  static_assert(BUFFERS < 3 && (HAS_SHIFT || std::is_same_v<D_T_X, float>), "only what is selected is built");
  static_assert(std::is_same_v<D_T_X, DTYPE_X>, "the input's own type");
  GET_TILING_DATA(data, tiling);
  Affine<D_T_X, BUFFERS, HAS_SHIFT> op(x, y, data);
  op.Process();
}
