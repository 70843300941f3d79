// gert::TilingContext.
#pragma once
#include <cstring>

#include "exe_graph/runtime/op_context.h"

namespace gert {

class TilingData {
 public:
  explicit TilingData(std::size_t capacity) : bytes_((capacity + 7) / 8) {}
  void* GetData() { return bytes_.data(); }
  const void* GetData() const { return bytes_.data(); }
  std::size_t GetCapacity() const { return bytes_.size() * 8; }
  std::size_t GetDataSize() const { return size_; }
  void SetDataSize(std::size_t size) { size_ = size; }
  template <typename T>
  ge::graphStatus Append(const T& value) {
    if (size_ + sizeof(T) > GetCapacity()) {
      return ge::GRAPH_FAILED;
    }
    std::memcpy(reinterpret_cast<char*>(bytes_.data()) + size_, &value, sizeof(T));
    size_ += sizeof(T);
    return ge::GRAPH_SUCCESS;
  }

 private:
  std::vector<uint64_t> bytes_;
  std::size_t size_ = 0;
};

class TilingContext : public OpContext {
 public:
  TilingContext(const OpCall& call, std::size_t capacity)
      : OpContext(call), data_(capacity), platform_(call.platform) {}

  const StorageShape* GetInputShape(std::size_t i) const { return ShapeOf(GetInputTensor(i)); }
  const StorageShape* GetRequiredInputShape(std::size_t ir) const { return ShapeOf(Declared(ir, 0)); }
  const StorageShape* GetOptionalInputShape(std::size_t ir) const { return ShapeOf(Declared(ir, 0)); }
  const StorageShape* GetDynamicInputShape(std::size_t ir, std::size_t relative) const {
    return ShapeOf(Declared(ir, relative));
  }
  const StorageShape* GetOutputShape(std::size_t i) const { return ShapeOf(Output(i)); }
  const CompileTimeTensorDesc* GetInputDesc(std::size_t i) const { return DescOf(GetInputTensor(i)); }
  const CompileTimeTensorDesc* GetRequiredInputDesc(std::size_t ir) const { return DescOf(Declared(ir, 0)); }
  const CompileTimeTensorDesc* GetOptionalInputDesc(std::size_t ir) const { return DescOf(Declared(ir, 0)); }
  const CompileTimeTensorDesc* GetDynamicInputDesc(std::size_t ir, std::size_t relative) const {
    return DescOf(Declared(ir, relative));
  }
  const CompileTimeTensorDesc* GetOutputDesc(std::size_t i) const { return DescOf(Output(i)); }
  fe::PlatFormInfos* GetPlatformInfo() { return &platform_; }
  // What TilingParse has prepared; null where nothing is registered.
  template <typename T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(compileInfo_);
  }
  const void* GetCompileInfo() const { return compileInfo_; }
  void SetCompileInfo(const void* info) { compileInfo_ = info; }
  int32_t GetDeterministic() const { return call_.deterministic ? 1 : 0; }

  ge::graphStatus SetTilingKey(uint64_t key) {
    key_ = key;
    return ge::GRAPH_SUCCESS;
  }
  uint64_t GetTilingKey() const { return key_; }
  ge::graphStatus SetBlockDim(uint32_t blocks) {
    blocks_ = blocks;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetBlockDim() const { return blocks_; }
  ge::graphStatus SetNumBlocks(uint32_t blocks) { return SetBlockDim(blocks); }
  ge::graphStatus SetScheduleMode(uint32_t mode) {
    scheduleMode_ = mode;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetScheduleMode() const { return scheduleMode_; }
  ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetTilingCond(int32_t) { return ge::GRAPH_SUCCESS; }

  template <typename T>
  T* GetTilingData() {
    if (sizeof(T) > data_.GetCapacity()) {
      return nullptr;
    }
    data_.SetDataSize(sizeof(T));
    return static_cast<T*>(data_.GetData());
  }
  TilingData* GetRawTilingData() { return &data_; }
  std::size_t* GetWorkspaceSizes(std::size_t count) {
    workspaces_.resize(count);
    return workspaces_.data();
  }
  std::size_t GetWorkspaceNum() const { return workspaces_.size(); }

  const std::vector<std::size_t>& Workspaces() const { return workspaces_; }

 private:
  const Tensor* Output(std::size_t i) const { return i < call_.outputs.size() ? &call_.outputs[i] : nullptr; }
  static const StorageShape* ShapeOf(const Tensor* tensor) { return tensor == nullptr ? nullptr : &tensor->Shapes(); }
  static const CompileTimeTensorDesc* DescOf(const Tensor* tensor) {
    return tensor == nullptr ? nullptr : &tensor->Desc();
  }

  TilingData data_;
  fe::PlatFormInfos platform_;
  const void* compileInfo_ = nullptr;
  uint64_t key_ = 0;
  uint32_t blocks_ = 0;
  uint32_t scheduleMode_ = 0;
  std::vector<std::size_t> workspaces_;
};

}  // namespace gert
