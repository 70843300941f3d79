// Attributes of the kind that ONNX has; -1 stands for the base e.
#include <cmath>

#include "length_tiling.h"
#include "platform/platform_info.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(LogTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, perCore);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
TILING_DATA_FIELD_DEF(float, factor);
TILING_DATA_FIELD_DEF(float, scale);
TILING_DATA_FIELD_DEF(float, shift);
TILING_DATA_FIELD_DEF(bool, plain);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Log, LogTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::RuntimeAttrs* attrs = context->GetAttrs();
  const float base = *attrs->GetAttrPointer<float>(0);
  LogTilingData tiling;
  tiling.set_totalLength(context->GetInputTensor(0)->GetShapeSize());
  tiling.set_perCore((tiling.get_totalLength() + 1023) / 1024 * 512);
  tiling.set_tileLength(256);
  tiling.set_factor(base > 0 ? 1.0f / std::log(base) : 1.0f);
  tiling.set_scale(*attrs->GetFloat(1));
  tiling.set_shift(*attrs->GetFloat(2));
  tiling.set_plain(tiling.get_scale() == 1.0f && tiling.get_shift() == 0.0f);
  return Save(context, tiling, tiling.get_totalLength() > tiling.get_perCore() ? 2 : 1);
}

}  // namespace optiling

namespace ops {

class Log : public OpDef {
 public:
  explicit Log(const char* name) : OpDef(name) {
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
    this->Attr("base").AttrType(OPTIONAL).Float(-1.0);
    this->Attr("scale").AttrType(OPTIONAL).Float(1.0);
    this->Attr("shift").AttrType(OPTIONAL).Float(0.0);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(Log);

}  // namespace ops
