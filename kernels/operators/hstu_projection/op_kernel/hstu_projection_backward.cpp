// The gradient of x, with the two matrices that the weight's gradient is the product of: norm(x), and the gradient of
// the products before SiLU. Five steps a block: norm (vector), products (cube) and their gradient in the same place
// (vector), a panel of columns at a time, that of the norm (cube), that of x (vector). The cube has the next panel
// while the vector unit has this one, and the gradient of a block's norm while the vector unit has the next block's
// panels.
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"
#include "lib/matmul_intf.h"

#include "projection_parts.h"

template <typename T, typename R>
class ProjectionBackward {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Columns = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
  using Products = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;

 public:
  matmul::Matmul<Rows, Rows, Products, Products, CFG_NORM> product;
  matmul::Matmul<Rows, Columns, Sums, Sums, CFG_NORM> gradient;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR grads, GM_ADDR x, GM_ADDR weight, GM_ADDR dx,
                              GM_ADDR normed, GM_ADDR dproducts, GM_ADDR workspace, const LayerTilingData& tiling) {
    tiling_ = &tiling;
    dim_ = tiling.width;
    width_ = tiling.inner;
    const uint64_t tokens = static_cast<uint64_t>(tiling.tokens);
    grads_ = AscendC::ListTensorDesc(reinterpret_cast<__gm__ void*>(grads));
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), static_cast<uint64_t>(dim_) * width_);
    dx_.SetGlobalBuffer(reinterpret_cast<__gm__ R*>(dx), tokens * dim_);
    normed_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(normed), tokens * dim_);
    dproducts_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dproducts), tokens * width_);
    panels_.Init(workspace, tiling);
    rows_.Init(pipe, x, tiling);
    const uint32_t bytes = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(gradientBuffer_, bytes);
    pipe->InitBuffer(sigmoidBuffer_, bytes);
  }

  __aicore__ inline void Process() {
    layer::Block before;
    Panel panel;
    Panel next;
    bool more = panels_.Next(panel);
    bool follows = false;
    if (more) {
      StoreNormed(panel);
      StartProduct(panel);
    }
    while (more) {
      more = panels_.Next(next);
      if (more && next.first) {
        StoreNormed(next);
      }
      layer::FinishProduct(product);
      if (more) {
        StartProduct(next);
      }
      MakeGradients(panel);
      if (panel.last) {
        if (follows) {
          layer::FinishProduct(gradient);
          FinishRows(before);
        }
        StartGradient(panel.block);
        before = panel.block;
        follows = true;
      }
      panel = next;
    }
    if (follows) {
      layer::FinishProduct(gradient);
      FinishRows(before);
    }
  }

 private:
  __aicore__ inline uint64_t RowsBefore(const layer::Block& block, uint32_t width) const {
    return static_cast<uint64_t>(block.first) * width;
  }

  __aicore__ inline void StoreNormed(const Panel& panel) {
    rows_.Store(panel.block, normed_[RowsBefore(panel.block, dim_)], dim_);
  }

  __aicore__ inline void StartProduct(const Panel& panel) {
    const uint64_t to = RowsBefore(panel.block, width_) + panel.start + panel.column;
    panels_.Start(product, panel, normed_[RowsBefore(panel.block, dim_)], dim_, weight_, dproducts_[to], width_);
  }

  __aicore__ inline void StartGradient(const layer::Block& block) {
    const int32_t m = static_cast<int32_t>(block.rows);
    const int32_t n = static_cast<int32_t>(dim_);
    const int32_t k = static_cast<int32_t>(width_);
    layer::WaitFor<AscendC::HardEvent::MTE2_S>();  // the sums of the block before have been read
    gradient.SetOrgShape(m, n, k, k, static_cast<int32_t>(layer::PitchOf(dim_)));
    gradient.SetSingleShape(m, n, k);
    gradient.SetTensorA(dproducts_[RowsBefore(block, width_)]);
    gradient.SetTensorB(weight_, true);
    gradient.template IterateAll<false>(panels_.blocks.Sums(block), 0, false, true);
  }

  // With s = sigmoid(z) of a product z: grad s (1 + z (1 - s)).
  __aicore__ inline void MakeGradients(const Panel& panel) {
    const layer::Block& block = panel.block;
    pieces_.Open(*tiling_, panel);
    Piece piece;
    while (pieces_.Next(piece)) {
      const layer::Floats z = rows_.values;
      const layer::Floats e = rows_.scratch;
      const layer::Floats s = sigmoidBuffer_.template Get<float>();
      const layer::Floats grad = gradientBuffer_.template Get<float>();
      const int32_t count = piece.Elements();
      const AscendC::GlobalTensor<T> place =
          dproducts_[static_cast<uint64_t>(block.first + piece.row) * width_ + panel.start + piece.column];
      rows_.strips.Fetch(z, place, piece.ShapeFrom(width_));
      AscendC::Muls(e, z, -1.0f, count);
      AscendC::Duplicate(s, 1.0f, count);
      layer::Then();
      AscendC::Exp(e, e, count);
      layer::Then();
      AscendC::Adds(e, e, 1.0f, count);
      AscendC::Maxs(z, z, -LARGEST, count);
      layer::Then();
      AscendC::Div(s, s, e, count);
      AscendC::Mins(z, z, LARGEST, count);
      layer::Then();
      AscendC::Mul(e, z, s, count);
      layer::Then();
      AscendC::Sub(z, z, e, count);
      layer::Then();
      AscendC::Adds(z, z, 1.0f, count);
      layer::Then();
      AscendC::Mul(z, z, s, count);
      FetchGradient(grad, panel, piece);
      AscendC::Mul(z, z, grad, count);
      layer::Then();
      rows_.strips.Put(place, z, piece.ShapeFrom(width_));
    }
    layer::WaitFor<AscendC::HardEvent::MTE3_S>();  // the cube reads what the stores have written
  }

  __aicore__ inline void FetchGradient(const layer::Floats& to, const Panel& panel, const Piece& piece) {
    AscendC::GlobalTensor<T> grad;
    grad.SetGlobalBuffer(grads_.GetDataPtr<T>(panel.part), static_cast<uint64_t>(tiling_->tokens) * panel.width);
    const uint64_t row = static_cast<uint64_t>(panel.block.first + piece.row) * panel.width;
    rows_.strips.Fetch(to, grad[row + piece.column], piece.ShapeFrom(panel.width));
  }

  __aicore__ inline void FinishRows(const layer::Block& block) {
    const AscendC::GlobalTensor<float> sums = panels_.blocks.Sums(block);
    const layer::Floats of = gradientBuffer_.template Get<float>();
    const uint32_t atOnce = rows_.strips.Rows(dim_);
    const uint32_t pitch = layer::PitchOf(dim_);
    for (uint32_t row = 0; row < block.rows; row += atOnce) {
      const uint32_t rows = layer::Least(atOnce, block.rows - row);
      rows_.Fetch(block.first + row, rows);
      rows_.strips.Fetch(of, sums[static_cast<uint64_t>(row) * pitch], layer::Shape{rows, dim_, pitch});
      rows_.norm.Backward(of, rows_.values, rows_.scratch, rows);
      rows_.strips.Put(dx_[rows_.At(block.first + row)], of, rows_.ShapeOf(rows));
    }
  }

  const LayerTilingData* tiling_;
  uint32_t dim_;
  uint32_t width_;
  AscendC::ListTensorDesc grads_;
  Panels<T> panels_;
  ProjectionRows<T, R> rows_;
  Pieces pieces_;
  AscendC::GlobalTensor<T> weight_;
  AscendC::GlobalTensor<R> dx_;
  AscendC::GlobalTensor<T> normed_;
  AscendC::GlobalTensor<T> dproducts_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> gradientBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sigmoidBuffer_;
};

extern "C" __global__ __aicore__ void hstu_projection_backward(GM_ADDR grads, GM_ADDR x, GM_ADDR weight, GM_ADDR dx,
                                                               GM_ADDR normed, GM_ADDR dproducts, GM_ADDR workspace,
                                                               GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(LayerTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  ProjectionBackward<DTYPE_WEIGHT, DTYPE_X> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tilingData.product, kernel.gradient,
                    &tilingData.gradient);
  kernel.Init(&pipe, grads, x, weight, dx, normed, dproducts, user, tilingData);
  kernel.Process();
}
