#include "embedding_host.h"

#include "../op_kernel/split_embedding_codegen_forward_unweighted_tiling.h"

namespace {

enum Inputs : std::size_t {
  DEV_WEIGHTS,
  UVM_WEIGHTS,
  LXU_CACHE_WEIGHTS,
  WEIGHTS_PLACEMENTS,
  WEIGHTS_OFFSETS,
  D_OFFSETS,
  INDICES,
  OFFSETS,
  LXU_CACHE_LOCATIONS,
  HASH_INDICES,
  UNIQUE_INVERSE,
  INDICE_WEIGHTS,
};
enum Attributes : std::size_t { TOTAL_D, MAX_D, POOL_MODE, OUTPUT_DTYPE, IS_EXPERIMENTAL, IS_DYNAMIC };

constexpr std::size_t FAULTS = 1;  // of the outputs
constexpr int64_t NONE = 2;
constexpr int64_t MAX_TILE_COLUMNS = 2048;
constexpr int64_t MAX_GROUP_ROWS = 32;
constexpr int64_t INTEGER_TILE = 1024;
constexpr int64_t MIN_CORE_ROWS = 8;  // below, a core's start costs more than its rows

ge::DataType OutputType(int64_t code) {
  switch (code) {
    case 0:
      return ge::DT_FLOAT;
    case 1:
      return ge::DT_FLOAT16;
    case 5:
      return ge::DT_BF16;
    default:
      return ge::DT_UNDEFINED;
  }
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<SplitEmbeddingCodegenForwardUnweightedTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = SplitEmbeddingCodegenForwardUnweightedTilingData{};
  const auto* attributes = context->GetAttrs();
  const int64_t maxD = *attributes->GetInt(MAX_D);
  const int64_t pooling = *attributes->GetInt(POOL_MODE);
  tiling->weightElements = embedding::VectorLength(context, DEV_WEIGHTS);
  tiling->features = embedding::VectorLength(context, D_OFFSETS) - 1;
  tiling->indexCount = embedding::VectorLength(context, INDICES);
  tiling->bags = embedding::VectorLength(context, OFFSETS) - 1;
  const auto& out = context->GetOutputShape(0)->GetStorageShape();
  if (tiling->weightElements < 0 || tiling->features < 1 || tiling->indexCount < 0 || tiling->bags < 0 ||
      tiling->bags % tiling->features != 0 || maxD < 1 || pooling < 0 || pooling > NONE ||
      embedding::VectorLength(context, WEIGHTS_OFFSETS) != tiling->features || out.GetDimNum() != 2 ||
      !fault::Fits(context, FAULTS)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->batch = tiling->bags / tiling->features;
  tiling->outColumns = out.GetDim(1);
  tiling->weighted = embedding::IsPresent(context, INDICE_WEIGHTS) ? 1 : 0;
  if ((tiling->weighted != 0 &&
       (pooling == NONE || embedding::VectorLength(context, INDICE_WEIGHTS) != tiling->indexCount)) ||
      out.GetDim(0) != (pooling == NONE ? tiling->indexCount : tiling->batch)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->pooling = static_cast<uint32_t>(pooling);
  tiling->indexBytes = embedding::IntegerBytes(context, INDICES);
  tiling->offsetBytes = embedding::IntegerBytes(context, OFFSETS);
  tiling->outType = embedding::ElementTypeOf(context->GetOutputDesc(0)->GetDataType());

  const int64_t columns = std::min(embedding::CeilTo(maxD, embedding::ROW_LANES), MAX_TILE_COLUMNS);
  // Two buffers of loaded rows, their fp32 image, two buffers of results; besides them the sum and the indices.
  const int64_t fixedBytes = 2 * INTEGER_TILE * 8 + 4 * columns * 4 + 4096;
  const int64_t rowBytes = columns * (2 * 4 + 4 + 2 * 4);
  const int64_t rows = (embedding::UnifiedBufferBytes(context) - fixedBytes) / rowBytes;
  tiling->tileColumns = static_cast<uint32_t>(columns);
  tiling->groupRows = static_cast<uint32_t>(std::max<int64_t>(1, std::min(rows, MAX_GROUP_ROWS)));
  tiling->integerTile = static_cast<uint32_t>(INTEGER_TILE);

  const int64_t work = embedding::CeilDiv(tiling->indexCount + (pooling == NONE ? 0 : tiling->bags), MIN_CORE_ROWS);
  const int64_t cores = std::max<int64_t>(1, std::min(embedding::VectorCores(context), work));
  context->SetTilingKey(1);
  context->SetBlockDim(static_cast<uint32_t>(cores));
  return embedding::AskWorkspace(context, 0);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* attributes = context->GetAttrs();
  const auto* dOffsets = context->GetRequiredInputShape(D_OFFSETS);
  const auto* indices = context->GetRequiredInputShape(INDICES);
  const auto* offsets = context->GetRequiredInputShape(OFFSETS);
  auto* out = context->GetOutputShape(0);
  if (dOffsets == nullptr || indices == nullptr || offsets == nullptr || out == nullptr || dOffsets->GetDimNum() != 1 ||
      indices->GetDimNum() != 1 || offsets->GetDimNum() != 1) {
    return ge::GRAPH_FAILED;
  }
  const bool known = dOffsets->GetDim(0) > 1 && offsets->GetDim(0) >= 0;
  const int64_t batch = known ? (offsets->GetDim(0) - 1) / (dOffsets->GetDim(0) - 1) : -1;
  const bool pooled = *attributes->GetInt(POOL_MODE) != NONE;
  out->SetDimNum(0);
  out->AppendDim(pooled ? batch : indices->GetDim(0));
  out->AppendDim(*attributes->GetInt(pooled ? TOTAL_D : MAX_D));
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  const auto type = OutputType(*context->GetAttrs()->GetInt(OUTPUT_DTYPE));
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return type == ge::DT_UNDEFINED ? ge::GRAPH_FAILED : context->SetOutputDataType(0, type);
}

}  // namespace ge

namespace ops {

class SplitEmbeddingCodegenForwardUnweighted : public OpDef {
 public:
  explicit SplitEmbeddingCodegenForwardUnweighted(const char* name) : OpDef(name) {
    Vector("dev_weights", REQUIRED, embedding::StoredColumns());
    Vector("uvm_weights", OPTIONAL, embedding::StoredColumns());
    Vector("lxu_cache_weights", OPTIONAL, embedding::StoredColumns());
    Vector("weights_placements", OPTIONAL, embedding::Same(ge::DT_INT32));
    Vector("weights_offsets", REQUIRED, embedding::Same(ge::DT_INT64));
    Vector("d_offsets", REQUIRED, embedding::Same(ge::DT_INT32));
    Vector("indices", REQUIRED, embedding::IndexColumns());
    Vector("offsets", REQUIRED, embedding::OffsetColumns());
    Vector("lxu_cache_locations", OPTIONAL, embedding::Same(ge::DT_INT32));
    Vector("hash_indices", OPTIONAL, embedding::Same(ge::DT_INT64));
    Vector("unique_inverse", OPTIONAL, embedding::Same(ge::DT_INT64));
    Vector("indice_weights", OPTIONAL, embedding::Same(ge::DT_FLOAT));
    fault::DeclareInput(*this, embedding::Formats());
    this->Output("out").ParamType(REQUIRED).DataType(embedding::DenseColumns()).Format(embedding::Formats());
    fault::DeclareOutput(*this, embedding::Formats());
    this->Attr("total_d").AttrType(REQUIRED).Int();
    this->Attr("max_d").AttrType(REQUIRED).Int();
    this->Attr("pool_mode").AttrType(REQUIRED).Int();
    this->Attr("output_dtype").AttrType(OPTIONAL).Int(0);
    this->Attr("is_experimental").AttrType(OPTIONAL).Bool(false);
    this->Attr("is_dynamic").AttrType(OPTIONAL).Bool(false);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }

 private:
  void Vector(const char* name, Option option, const std::vector<ge::DataType>& types) {
    this->Input(name).ParamType(option).DataType(types).Format(embedding::Formats()).AutoContiguous();
  }
};

OP_ADD(SplitEmbeddingCodegenForwardUnweighted);

}  // namespace ops
