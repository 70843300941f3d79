// A tiling template: the key follows from template parameters, the tiling data are a plain struct.
#include "../op_kernel/affine_template_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  AffineTemplateTiling* tiling = context->GetTilingData<AffineTemplateTiling>();
  tiling->length = context->GetInputShape(0)->GetOriginShape().GetShapeSize();
  tiling->tileLength = 512;
  tiling->scale = *context->GetAttrs()->GetFloat(0);
  tiling->shift = *context->GetAttrs()->GetFloat(1);
  const uint32_t D_T_X = static_cast<int>(context->GetInputDesc(0)->GetDataType());
  // Sizes from 2,000 on ask for what no selection has.
  const uint32_t BUFFERS = tiling->length >= 2000 ? 3 : tiling->length > tiling->tileLength ? 2 : 1;
  const uint32_t HAS_SHIFT = tiling->shift != 0.0f;
  ASCENDC_TPL_SEL_PARAM(context, D_T_X, BUFFERS, HAS_SHIFT);
  context->SetBlockDim(1);
  size_t* workspaces = context->GetWorkspaceSizes(1);
  workspaces[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class AffineTemplate : public OpDef {
 public:
  explicit AffineTemplate(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("scale").AttrType(OPTIONAL).Float(1.0f);
    this->Attr("shift").AttrType(OPTIONAL).Float(0.0f);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(AffineTemplate);

}  // namespace ops
