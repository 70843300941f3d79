// SiLU(norm(x) weight), split along its columns, a block of tokens at a time: the vector unit normalises rows into the
// workspace, the cube multiplies, the vector unit applies SiLU and writes each part where it is contiguous. While the
// cube has a block, the vector unit has the ones before and after it.
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"
#include "lib/matmul_intf.h"

#include "projection_parts.h"

template <typename T>
class ProjectionKernel {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;

 public:
  matmul::Matmul<Rows, Rows, Sums, Sums, CFG_NORM> product;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, GM_ADDR weight, GM_ADDR parts, GM_ADDR workspace,
                              const LayerTilingData& tiling) {
    tiling_ = &tiling;
    const uint64_t width = tiling.inner;
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), tiling.width * width);
    parts_ = AscendC::ListTensorDesc(reinterpret_cast<__gm__ void*>(parts));
    blocks_.Init(workspace, tiling);
    rows_.Init(pipe, x, tiling);
  }

  __aicore__ inline void Process() {
    const uint32_t pitch = layer::PitchOf(tiling_->width);
    layer::Block before;
    layer::Block block;
    bool follows = false;
    while (blocks_.Next(block)) {
      rows_.Store(block, blocks_.Operand(block), pitch);
      if (follows) {
        layer::FinishProduct(product);
      }
      StartProduct(block, pitch);
      if (follows) {
        WriteParts(before);
      }
      before = block;
      follows = true;
    }
    if (follows) {
      layer::FinishProduct(product);
      WriteParts(before);
    }
  }

 private:
  __aicore__ inline void StartProduct(const layer::Block& block, uint32_t pitch) {
    const int32_t m = static_cast<int32_t>(block.rows);
    const int32_t n = static_cast<int32_t>(tiling_->inner);
    const int32_t k = static_cast<int32_t>(tiling_->width);
    product.SetOrgShape(m, n, static_cast<int32_t>(pitch), k, static_cast<int32_t>(layer::PitchOf(tiling_->inner)));
    product.SetSingleShape(m, n, k);
    product.SetTensorA(blocks_.Operand(block));
    product.SetTensorB(weight_);
    product.template IterateAll<false>(blocks_.Sums(block), 0, false, true);
  }

  __aicore__ inline void WriteParts(const layer::Block& block) {
    const AscendC::GlobalTensor<float> sums = blocks_.Sums(block);
    const uint64_t pitch = layer::PitchOf(tiling_->inner);
    pieces_.Open(*tiling_, block.rows);
    Piece piece;
    while (pieces_.Next(piece)) {
      const layer::Floats x = rows_.values;
      const layer::Floats e = rows_.scratch;
      const int32_t count = piece.Elements();
      rows_.strips.Fetch(x, sums[piece.row * pitch + piece.start + piece.column], piece.ShapeFrom(pitch));
      AscendC::Muls(e, x, -1.0f, count);
      layer::Then();
      AscendC::Exp(e, e, count);
      layer::Then();
      AscendC::Adds(e, e, 1.0f, count);
      layer::Then();
      AscendC::Div(x, x, e, count);  // an exponential that overflows gives 0
      layer::Then();
      AscendC::GlobalTensor<T> part;
      part.SetGlobalBuffer(parts_.GetDataPtr<T>(piece.part), static_cast<uint64_t>(tiling_->tokens) * piece.width);
      const uint64_t row = static_cast<uint64_t>(block.first + piece.row) * piece.width;
      rows_.strips.Put(part[row + piece.column], x, piece.ShapeFrom(piece.width));
    }
  }

  const LayerTilingData* tiling_;
  layer::Blocks<T> blocks_;
  ProjectionRows<T> rows_;
  Pieces pieces_;
  AscendC::GlobalTensor<T> weight_;
  AscendC::ListTensorDesc parts_;
};

extern "C" __global__ __aicore__ void hstu_projection(GM_ADDR x, GM_ADDR weight, GM_ADDR parts, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(LayerTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  ProjectionKernel<DTYPE_X> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tilingData.product);
  kernel.Init(&pipe, x, weight, parts, user, tilingData);
  kernel.Process();
}
