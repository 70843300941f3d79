// The gradients of attended and u from that of the result, and norm(attended) u keep scale once more, for the weight's.
// The cube multiplies the gradient of the next block with the weight while the vector unit has the one before. Its fp32
// sums stand where the results of the same rows will: in dattended, which a row of fp32 fills; a row of 16-bit type is
// half as long and takes the left columns, that of du the right ones. Only 16-bit rows without such halves need
// workspace.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "gate_strips.h"
#include "layer_blocks.h"

template <typename T>
class GatedOutputBackward {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;

 public:
  matmul::Matmul<Rows, Rows, Sums, Sums, CFG_NORM> product;

  __aicore__ inline void Init(AscendC::TPipe* pipe, const GateInputs& inputs, GM_ADDR grad, GM_ADDR weight,
                              GM_ADDR dattended, GM_ADDR du, GM_ADDR gated, GM_ADDR workspace,
                              const LayerTilingData& tiling) {
    width_ = tiling.width;
    dim_ = tiling.inner;
    const uint64_t rows = static_cast<uint64_t>(tiling.tokens);
    grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(grad), rows * dim_);
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), static_cast<uint64_t>(dim_) * width_);
    halves_ = sizeof(T) != sizeof(float) && tiling.sumBlocks == 0;
    inResults_ = tiling.sumBlocks == 0;
    columns_ = halves_ ? width_ / 2 : width_;
    left_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dattended), rows * columns_);
    right_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(du), rows * columns_);
    dattended_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dattended), rows * width_);
    du_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(du), rows * width_);
    gated_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gated), rows * width_);
    blocks_.Init(workspace, tiling);
    gate_.Init(pipe, inputs, tiling);
    pipe->InitBuffer(ofGated_, tiling.stripElements * static_cast<uint32_t>(sizeof(float)));
  }

  __aicore__ inline void Process() {
    layer::Block block;
    layer::Block next;
    bool more = blocks_.Next(block);
    if (more) {
      StartProduct(block);
    }
    while (more) {
      more = blocks_.Next(next);
      if (halves_) {
        product.WaitIterateAll();
      }
      layer::FinishProduct(product);
      if (more) {
        StartProduct(next);
      }
      MakeGradients(block);
      block = next;
    }
  }

 private:
  __aicore__ inline void StartProduct(const layer::Block& block) {
    if (inResults_) {
      Multiply(block, 0, left_[static_cast<uint64_t>(block.first) * columns_], columns_);
    } else {
      layer::WaitFor<AscendC::HardEvent::MTE2_S>();  // the slot's sums have been read
      Multiply(block, 0, blocks_.Sums(block), layer::PitchOf(width_));
    }
    if (halves_) {
      Multiply(block, columns_, right_[static_cast<uint64_t>(block.first) * columns_], columns_);
    }
  }
  // sums = grad weight[:, column:], as many columns as stand together, in rows `pitch` elements apart.
  __aicore__ inline void Multiply(const layer::Block& block, uint32_t column, const AscendC::GlobalTensor<float>& sums,
                                  uint32_t pitch) {
    const int32_t m = static_cast<int32_t>(block.rows);
    const int32_t k = static_cast<int32_t>(dim_);
    product.SetOrgShape(m, static_cast<int32_t>(width_), k, k, static_cast<int32_t>(pitch));
    product.SetSingleShape(m, static_cast<int32_t>(columns_), k);
    product.SetTensorA(grad_[static_cast<uint64_t>(block.first) * dim_]);
    product.SetTensorB(weight_[column]);
    product.template IterateAll<false>(sums, 0, false, true);
  }
  __aicore__ inline void FetchSums(const layer::Floats& to, const layer::Block& block, uint32_t row, uint32_t rows) {
    const uint64_t at = static_cast<uint64_t>(block.first + row) * columns_;
    const uint32_t pitch = layer::PitchOf(width_);
    if (halves_) {
      gate_.strips.FetchHalves(to, left_[at], right_[at], rows, width_);
    } else if (inResults_) {
      gate_.strips.Fetch(to, left_[at], gate_.ShapeOf(rows));
    } else {
      gate_.strips.Fetch(to, blocks_.Sums(block)[static_cast<uint64_t>(row) * pitch], {rows, width_, pitch});
    }
  }

  __aicore__ inline void MakeGradients(const layer::Block& block) {
    const layer::Floats of = ofGated_.template Get<float>();
    const uint32_t atOnce = gate_.strips.Rows(width_);
    for (uint32_t row = 0; row < block.rows; row += atOnce) {
      const uint32_t rows = layer::Least(atOnce, block.rows - row);
      const layer::Shape shape = gate_.ShapeOf(rows);
      const int32_t count = shape.Elements();
      const uint64_t at = gate_.At(block.first + row);
      gate_.Fetch(block.first + row, rows);
      FetchSums(of, block, row, rows);
      AscendC::Mul(of, of, gate_.factor, count);
      AscendC::Mul(gate_.factor, gate_.factor, gate_.u, count);
      layer::Then();
      AscendC::Mul(gate_.factor, gate_.factor, gate_.normed, count);
      AscendC::Mul(gate_.scratch, of, gate_.normed, count);
      AscendC::Mul(of, of, gate_.u, count);
      layer::Then();
      gate_.strips.Put(gated_[at], gate_.factor, shape);
      gate_.strips.Put(du_[at], gate_.scratch, shape);
      gate_.norm.Backward(of, gate_.normed, gate_.scratch, rows);
      gate_.strips.Put(dattended_[at], of, shape);
    }
  }

  uint32_t width_;
  uint32_t dim_;
  uint32_t columns_;  // of a product
  bool inResults_;
  bool halves_;
  layer::Blocks<T> blocks_;
  GateStrips<T, T> gate_;
  AscendC::GlobalTensor<T> grad_;
  AscendC::GlobalTensor<T> weight_;
  AscendC::GlobalTensor<float> left_;
  AscendC::GlobalTensor<float> right_;
  AscendC::GlobalTensor<T> dattended_;
  AscendC::GlobalTensor<T> du_;
  AscendC::GlobalTensor<T> gated_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ofGated_;
};

extern "C" __global__ __aicore__ void hstu_gated_output_backward(GM_ADDR grad, GM_ADDR attended, GM_ADDR u,
                                                                 GM_ADDR weight, GM_ADDR keep, GM_ADDR dattended,
                                                                 GM_ADDR du, GM_ADDR gated, GM_ADDR workspace,
                                                                 GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(LayerTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  GatedOutputBackward<DTYPE_ATTENDED> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tilingData.product);
  kernel.Init(&pipe, {attended, u, keep}, grad, weight, dattended, du, gated, user, tilingData);
  kernel.Process();
}
