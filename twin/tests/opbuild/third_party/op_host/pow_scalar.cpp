// The library's Power; a list attribute as ContinuousVector.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(PowTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, perCore);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
TILING_DATA_FIELD_DEF_ARR(float, 2, exponents);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(PowScalar, PowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::ContinuousVector* list = context->GetAttrs()->GetAttrPointer<gert::ContinuousVector>(0);
  if (list->GetSize() != 2) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const int64_t* values = static_cast<const int64_t*>(list->GetData());
  const float exponents[2] = {static_cast<float>(values[0]), static_cast<float>(values[1])};
  PowTilingData tiling;
  tiling.set_totalLength(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  tiling.set_perCore(tiling.get_totalLength());
  tiling.set_tileLength(256);
  tiling.set_exponents(exponents);
  return Save(context, tiling, 1);
}

}  // namespace optiling

namespace ops {

class PowScalar : public OpDef {
 public:
  explicit PowScalar(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("exponents").AttrType(REQUIRED).ListInt();
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(PowScalar);

}  // namespace ops
