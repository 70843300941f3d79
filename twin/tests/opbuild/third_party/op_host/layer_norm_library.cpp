// The library's LayerNorm, which finds its scratch behind the buffers.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(LayerNormLibraryTilingData)
TILING_DATA_FIELD_DEF(float, epsilon);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormTiling, layernormTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormLibrary, LayerNormLibraryTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const int64_t columns = x.GetDim(1);
  const int64_t padded = (columns + 7) / 8 * 8;
  std::vector<int64_t> dims = {1, x.GetDim(0), padded, columns};
  ge::Shape srcShape(dims);
  uint32_t most = 0;
  uint32_t least = 0;
  AscendC::GetLayerNormMaxMinTmpSize(srcShape, sizeof(float), false, most, least);
  LayerNormLibraryTilingData tiling;
  AscendC::GetLayerNormNDTilingInfo(srcShape, least, sizeof(float), false, tiling.layernormTilingData);
  tiling.set_epsilon(*context->GetAttrs()->GetFloat(0));
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class LayerNormLibrary : public OpDef {
 public:
  explicit LayerNormLibrary(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("gamma")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("beta")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(LayerNormLibrary);

}  // namespace ops
