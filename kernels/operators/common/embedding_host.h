// Host side shared by the embedding operators: type columns, checks of the tables' description.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "data_faults_host.h"
#include "host_math.h"

namespace embedding {

constexpr int64_t ROW_LANES = 16;    // LANES of the device side
constexpr std::size_t COLUMNS = 36;  // rows x results or gradients x indices x offsets

// Column j of the type table: j = ((stored * 3 + dense) * 2 + index) * 2 + offset.
inline std::vector<ge::DataType> FloatColumns(std::size_t stride) {
  const ge::DataType types[] = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
  std::vector<ge::DataType> columns(COLUMNS);
  for (std::size_t j = 0; j < COLUMNS; ++j) {
    columns[j] = types[j / stride % 3];
  }
  return columns;
}

inline std::vector<ge::DataType> IntegerColumns(std::size_t stride) {
  std::vector<ge::DataType> columns(COLUMNS);
  for (std::size_t j = 0; j < COLUMNS; ++j) {
    columns[j] = j / stride % 2 == 0 ? ge::DT_INT64 : ge::DT_INT32;
  }
  return columns;
}

inline std::vector<ge::DataType> StoredColumns() { return FloatColumns(12); }
inline std::vector<ge::DataType> DenseColumns() { return FloatColumns(4); }
inline std::vector<ge::DataType> IndexColumns() { return IntegerColumns(2); }
inline std::vector<ge::DataType> OffsetColumns() { return IntegerColumns(1); }
inline std::vector<ge::DataType> Same(ge::DataType type) { return std::vector<ge::DataType>(COLUMNS, type); }
inline std::vector<ge::Format> Formats() { return std::vector<ge::Format>(COLUMNS, ge::FORMAT_ND); }

using host::CeilDiv;
inline int64_t CeilTo(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// ElementType of the device side.
inline uint32_t ElementTypeOf(ge::DataType type) { return type == ge::DT_FLOAT ? 0 : (type == ge::DT_FLOAT16 ? 1 : 2); }

// Length of a declared input vector; -1 where it is absent or no vector.
inline int64_t VectorLength(const gert::TilingContext* context, std::size_t input) {
  const auto* shape = context->GetOptionalInputShape(input);
  if (shape == nullptr || shape->GetStorageShape().GetDimNum() != 1) {
    return -1;
  }
  return shape->GetStorageShape().GetDim(0);
}

inline bool IsPresent(const gert::TilingContext* context, std::size_t input) {
  return context->GetOptionalInputShape(input) != nullptr;
}

inline uint32_t IntegerBytes(const gert::TilingContext* context, std::size_t input) {
  return static_cast<uint32_t>(ge::GetSizeByDataType(context->GetOptionalInputDesc(input)->GetDataType()));
}

inline int64_t VectorCores(gert::TilingContext* context) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  return std::max<int64_t>(1, platform.GetCoreNumAiv());
}

inline int64_t UnifiedBufferBytes(gert::TilingContext* context) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  uint64_t bytes = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
  return static_cast<int64_t>(bytes);
}

inline ge::graphStatus AskWorkspace(gert::TilingContext* context, int64_t userBytes) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize() + static_cast<std::size_t>(userBytes);
  return ge::GRAPH_SUCCESS;
}

}  // namespace embedding
