// Tiling and shape functions registered apart from the definition.
#include "length_tiling.h"
#include "register/op_impl_registry.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(SubCustom, LengthTilingData)

struct SubCompileInfo {
  uint32_t cores = 0;
};

static ge::graphStatus ParseSub(gert::TilingParseContext* context) {
  SubCompileInfo* info = context->GetCompiledInfo<SubCompileInfo>();
  info->cores = platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAiv();
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus TilingSub(gert::TilingContext* context) {
  const SubCompileInfo* info = context->GetCompileInfo<SubCompileInfo>();
  return info == nullptr ? ge::GRAPH_FAILED : SplitLength(context, info->cores);
}

IMPL_OP_OPTILING(SubCustom).Tiling(TilingSub).TilingParse<SubCompileInfo>(ParseSub);

}  // namespace optiling

namespace ops {

class SubCustom : public OpDef {
 public:
  explicit SubCustom(const char* name) : OpDef(name) {
    this->Input("x1")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("x2")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});

    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(SubCustom);

}  // namespace ops

namespace ge {

IMPL_OP_INFERSHAPE(SubCustom).InferShape(SameShape).InferDataType(SameType);

}  // namespace ge
