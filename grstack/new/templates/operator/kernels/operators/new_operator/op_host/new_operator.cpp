// The host side of NewOperator: how the work is split (tiling), the shape and type of the result, the definition.
#include <algorithm>

#include "new_operator_tiling.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace {

constexpr int64_t kMinCoreElements = 4096;  // fewer are not worth the start of a core
constexpr int64_t kAlignment = 256;         // elements: every core starts on a 512-byte border in either type
constexpr uint32_t kTileElements = 8192;    // float32: two loads and two stores take 128 of 192 KiB

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<NewOperatorTilingData>();
  const float* factor = context->GetAttrs()->GetFloat(0);
  if (tiling == nullptr || factor == nullptr) {
    return ge::GRAPH_FAILED;
  }
  const int64_t elements = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  if (context->GetOutputShape(0)->GetStorageShape().GetShapeSize() != elements) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const int64_t cores = std::max<int64_t>(1, platform.GetCoreNumAiv());
  const int64_t wanted = std::max<int64_t>(1, std::min(cores, CeilDiv(elements, kMinCoreElements)));
  tiling->elements = elements;
  tiling->elementsPerCore = std::max(kAlignment, CeilDiv(CeilDiv(elements, wanted), kAlignment) * kAlignment);
  tiling->tileElements = kTileElements;
  tiling->factor = *factor;
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, CeilDiv(elements, tiling->elementsPerCore))));
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* x = context->GetInputShape(0);
  auto* y = context->GetOutputShape(0);
  if (x == nullptr || y == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *y = *x;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

class NewOperator : public OpDef {
 public:
  explicit NewOperator(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16};
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    this->Input("x").ParamType(REQUIRED).DataType(types).Format(formats).AutoContiguous();
    this->Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    this->Attr("factor").AttrType(REQUIRED).Float();
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(NewOperator);

}  // namespace ops
