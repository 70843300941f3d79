#include "embedding_host.h"

#include <cmath>

#include "../op_kernel/backward_codegen_adagrad_unweighted_exact_tiling.h"

namespace {

enum Inputs : std::size_t {
  GRAD_OUTPUT,
  DEV_WEIGHTS,
  UVM_WEIGHTS,
  LXU_CACHE_WEIGHTS,
  WEIGHTS_PLACEMENTS,
  WEIGHTS_OFFSETS,
  D_OFFSETS,
  HASH_SIZE_CUMSUM,
  INDICES,
  OFFSETS,
  LXU_CACHE_LOCATIONS,
  MOMENTUM1_DEV,
  MOMENTUM1_UVM,
  MOMENTUM1_PLACEMENTS,
  MOMENTUM1_OFFSETS,
  MOMENTUM2_DEV,
  MOMENTUM2_UVM,
  MOMENTUM2_PLACEMENTS,
  MOMENTUM2_OFFSETS,
  HASH_INDICES,
  UNIQUE_ID,
  UNIQUE_HASH_SIZE,
  UNIQUE_INVERSE,
  INDICE_WEIGHTS,
  FEATURE_REQUIRES_GRAD,
};
enum Attributes : std::size_t {
  MAX_D,
  TOTAL_HASH_SIZE_BITS,
  POOL_MODE,
  BT_BLOCK_SIZE,
  MAX_SEGMENT_LENGTH_PER_WARP,
  STOCHASTIC_ROUNDING,
  INFO_B_NUM_BITS,
  INFO_B_MASK_INT64,
  USE_UNIQ_CACHE_LOCATIONS,
  USE_HOMOGENEOUS_PLACEMENTS,
  OPTIM_TYPE,
  ITER,
  EPS,
  LEARNING_RATE,
  BETA1,
  BETA2,
  WEIGHT_DECAY,
  MAX_NORM,
  MAX_GRADIENT,
  WEIGHT_DECAY_MODE,
  IS_DYNAMIC,
  INDICE_WEIGHTS_GRADIENT,
  ONE_MINUS_BETA1,
  ONE_MINUS_BETA2,
  ROUNDING_SEED,
};

constexpr int64_t NONE = 2;
constexpr int64_t ADAGRAD = 1;
constexpr int64_t ADAM = 2;
constexpr int64_t SGD = 3;
constexpr int64_t ROWWISE_ADAGRAD = 4;
constexpr int64_t BLOCK = 128;      // contributions of one sum
constexpr int64_t MIN_CHUNK = 256;  // contributions that are worth a core
constexpr int64_t MAX_GROUP = 32;
constexpr int64_t RECORD_BYTES = 16;
constexpr int64_t COUNTS_PER_CORE = 256 * 4;
constexpr int64_t PARTIALS = 2;
constexpr int64_t ROW_SUMS = 2;  // squares of a gradient, squares of the new row
constexpr int64_t BUFFERS = 2;
constexpr int64_t FIXED_BYTES = 24 * 1024;  // the window of records, scalars of rows
constexpr uint32_t BATCH_MODE = 1;

using Tiling = BackwardCodegenAdagradUnweightedExactTilingData;

bool HasMomentum1(int64_t optimizer) { return optimizer != SGD; }
bool HasMomentum2(int64_t optimizer) { return optimizer == ADAM; }

// Lengths of the description and the states; false where they contradict each other.
bool ReadShapes(const gert::TilingContext* context, Tiling& tiling) {
  const auto& grad = context->GetRequiredInputShape(GRAD_OUTPUT)->GetStorageShape();
  tiling.weightElements = embedding::VectorLength(context, DEV_WEIGHTS);
  tiling.features = embedding::VectorLength(context, D_OFFSETS) - 1;
  tiling.indexCount = embedding::VectorLength(context, INDICES);
  tiling.bags = embedding::VectorLength(context, OFFSETS) - 1;
  const bool vectors = tiling.weightElements >= 0 && tiling.features >= 1 && tiling.indexCount >= 0 &&
                       tiling.bags >= 0 && tiling.bags % tiling.features == 0 &&
                       embedding::VectorLength(context, WEIGHTS_OFFSETS) == tiling.features &&
                       embedding::VectorLength(context, HASH_SIZE_CUMSUM) == tiling.features + 1;
  if (!vectors || grad.GetDimNum() != 2 || tiling.indexCount > INT32_MAX || tiling.bags >= INT32_MAX) {
    return false;
  }
  tiling.batch = tiling.bags / tiling.features;
  tiling.gradRows = grad.GetDim(0);
  tiling.gradColumns = grad.GetDim(1);
  if (tiling.gradRows != (tiling.pooling == NONE ? tiling.indexCount : tiling.batch) ||
      tiling.gradColumns < tiling.maxWidth) {
    return false;
  }
  if (HasMomentum1(tiling.optimizer)) {
    tiling.momentum1Elements = embedding::VectorLength(context, MOMENTUM1_DEV);
    if (tiling.momentum1Elements < 0 || embedding::VectorLength(context, MOMENTUM1_OFFSETS) != tiling.features) {
      return false;
    }
  }
  if (HasMomentum2(tiling.optimizer)) {
    tiling.momentum2Elements = embedding::VectorLength(context, MOMENTUM2_DEV);
    if (tiling.momentum2Elements < 0 || embedding::VectorLength(context, MOMENTUM2_OFFSETS) != tiling.features) {
      return false;
    }
  }
  tiling.weighted = embedding::IsPresent(context, INDICE_WEIGHTS) ? 1 : 0;
  const bool weights = tiling.weighted == 0 || (tiling.pooling != NONE &&
                                                embedding::VectorLength(context, INDICE_WEIGHTS) == tiling.indexCount);
  const bool mask = !embedding::IsPresent(context, FEATURE_REQUIRES_GRAD) ||
                    embedding::VectorLength(context, FEATURE_REQUIRES_GRAD) == tiling.features;
  return weights && mask && (tiling.weightsGradient == 0 || tiling.weighted != 0);
}

bool ReadAttributes(const gert::RuntimeAttrs* attributes, Tiling& tiling) {
  const int64_t pooling = *attributes->GetInt(POOL_MODE);
  const int64_t optimizer = *attributes->GetInt(OPTIM_TYPE);
  const int64_t iter = *attributes->GetInt(ITER);
  tiling.maxWidth = *attributes->GetInt(MAX_D);
  if (tiling.maxWidth < 1 || pooling < 0 || pooling > NONE || optimizer < ADAGRAD || optimizer > ROWWISE_ADAGRAD ||
      (optimizer == ADAM && iter < 1)) {
    return false;
  }
  tiling.pooling = static_cast<uint32_t>(pooling);
  tiling.optimizer = static_cast<uint32_t>(optimizer);
  tiling.eps = *attributes->GetFloat(EPS);
  tiling.learningRate = *attributes->GetFloat(LEARNING_RATE);
  tiling.beta1 = *attributes->GetFloat(BETA1);
  tiling.beta2 = *attributes->GetFloat(BETA2);
  tiling.weightDecay = *attributes->GetFloat(WEIGHT_DECAY);
  tiling.maxNorm = *attributes->GetFloat(MAX_NORM);
  tiling.maxGradient = *attributes->GetFloat(MAX_GRADIENT);
  tiling.weightDecayMode = static_cast<int32_t>(*attributes->GetInt(WEIGHT_DECAY_MODE));
  tiling.weightsGradient = *attributes->GetBool(INDICE_WEIGHTS_GRADIENT) ? 1 : 0;
  tiling.rounding = *attributes->GetInt(STOCHASTIC_ROUNDING) != 0 ? 1 : 0;
  tiling.roundingSeed = *attributes->GetInt(ROUNDING_SEED);
  if (optimizer == ADAM) {
    // An attribute is fp32: 0.999 loses 1e-5 of 1 - 0.999, so the difference comes by itself where it is given.
    const float given1 = *attributes->GetFloat(ONE_MINUS_BETA1);
    const float given2 = *attributes->GetFloat(ONE_MINUS_BETA2);
    const double rest1 = given1 >= 0.0f ? given1 : 1.0 - tiling.beta1;
    const double rest2 = given2 >= 0.0f ? given2 : 1.0 - tiling.beta2;
    const double steps = static_cast<double>(iter);
    tiling.rest1 = static_cast<float>(rest1);
    tiling.rest2 = static_cast<float>(rest2);
    tiling.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(1.0 - rest1, steps)));
    tiling.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(1.0 - rest2, steps)));
  }
  return true;
}

// Columns and rows that the unified buffer holds at once.
void FitBuffers(gert::TilingContext* context, Tiling& tiling) {
  const int64_t stored = ge::GetSizeByDataType(context->GetRequiredInputDesc(DEV_WEIGHTS)->GetDataType());
  const bool rowwise = tiling.optimizer == ROWWISE_ADAGRAD;
  const int64_t states =
      (rowwise ? 0 : (HasMomentum1(tiling.optimizer) ? 4 : 0)) + (HasMomentum2(tiling.optimizer) ? 4 : 0);
  // Per lane of a group: loads, stores, sums, work, and fp32 images of what is stored in 2 bytes.
  const int64_t laneBytes = BUFFERS * (4 + stored + states) + BUFFERS * (stored + states) + 4 + 4 +
                            (tiling.gradType == 0 ? 0 : 4) + (stored == 4 ? 0 : 8);
  // Besides, per column: partial sums on their way out, the running sum, the numbers that rounding draws by.
  const int64_t columnBytes = BUFFERS * PARTIALS * 4 + 4 + (tiling.rounding == 0 ? 0 : 3 * 4);
  const int64_t room = embedding::UnifiedBufferBytes(context) - FIXED_BYTES;
  const int64_t lanes = embedding::CeilTo(tiling.maxWidth, embedding::ROW_LANES);
  const int64_t longest = room / (laneBytes + columnBytes) / embedding::ROW_LANES * embedding::ROW_LANES;
  const int64_t columns = std::min(lanes, longest);
  int64_t rows = 1;
  while (rows < MAX_GROUP && columns * (2 * rows * laneBytes + columnBytes) <= room) {
    rows *= 2;
  }
  tiling.tileColumns = static_cast<uint32_t>(columns);
  tiling.groupRows = static_cast<uint32_t>(rows);
  tiling.partialPitch = lanes;
  tiling.phased = rowwise && columns < lanes ? 1 : 0;
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<Tiling>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = Tiling{};
  if (!ReadAttributes(context->GetAttrs(), *tiling) || !ReadShapes(context, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->indexBytes = embedding::IntegerBytes(context, INDICES);
  tiling->offsetBytes = embedding::IntegerBytes(context, OFFSETS);
  tiling->gradType = embedding::ElementTypeOf(context->GetRequiredInputDesc(GRAD_OUTPUT)->GetDataType());
  if (context->GetRequiredInputDesc(DEV_WEIGHTS)->GetDataType() == ge::DT_FLOAT) {
    tiling->rounding = 0;
  }
  FitBuffers(context, *tiling);
  const int64_t share = embedding::CeilDiv(std::max<int64_t>(1, tiling->indexCount), embedding::VectorCores(context));
  tiling->chunk = embedding::CeilTo(std::max(share, MIN_CHUNK), BLOCK);
  const int64_t cores = std::max<int64_t>(1, embedding::CeilDiv(tiling->indexCount, tiling->chunk));
  const int64_t blocks = embedding::CeilDiv(tiling->indexCount, BLOCK);
  context->SetTilingKey(1);
  context->SetBlockDim(static_cast<uint32_t>(cores));
  context->SetScheduleMode(BATCH_MODE);
  const int64_t rowSums = tiling->phased == 0 ? 0 : ROW_SUMS * embedding::CeilTo(tiling->indexCount * 4, 512);
  return embedding::AskWorkspace(context, 2 * embedding::CeilTo(tiling->indexCount * RECORD_BYTES, 512) +
                                              cores * COUNTS_PER_CORE + blocks * PARTIALS * tiling->partialPitch * 4 +
                                              rowSums);
}

}  // namespace optiling

namespace ge {

// Outputs that are there: out, momentum1_dev_out, momentum2_dev_out as the optimizer has them, weights_dev_out.
static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* attributes = context->GetAttrs();
  const int64_t optimizer = *attributes->GetInt(OPTIM_TYPE);
  const auto* weights = context->GetRequiredInputShape(DEV_WEIGHTS);
  const auto* indices = context->GetRequiredInputShape(INDICES);
  auto* out = context->GetOutputShape(0);
  if (weights == nullptr || indices == nullptr || out == nullptr || indices->GetDimNum() != 1) {
    return ge::GRAPH_FAILED;
  }
  out->SetDimNum(0);
  out->AppendDim(*attributes->GetBool(INDICE_WEIGHTS_GRADIENT) ? indices->GetDim(0) : 0);
  std::size_t output = 1;
  for (const std::size_t state : {MOMENTUM1_DEV, MOMENTUM2_DEV}) {
    if (state == MOMENTUM1_DEV ? HasMomentum1(optimizer) : HasMomentum2(optimizer)) {
      const auto* shape = context->GetOptionalInputShape(state);
      auto* result = context->GetOutputShape(output++);
      if (shape == nullptr || result == nullptr) {
        return ge::GRAPH_FAILED;
      }
      *result = *shape;
    }
  }
  auto* result = context->GetOutputShape(output);
  if (result == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *result = *weights;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  const int64_t optimizer = *context->GetAttrs()->GetInt(OPTIM_TYPE);
  std::size_t output = 0;
  const std::size_t floats = 1 + (HasMomentum1(optimizer) ? 1 : 0) + (HasMomentum2(optimizer) ? 1 : 0);
  for (; output < floats; ++output) {
    context->SetOutputDataType(output, ge::DT_FLOAT);
  }
  return context->SetOutputDataType(output, context->GetRequiredInputDataType(DEV_WEIGHTS));
}

}  // namespace ge

namespace ops {

class BackwardCodegenAdagradUnweightedExact : public OpDef {
 public:
  explicit BackwardCodegenAdagradUnweightedExact(const char* name) : OpDef(name) {
    Tensor("grad_output", REQUIRED, embedding::DenseColumns());
    Tensor("dev_weights", REQUIRED, embedding::StoredColumns());
    Tensor("uvm_weights", OPTIONAL, embedding::StoredColumns());
    Tensor("lxu_cache_weights", OPTIONAL, embedding::StoredColumns());
    Tensor("weights_placements", OPTIONAL, embedding::Same(ge::DT_INT32));
    Tensor("weights_offsets", REQUIRED, embedding::Same(ge::DT_INT64));
    Tensor("d_offsets", REQUIRED, embedding::Same(ge::DT_INT32));
    Tensor("hash_size_cumsum", REQUIRED, embedding::Same(ge::DT_INT64));
    Tensor("indices", REQUIRED, embedding::IndexColumns());
    Tensor("offsets", REQUIRED, embedding::OffsetColumns());
    Tensor("lxu_cache_locations", OPTIONAL, embedding::Same(ge::DT_INT32));
    for (const char* state : {"momentum1", "momentum2"}) {
      const std::string prefix = state;
      Tensor((prefix + "_dev").c_str(), OPTIONAL, embedding::Same(ge::DT_FLOAT));
      Tensor((prefix + "_uvm").c_str(), OPTIONAL, embedding::Same(ge::DT_FLOAT));
      Tensor((prefix + "_placements").c_str(), OPTIONAL, embedding::Same(ge::DT_INT32));
      Tensor((prefix + "_offsets").c_str(), OPTIONAL, embedding::Same(ge::DT_INT64));
    }
    Tensor("hash_indices", OPTIONAL, embedding::Same(ge::DT_INT64));
    Tensor("unique_id", OPTIONAL, embedding::Same(ge::DT_INT64));
    Tensor("unique_hash_size", OPTIONAL, embedding::Same(ge::DT_INT64));
    Tensor("unique_inverse", OPTIONAL, embedding::Same(ge::DT_INT64));
    Tensor("indice_weights", OPTIONAL, embedding::Same(ge::DT_FLOAT));
    Tensor("feature_requires_grad", OPTIONAL, embedding::Same(ge::DT_INT32));
    Result("out", REQUIRED, embedding::Same(ge::DT_FLOAT));
    Result("momentum1_dev_out", OPTIONAL, embedding::Same(ge::DT_FLOAT));
    Result("momentum2_dev_out", OPTIONAL, embedding::Same(ge::DT_FLOAT));
    Result("weights_dev_out", REQUIRED, embedding::StoredColumns());
    this->Attr("max_d").AttrType(REQUIRED).Int();
    this->Attr("total_hash_size_bits").AttrType(OPTIONAL).Int(0);
    this->Attr("pool_mode").AttrType(REQUIRED).Int();
    for (const char* hint : {"bt_block_size", "max_segment_length_per_warp", "stochastic_rounding", "info_b_num_bits",
                             "info_b_mask_int64", "use_uniq_cache_locations", "use_homogeneous_placements"}) {
      this->Attr(hint).AttrType(OPTIONAL).Int(0);
    }
    this->Attr("optim_type").AttrType(REQUIRED).Int();
    this->Attr("iter").AttrType(OPTIONAL).Int(0);
    for (const char* scalar : {"eps", "learning_rate", "beta1", "beta2", "weight_decay", "max_norm"}) {
      this->Attr(scalar).AttrType(OPTIONAL).Float(0.0f);
    }
    this->Attr("max_gradient").AttrType(OPTIONAL).Float(-1.0f);
    this->Attr("weight_decay_mode").AttrType(OPTIONAL).Int(0);
    this->Attr("is_dynamic").AttrType(OPTIONAL).Bool(false);
    this->Attr("indice_weights_gradient").AttrType(OPTIONAL).Bool(false);
    this->Attr("one_minus_beta1").AttrType(OPTIONAL).Float(-1.0f);
    this->Attr("one_minus_beta2").AttrType(OPTIONAL).Float(-1.0f);
    this->Attr("rounding_seed").AttrType(OPTIONAL).Int(0);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }

 private:
  void Tensor(const char* name, Option option, const std::vector<ge::DataType>& types) {
    this->Input(name).ParamType(option).DataType(types).Format(embedding::Formats()).AutoContiguous();
  }
  void Result(const char* name, Option option, const std::vector<ge::DataType>& types) {
    this->Output(name).ParamType(option).DataType(types).Format(embedding::Formats());
  }
};

OP_ADD(BackwardCodegenAdagradUnweightedExact);

}  // namespace ops
