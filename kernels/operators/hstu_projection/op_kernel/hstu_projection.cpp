// SiLU(norm(x) weight), split along its columns, a block of tokens at a time: the vector unit normalises rows into the
// workspace, the cube multiplies them with a panel of weight's columns and writes the products where they belong in
// their part, the vector unit applies SiLU there. While the cube has a panel, the vector unit has the ones before and
// after it.
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"
#include "lib/matmul_intf.h"

#include "projection_parts.h"

template <typename T, typename R>
class ProjectionKernel {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;

 public:
  matmul::Matmul<Rows, Rows, Sums, Sums, CFG_NORM> product;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, GM_ADDR weight, GM_ADDR parts, GM_ADDR workspace,
                              const LayerTilingData& tiling) {
    tiling_ = &tiling;
    const uint64_t width = tiling.inner;
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), tiling.width * width);
    parts_ = AscendC::ListTensorDesc(reinterpret_cast<__gm__ void*>(parts));
    panels_.Init(workspace, tiling);
    rows_.Init(pipe, x, tiling);
  }

  __aicore__ inline void Process() {
    const uint32_t pitch = layer::PitchOf(tiling_->width);
    Panel before;
    Panel panel;
    bool follows = false;
    while (panels_.Next(panel)) {
      const AscendC::GlobalTensor<T> operand = panels_.blocks.Operand(panel.block);
      if (panel.first) {
        rows_.Store(panel.block, operand, pitch);
      }
      if (follows) {
        layer::FinishProduct(product);
      }
      panels_.Start(product, panel, operand, pitch, weight_, Part(panel, 0, panel.column), panel.width);
      if (follows) {
        ApplySilu(before);
      }
      before = panel;
      follows = true;
    }
    if (follows) {
      layer::FinishProduct(product);
      ApplySilu(before);
    }
  }

 private:
  // A panel's part, from a row of its block and a column on.
  __aicore__ inline AscendC::GlobalTensor<T> Part(const Panel& panel, uint32_t row, uint32_t column) const {
    AscendC::GlobalTensor<T> part;
    part.SetGlobalBuffer(parts_.GetDataPtr<T>(panel.part), static_cast<uint64_t>(tiling_->tokens) * panel.width);
    return part[static_cast<uint64_t>(panel.block.first + row) * panel.width + column];
  }

  __aicore__ inline void ApplySilu(const Panel& panel) {
    pieces_.Open(*tiling_, panel);
    Piece piece;
    while (pieces_.Next(piece)) {
      const layer::Floats x = rows_.values;
      const layer::Floats e = rows_.scratch;
      const AscendC::GlobalTensor<T> place = Part(panel, piece.row, piece.column);
      const layer::Shape shape = piece.ShapeFrom(panel.width);
      const int32_t count = piece.Elements();
      rows_.strips.Fetch(x, place, shape);
      AscendC::Muls(e, x, -1.0f, count);
      layer::Then();
      AscendC::Exp(e, e, count);
      layer::Then();
      AscendC::Adds(e, e, 1.0f, count);
      AscendC::Maxs(x, x, -LARGEST, count);  // a NaN is in the exponential, too
      layer::Then();
      AscendC::Div(x, x, e, count);  // an exponential that overflows gives 0
      layer::Then();
      rows_.strips.Put(place, x, shape);
    }
  }

  const LayerTilingData* tiling_;
  Panels<T> panels_;
  ProjectionRows<T, R> rows_;
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
  ProjectionKernel<DTYPE_WEIGHT, DTYPE_X> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tilingData.product);
  kernel.Init(&pipe, x, weight, parts, user, tilingData);
  kernel.Process();
}
