// Outputs whose shapes the kernel writes, in each form that a record may have, right and wrong. y and index are so,
// each marked in one of the two ways; total, between them, is not.
#include <cstring>

#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(KeepFirstTilingData)
TILING_DATA_FIELD_DEF(uint32_t, length);
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF(uint32_t, form);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(KeepFirst, KeepFirstTilingData)

static ge::graphStatus KeepFirstTiling(gert::TilingContext* context) {
  const char* forms[] = {"wide", "narrow", "unmarked", "none", "nine", "large"};
  KeepFirstTilingData tiling;
  tiling.set_length(static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetShapeSize()));
  tiling.set_count(static_cast<uint32_t>(*context->GetAttrs()->GetInt(0)));
  for (uint32_t form = 0; form < 6; ++form) {
    if (std::strcmp(context->GetAttrs()->GetStr(1), forms[form]) == 0) {
      tiling.set_form(form);
    }
  }
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(1);
  context->GetWorkspaceSizes(1)[0] = 0;
  // Asked for in vain: x has no values on the host.
  return std::strcmp(context->GetAttrs()->GetStr(1), "values") == 0 &&
                 context->GetInputTensor(0)->GetData<float>() == nullptr
             ? ge::GRAPH_FAILED
             : ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(KeepFirst).Tiling(KeepFirstTiling).OutputShapeDependOnCompute({2});

}  // namespace optiling

namespace ops {

class KeepFirst : public OpDef {
 public:
  explicit KeepFirst(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND}).OutputShapeDependOnCompute();
    this->Output("total").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("index").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Attr("count").AttrType(REQUIRED).Int();
    this->Attr("form").AttrType(REQUIRED).String();
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(KeepFirst);

}  // namespace ops
