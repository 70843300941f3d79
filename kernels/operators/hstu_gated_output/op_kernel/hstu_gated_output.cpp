// out = x + (norm(attended) u keep scale) weight^T + bias, a block of tokens at a time: the vector unit makes the left
// side of the product in the workspace, the cube multiplies into the result, the vector unit adds x and the bias there.
// While the cube has a block, the vector unit has the ones before and after it.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "gate_strips.h"
#include "layer_blocks.h"

// R: the type of x and of the result, T or fp32.
template <typename T, typename R>
class GatedOutput {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Columns = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, R>;

 public:
  matmul::Matmul<Rows, Columns, Sums, Sums, CFG_NORM> product;

  __aicore__ inline void Init(AscendC::TPipe* pipe, const GateInputs& inputs, GM_ADDR x, GM_ADDR weight, GM_ADDR bias,
                              GM_ADDR out, GM_ADDR workspace, const LayerTilingData& tiling) {
    width_ = tiling.width;
    dim_ = tiling.inner;
    const uint64_t rows = static_cast<uint64_t>(tiling.tokens);
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ R*>(x), rows * dim_);
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight), static_cast<uint64_t>(dim_) * width_);
    bias_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(bias), dim_);
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ R*>(out), rows * dim_);
    blocks_.Init(workspace, tiling);
    gate_.Init(pipe, inputs, tiling);
    pipe->InitBuffer(biasBuffer_, layer::PitchOf(dim_) * static_cast<uint32_t>(sizeof(float)));
  }

  __aicore__ inline void Process() {
    gate_.strips.Fetch(biasBuffer_.template Get<float>(), bias_, {1, dim_, dim_});
    layer::Block before;
    layer::Block block;
    bool follows = false;
    while (blocks_.Next(block)) {
      MakeGated(block);
      if (follows) {
        layer::FinishProduct(product);
      }
      StartProduct(block);
      if (follows) {
        AddRows(before);
      }
      before = block;
      follows = true;
    }
    if (follows) {
      layer::FinishProduct(product);
      AddRows(before);
    }
  }

 private:
  __aicore__ inline void MakeGated(const layer::Block& block) {
    const AscendC::GlobalTensor<T> operand = blocks_.Operand(block);
    const uint32_t atOnce = gate_.strips.Rows(width_);
    const uint32_t pitch = layer::PitchOf(width_);
    for (uint32_t row = 0; row < block.rows; row += atOnce) {
      const uint32_t rows = layer::Least(atOnce, block.rows - row);
      const layer::Shape shape = {rows, width_, pitch};
      gate_.Fetch(block.first + row, rows);
      AscendC::Mul(gate_.u, gate_.u, gate_.factor, shape.Elements());
      layer::Then();
      AscendC::Mul(gate_.normed, gate_.normed, gate_.u, shape.Elements());
      layer::Then();
      gate_.strips.Put(operand[static_cast<uint64_t>(row) * pitch], gate_.normed, shape);
    }
    layer::WaitFor<AscendC::HardEvent::MTE3_S>();  // the cube reads what the stores have written
  }

  __aicore__ inline void StartProduct(const layer::Block& block) {
    const int32_t m = static_cast<int32_t>(block.rows);
    const int32_t n = static_cast<int32_t>(dim_);
    const int32_t k = static_cast<int32_t>(width_);
    product.SetOrgShape(m, n, static_cast<int32_t>(layer::PitchOf(width_)), k, n);
    product.SetSingleShape(m, n, k);
    product.SetTensorA(blocks_.Operand(block));
    product.SetTensorB(weight_, true);
    product.template IterateAll<false>(out_[static_cast<uint64_t>(block.first) * dim_], 0, false, true);
  }

  __aicore__ inline void AddRows(const layer::Block& block) {
    const layer::Floats bias = biasBuffer_.template Get<float>();
    const uint32_t atOnce = gate_.strips.Rows(dim_);
    const uint32_t pitch = layer::PitchOf(dim_);
    for (uint32_t row = 0; row < block.rows; row += atOnce) {
      const uint32_t rows = layer::Least(atOnce, block.rows - row);
      const layer::Shape shape = {rows, dim_, dim_};
      const uint64_t at = static_cast<uint64_t>(block.first + row) * dim_;
      gate_.strips.Fetch(gate_.u, x_[at], shape);
      gate_.strips.Fetch(gate_.normed, out_[at], shape);
      AscendC::Add(gate_.u, gate_.u, gate_.normed, shape.Elements());
      layer::Then();
      for (uint32_t r = 0; r < rows; ++r) {
        AscendC::Add(gate_.u[r * pitch], gate_.u[r * pitch], bias, static_cast<int32_t>(pitch));
      }
      layer::Then();
      gate_.strips.Put(out_[at], gate_.u, shape);
    }
  }

  uint32_t width_;
  uint32_t dim_;
  layer::Blocks<T> blocks_;
  GateStrips<T, R> gate_;
  AscendC::GlobalTensor<R> x_;
  AscendC::GlobalTensor<T> weight_;
  AscendC::GlobalTensor<T> bias_;
  AscendC::GlobalTensor<R> out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuffer_;
};

extern "C" __global__ __aicore__ void hstu_gated_output(GM_ADDR attended, GM_ADDR u, GM_ADDR x, GM_ADDR weight,
                                                        GM_ADDR bias, GM_ADDR keep, GM_ADDR out, GM_ADDR workspace,
                                                        GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(LayerTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  GatedOutput<DTYPE_ATTENDED, DTYPE_X> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tilingData.product);
  kernel.Init(&pipe, {attended, u, keep}, x, weight, bias, out, user, tilingData);
  kernel.Process();
}
