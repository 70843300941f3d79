// Host side shared by the HSTU operators: shapes to tiling data, sizes of tiles, products.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

#include "hstu_tiling.h"

namespace hstu {

constexpr int64_t MAX_DIM = 512;
constexpr int64_t BLOCK_ROWS = 128;         // of a task: one base block of the cube
constexpr int64_t MAX_CHUNK = 512;          // columns of a tile: fewer partial sums than with square tiles
constexpr uint32_t UB_RESERVED = 8 * 1024;  // Select's scratch

inline int64_t RoundUpTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// One column per (type of q, type of the mask, type of offsets and counts).
struct Columns {
  std::vector<ge::DataType> data;
  std::vector<ge::DataType> mask;
  std::vector<ge::DataType> index;
  std::vector<ge::Format> format;
};

inline Columns AllColumns() {
  Columns columns;
  for (const auto data : {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16}) {
    for (const auto mask : {data, ge::DT_UINT8}) {
      for (const auto index : {ge::DT_INT64, ge::DT_INT32}) {
        columns.data.push_back(data);
        columns.mask.push_back(mask);
        columns.index.push_back(index);
        columns.format.push_back(ge::FORMAT_ND);
      }
    }
  }
  return columns;
}

// Positions of declared inputs; -1 where an operator lacks one.
struct InputIndex {
  int q;
  int k;
  int v;
  int mask;
  int bias;
  int offsets;
  int keyOffsets;
  int contexts;
  int targets;
  int cache;
  int pageOffsets;
  int pageIds;
  int lastPageLengths;
};

// Attributes in the order that every HSTU operator declares them.
enum Attribute : std::size_t {
  MASK_TYPE,
  MAX_SEQ_LEN,
  SILU_SCALE,
  LAYOUT,
  TARGET_GROUP_SIZE,
  ALPHA,
  MAX_ATTN_LEN,
  MIN_FULL_ATTN_SEQ_LEN,
  WINDOW_SIZE,
  ATTRIBUTES
};

class Describer {
 public:
  Describer(gert::TilingContext* context, const InputIndex& index, HstuTilingData& tiling)
      : context_(context), index_(index), tiling_(tiling) {}

  // False where shapes or attributes do not fit together.
  bool Describe() {
    const auto* attributes = context_->GetAttrs();
    const auto* q = Shape(index_.q);
    const auto* k = Shape(index_.k);
    const auto* v = Shape(index_.v);
    if (q == nullptr || k == nullptr || v == nullptr) {
      return false;
    }
    const bool normal = std::strcmp(attributes->GetStr(LAYOUT), "normal") == 0;
    if ((!normal && std::strcmp(attributes->GetStr(LAYOUT), "jagged") != 0) || !DescribeRows(*q, *k, *v, normal)) {
      return false;
    }
    tiling_.maskType = static_cast<uint32_t>(*attributes->GetInt(MASK_TYPE));
    tiling_.groupSize = static_cast<int32_t>(*attributes->GetInt(TARGET_GROUP_SIZE));
    tiling_.maxAttnLen = static_cast<int32_t>(*attributes->GetInt(MAX_ATTN_LEN));
    tiling_.minFullAttnSeqLen = static_cast<int32_t>(*attributes->GetInt(MIN_FULL_ATTN_SEQ_LEN));
    const int64_t window = *attributes->GetInt(WINDOW_SIZE);
    tiling_.windowSize = static_cast<int32_t>(std::min<int64_t>(window, INT32_MAX));
    tiling_.alpha = *attributes->GetFloat(ALPHA);
    maxSeqLen_ = *attributes->GetInt(MAX_SEQ_LEN);
    if (normal && maxSeqLen_ != 0 && maxSeqLen_ != tiling_.fixedLength) {
      return false;
    }
    maxSeqLen_ = normal ? tiling_.fixedLength : maxSeqLen_;
    tiling_.maxSeqLen = maxSeqLen_;
    const float scale = *attributes->GetFloat(SILU_SCALE);
    tiling_.scale = scale != 0.0f ? scale : maxSeqLen_ > 0 ? 1.0f / static_cast<float>(maxSeqLen_) : 0.0f;
    return tiling_.maskType <= HSTU_CUSTOM && tiling_.groupSize >= 0 && tiling_.maxAttnLen >= 0 &&
           tiling_.minFullAttnSeqLen >= 0 && !(tiling_.maxAttnLen > 0 && tiling_.groupSize > 1) && window >= -1 &&
           !(window >= 0 && (tiling_.maxAttnLen > 0 || tiling_.minFullAttnSeqLen > 0)) && maxSeqLen_ >= 0 &&
           DescribePages() && DescribeSquares();
  }
  // Bound of a sequence's length.
  int64_t LongestPossible() const {
    const int64_t rows = std::max(tiling_.queryRows, tiling_.keyRows) + tiling_.pageIds * tiling_.pageSize;
    return maxSeqLen_ > 0 ? std::min(maxSeqLen_, rows) : rows;
  }

 private:
  const gert::Shape* Shape(int input) const {
    const auto* shape = input < 0 ? nullptr : context_->GetOptionalInputShape(static_cast<std::size_t>(input));
    return shape == nullptr ? nullptr : &shape->GetStorageShape();
  }
  bool IsVector(int input, int64_t count, bool& present) const {
    const auto* shape = Shape(input);
    present = shape != nullptr;
    return shape == nullptr || (shape->GetDimNum() == 1 && (count < 0 || shape->GetDim(0) == count));
  }

  // q, k [B, S, N, D] or [L, N, D]; v with its own last dimension.
  bool DescribeRows(const gert::Shape& q, const gert::Shape& k, const gert::Shape& v, bool normal) {
    const std::size_t rank = normal ? 4 : 3;
    if (q.GetDimNum() != rank || k.GetDimNum() != rank || v.GetDimNum() != rank) {
      return false;
    }
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      if (k.GetDim(d) != v.GetDim(d) || ((normal || d > 0) && q.GetDim(d) != k.GetDim(d))) {
        return false;
      }
    }
    tiling_.heads = q.GetDim(rank - 2);
    tiling_.dim = q.GetDim(rank - 1);
    tiling_.valueDim = v.GetDim(rank - 1);
    if (k.GetDim(rank - 1) != tiling_.dim || tiling_.heads < 1 || tiling_.dim < 1 || tiling_.dim > MAX_DIM ||
        tiling_.valueDim < 1 || tiling_.valueDim > MAX_DIM ||
        tiling_.heads * std::max(tiling_.dim, tiling_.valueDim) > INT32_MAX) {
      return false;
    }
    if (normal) {
      tiling_.batch = q.GetDim(0);
      tiling_.fixedLength = q.GetDim(1);
      tiling_.queryRows = tiling_.keyRows = tiling_.batch * tiling_.fixedLength;
      tiling_.indexBytes = sizeof(int64_t);
      return DescribeCounts();
    }
    tiling_.queryRows = q.GetDim(0);
    tiling_.keyRows = k.GetDim(0);
    const auto* offsets = Shape(index_.offsets);
    if (offsets == nullptr || offsets->GetDimNum() != 1 || offsets->GetDim(0) < 1) {
      return false;
    }
    tiling_.batch = offsets->GetDim(0) - 1;
    tiling_.fixedLength = 0;
    const auto type = context_->GetOptionalInputDesc(static_cast<std::size_t>(index_.offsets))->GetDataType();
    tiling_.indexBytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
    return DescribeCounts();
  }
  bool DescribeCounts() {
    bool keyOffsets = false;
    bool contexts = false;
    bool targets = false;
    const bool sound = IsVector(index_.keyOffsets, tiling_.batch + 1, keyOffsets) &&
                       IsVector(index_.contexts, tiling_.batch, contexts) &&
                       IsVector(index_.targets, tiling_.batch, targets);
    tiling_.hasKeyOffsets = keyOffsets ? 1 : 0;
    tiling_.hasContexts = contexts ? 1 : 0;
    tiling_.hasTargets = targets ? 1 : 0;
    for (const int input : {index_.keyOffsets, index_.contexts, index_.targets}) {
      if (Shape(input) != nullptr && tiling_.fixedLength != 0) {
        const auto type = context_->GetOptionalInputDesc(static_cast<std::size_t>(input))->GetDataType();
        tiling_.indexBytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
      }
    }
    return sound && (keyOffsets || tiling_.queryRows == tiling_.keyRows);
  }
  // kv_cache [pages, 2, page size, N, D].
  bool DescribePages() {
    const auto* cache = Shape(index_.cache);
    if (cache == nullptr) {
      return true;
    }
    bool offsets = false;
    bool ids = false;
    bool lengths = false;
    if (!IsVector(index_.pageOffsets, tiling_.batch + 1, offsets) || !IsVector(index_.pageIds, -1, ids) ||
        !IsVector(index_.lastPageLengths, tiling_.batch, lengths) || !offsets || !ids || !lengths ||
        cache->GetDimNum() != 5 || cache->GetDim(1) != 2 || cache->GetDim(2) < 1 || cache->GetDim(3) != tiling_.heads ||
        cache->GetDim(4) != tiling_.dim || tiling_.dim != tiling_.valueDim) {
      return false;
    }
    tiling_.pages = cache->GetDim(0);
    tiling_.pageSize = cache->GetDim(2);
    tiling_.pageIds = Shape(index_.pageIds)->GetDim(0);
    return true;
  }
  bool DescribeSquares() {
    if (tiling_.maskType != HSTU_CUSTOM) {
      return DescribeSquare(index_.bias, tiling_.bias);
    }
    return DescribeSquare(index_.bias, tiling_.bias) && DescribeSquare(index_.mask, tiling_.mask) &&
           tiling_.mask.present != 0;
  }
  bool DescribeSquare(int input, HstuSquare& square) const {
    const auto* shape = Shape(input);
    if (shape == nullptr) {
      return true;
    }
    if (shape->GetDimNum() != 4 || (shape->GetDim(0) != 1 && shape->GetDim(0) != tiling_.batch) ||
        (shape->GetDim(1) != 1 && shape->GetDim(1) != tiling_.heads) || shape->GetDim(2) != shape->GetDim(3) ||
        shape->GetDim(2) < (tiling_.hasKeyOffsets != 0 ? 1 : maxSeqLen_)) {
      return false;
    }
    square.size = shape->GetDim(2);
    square.headStride = shape->GetDim(1) == 1 ? 0 : square.size * square.size;
    square.batchStride = shape->GetDim(0) == 1 ? 0 : shape->GetDim(1) * square.size * square.size;
    square.present = 1;
    const auto type = context_->GetOptionalInputDesc(static_cast<std::size_t>(input))->GetDataType();
    square.bytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
    return true;
  }

  gert::TilingContext* context_;
  const InputIndex& index_;
  HstuTilingData& tiling_;
  int64_t maxSeqLen_ = 0;
};

inline matmul_tiling::DataType CubeType(ge::DataType type) {
  return type == ge::DT_FLOAT     ? matmul_tiling::DataType::DT_FLOAT
         : type == ge::DT_FLOAT16 ? matmul_tiling::DataType::DT_FLOAT16
                                  : matmul_tiling::DataType::DT_BFLOAT16;
}

// a[m, k] b[k, n] of one vector core, its sums rounded to `sums`.
inline bool DescribeProduct(const platform_ascendc::PlatformAscendC& platform, ge::DataType type, bool transA,
                            bool transB, int64_t m, int64_t n, int64_t k, AscendC::tiling::TCubeTiling& product,
                            ge::DataType sums = ge::DT_FLOAT) {
  using matmul_tiling::CubeFormat;
  using matmul_tiling::TPosition;
  const auto data = CubeType(type);
  matmul_tiling::MatmulApiTiling api(platform);
  api.SetAType(TPosition::GM, CubeFormat::ND, data, transA);
  api.SetBType(TPosition::GM, CubeFormat::ND, data, transB);
  api.SetCType(TPosition::GM, CubeFormat::ND, CubeType(sums));
  api.SetShape(static_cast<int32_t>(m), static_cast<int32_t>(n), static_cast<int32_t>(k));
  api.SetOrgShape(static_cast<int32_t>(m), static_cast<int32_t>(n), static_cast<int32_t>(k));
  api.EnableBias(false);
  api.SetBufferSpace(-1, -1, -1);
  return api.GetTiling(product) != -1;
}

// Bytes of unified buffer per element of a strip that bias and mask need beside the scores (hstu_addends.h).
inline uint32_t AddendBytes(const HstuTilingData& tiling, uint32_t dataBytes) {
  uint32_t bytes = 0;
  const bool widens = dataBytes != sizeof(float);
  if (tiling.bias.present != 0) {
    bytes += dataBytes;
  }
  if (tiling.mask.present != 0) {
    bytes += tiling.mask.bytes + (tiling.mask.bytes == 1 ? sizeof(uint16_t) : 0) + 1;
  }
  if ((tiling.bias.present != 0 && widens) || (tiling.mask.present != 0 && (widens || tiling.mask.bytes == 1))) {
    bytes += sizeof(float);
  }
  return bytes;
}

// The largest strip of whole column units that fits; `perElement`: bytes of the stage's own buffers; `beside`: bytes of
// what does not grow with the strip.
inline uint32_t StripElements(const platform_ascendc::PlatformAscendC& platform, const HstuTilingData& tiling,
                              uint32_t dataBytes, uint32_t perElement, int64_t tileElements, uint32_t beside = 0) {
  uint64_t ub = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  const uint64_t fits = (ub - UB_RESERVED - beside) / (perElement + AddendBytes(tiling, dataBytes));
  const uint64_t whole = fits / HSTU_COLUMN_UNIT * HSTU_COLUMN_UNIT;
  return static_cast<uint32_t>(std::min<uint64_t>(whole, static_cast<uint64_t>(tileElements)));
}

// Rows of a matrix further apart than the cube's loads take in their plain form.
inline bool WideRows(const HstuTilingData& tiling) {
  return tiling.heads * std::max(tiling.dim, tiling.valueDim) > 65535;
}

}  // namespace hstu
