// A small operator written with the tiling macros: y = x * factor (+ bias where given), one block per row.
#include "register/op_def_registry.h"

#include "scale_rows_tiling.h"

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const auto& x = context->GetRequiredInputShape(0)->GetStorageShape();
  if (x.GetDimNum() != 2) {  // whichever code it is that a tiling refuses by
    return x.GetDimNum() == 1 ? ge::GRAPH_FAILED : ge::GRAPH_PARAM_INVALID;
  }
  ScaleRowsTilingData tiling;
  const int16_t tag[3] = {11, -22, 33};
  tiling.set_columns(static_cast<uint32_t>(x.GetDim(1)));
  tiling.set_tag(tag);
  tiling.set_factor(*context->GetAttrs()->GetFloat(0));
  tiling.range.set_used(1);
  tiling.range.set_rows(x.GetDim(0));
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(x.GetDim(0)));
  // Key 5 has no kernel: columns of that number ask for it.
  context->SetTilingKey(context->GetOptionalInputShape(1) != nullptr ? 2 : x.GetDim(1) == 5 ? 5 : 1);
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class ScaleRows : public OpDef {
 public:
  explicit ScaleRows(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Input("bias")
        .ParamType(OPTIONAL)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("factor").AttrType(REQUIRED).Float();
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(ScaleRows);

}  // namespace ops
