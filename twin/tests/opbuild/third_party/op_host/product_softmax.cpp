// The softmax of a product's rows, which stays in the cube's format NZ in between.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ProductSoftmaxTilingData)
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, cubeTilingData);
TILING_DATA_FIELD_DEF_STRUCT(SoftMaxTiling, softmaxTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ProductSoftmax, ProductSoftmaxTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& a = context->GetInputShape(0)->GetOriginShape();
  const gert::Shape& b = context->GetInputShape(1)->GetOriginShape();
  const int32_t m = a.GetDim(0), k = a.GetDim(1), n = b.GetDim(1);
  if (m % 16 != 0 || n % 16 != 0) {
    return ge::GRAPH_FAILED;
  }
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  matmul_tiling::MatmulApiTiling cube(platform);
  cube.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  cube.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  cube.SetCType(matmul_tiling::TPosition::VECIN, matmul_tiling::CubeFormat::NZ, matmul_tiling::DataType::DT_FLOAT);
  cube.SetShape(m, n, k);
  cube.SetOrgShape(m, n, k);
  cube.SetBufferSpace(-1, -1, -1);
  ProductSoftmaxTilingData tiling;
  if (cube.GetTiling(tiling.cubeTilingData) == -1) {
    return ge::GRAPH_FAILED;
  }
  std::vector<int64_t> dims = {m, n};
  ge::Shape srcShape(dims);
  tiling.set_tmpSize(AscendC::GetSoftMaxMinTmpSize(srcShape, sizeof(float), false));
  AscendC::SoftMaxTilingFunc(srcShape, sizeof(float), tiling.get_tmpSize(), tiling.softmaxTilingData);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus ProductShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {context->GetInputShape(0)->GetDim(0), context->GetInputShape(1)->GetDim(1)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class ProductSoftmax : public OpDef {
 public:
  explicit ProductSoftmax(const char* name) : OpDef(name) {
    this->Input("a")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("b")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(optiling::ProductShape);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(ProductSoftmax);

}  // namespace ops
