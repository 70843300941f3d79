// The OpDef description language.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "graph/types.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope { ALL, TILING };
enum class FollowType { ALL, DTYPE, FORMAT, SHAPE };

class OpParamDef {
 public:
  explicit OpParamDef(const char* nameIn) : name(nameIn) {}
  OpParamDef& ParamType(Option value) {
    option = value;
    return *this;
  }
  OpParamDef& DataType(std::vector<ge::DataType> value) {
    types = std::move(value);
    return *this;
  }
  OpParamDef& DataTypeList(std::vector<ge::DataType> value) {
    typeList = std::move(value);
    return *this;
  }
  OpParamDef& Format(std::vector<ge::Format> value) {
    formats = std::move(value);
    return *this;
  }
  OpParamDef& FormatList(std::vector<ge::Format> value) {
    formatList = std::move(value);
    return *this;
  }
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
  OpParamDef& ValueDepend(Option value, DependScope = DependScope::ALL) {
    valueDepend = value;
    return *this;
  }
  OpParamDef& AutoContiguous() {
    autoContiguous = true;
    return *this;
  }
  OpParamDef& IgnoreContiguous() {
    ignoreContiguous = true;
    return *this;
  }
  // A host value: aclScalar in the aclnn call, a tensor of one element in the kernel.
  OpParamDef& Scalar() {
    scalar = true;
    return *this;
  }
  OpParamDef& ScalarList() {
    scalarList = true;
    return *this;
  }
  OpParamDef& Follow(const char* value, FollowType = FollowType::ALL) {
    follow = value;
    return *this;
  }
  // Of an output: it is given as large as it can get, and the kernel writes its shape behind the last one.
  OpParamDef& OutputShapeDependOnCompute() {
    shapeByKernel = true;
    return *this;
  }
  OpParamDef& InitValue(uint64_t value) {
    initialised = true;
    initValue = value;
    return *this;
  }

  std::string name;
  Option option = REQUIRED;
  std::vector<ge::DataType> types;
  std::vector<ge::DataType> typeList;
  std::vector<ge::Format> formats;
  std::vector<ge::Format> formatList;
  Option valueDepend = IGNORE;
  bool scalar = false;
  bool scalarList = false;
  bool autoContiguous = false;
  bool ignoreContiguous = false;
  std::string follow;
  bool shapeByKernel = false;
  bool initialised = false;
  uint64_t initValue = 0;
};

enum class AttrKind { Undefined, Bool, Int, Float, String, ListBool, ListInt, ListFloat };

class OpAttrDef {
 public:
  explicit OpAttrDef(const char* nameIn) : name(nameIn) {}
  OpAttrDef& AttrType(Option value) {
    option = value;
    return *this;
  }
  OpAttrDef& Bool() { return Kind(AttrKind::Bool); }
  OpAttrDef& Bool(bool) { return Default(AttrKind::Bool); }
  OpAttrDef& Int() { return Kind(AttrKind::Int); }
  OpAttrDef& Int(int64_t) { return Default(AttrKind::Int); }
  OpAttrDef& Float() { return Kind(AttrKind::Float); }
  OpAttrDef& Float(float) { return Default(AttrKind::Float); }
  OpAttrDef& String() { return Kind(AttrKind::String); }
  OpAttrDef& String(const char*) { return Default(AttrKind::String); }
  OpAttrDef& ListBool() { return Kind(AttrKind::ListBool); }
  OpAttrDef& ListBool(std::vector<bool>) { return Default(AttrKind::ListBool); }
  OpAttrDef& ListInt() { return Kind(AttrKind::ListInt); }
  OpAttrDef& ListInt(std::vector<int64_t>) { return Default(AttrKind::ListInt); }
  OpAttrDef& ListFloat() { return Kind(AttrKind::ListFloat); }
  OpAttrDef& ListFloat(std::vector<float>) { return Default(AttrKind::ListFloat); }

  std::string name;
  Option option = REQUIRED;
  AttrKind kind = AttrKind::Undefined;
  bool hasDefault = false;

 private:
  OpAttrDef& Kind(AttrKind value) {
    kind = value;
    return *this;
  }
  OpAttrDef& Default(AttrKind value) {
    kind = value;
    hasDefault = true;
    return *this;
  }
};

using OpParameters = std::vector<std::shared_ptr<OpParamDef>>;

// Find or add.
template <typename Def>
Def& NamedDef(std::vector<std::shared_ptr<Def>>& defs, const char* name) {
  for (auto& def : defs) {
    if (def->name == name) {
      return *def;
    }
  }
  defs.push_back(std::make_shared<Def>(name));
  return *defs.back();
}

class OpAICoreConfig {
 public:
  OpAICoreConfig() = default;
  explicit OpAICoreConfig(const char*) {}
  // Parameters given here stand in the place of the operator's own, for one SoC.
  OpParamDef& Input(const char* name) { return NamedDef(inputs, name); }
  OpParamDef& Output(const char* name) { return NamedDef(outputs, name); }
  OpAICoreConfig& AsyncFlag(bool) { return *this; }
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value) {
    extend[key] = value;
    return *this;
  }

  OpParameters inputs;
  OpParameters outputs;
  std::map<std::string, std::string> extend;
};

using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
using InferShapeFunction = ge::graphStatus (*)(gert::InferShapeContext*);
using InferDataTypeFunction = ge::graphStatus (*)(gert::InferDataTypeContext*);

class OpAICoreDef {
 public:
  OpAICoreDef& SetTiling(TilingFunction value) {
    tiling = value;
    return *this;
  }
  OpAICoreDef& AddConfig(const char* soc) { return AddConfig(soc, empty_); }
  OpAICoreDef& AddConfig(const char* soc, OpAICoreConfig& config) {
    configs[soc] = config;
    return *this;
  }

  TilingFunction tiling = nullptr;
  std::map<std::string, OpAICoreConfig> configs;

 private:
  OpAICoreConfig empty_;
};

class OpDef {
 public:
  explicit OpDef(const char* typeIn) : type(typeIn) {}
  OpParamDef& Input(const char* name) { return NamedDef(inputs, name); }
  OpParamDef& Output(const char* name) { return NamedDef(outputs, name); }
  OpAttrDef& Attr(const char* name) { return NamedDef(attributes, name); }
  // Those that serve a SoC, by its short name ("ascend910b").
  const OpParameters& InputsFor(const std::string& soc) const { return For(soc, inputs, &OpAICoreConfig::inputs); }
  const OpParameters& OutputsFor(const std::string& soc) const { return For(soc, outputs, &OpAICoreConfig::outputs); }
  OpDef& SetInferShape(InferShapeFunction value) {
    inferShape = value;
    return *this;
  }
  OpDef& SetInferDataType(InferDataTypeFunction value) {
    inferDataType = value;
    return *this;
  }
  OpDef& EnableFallBack() { return *this; }
  OpAICoreDef& AICore() { return aicore; }

  std::string type;
  OpParameters inputs;
  OpParameters outputs;
  std::vector<std::shared_ptr<OpAttrDef>> attributes;
  InferShapeFunction inferShape = nullptr;
  InferDataTypeFunction inferDataType = nullptr;
  OpAICoreDef aicore;

 private:
  const OpParameters& For(const std::string& soc, const OpParameters& own, OpParameters OpAICoreConfig::* side) const {
    const auto config = aicore.configs.find(soc);
    return config == aicore.configs.end() || (config->second.*side).empty() ? own : config->second.*side;
  }
};

// Definitions in the order of registration.
inline std::vector<std::unique_ptr<OpDef>>& Definitions() {
  static std::vector<std::unique_ptr<OpDef>> definitions;
  return definitions;
}

template <typename Definition>
bool Register(const char* type) {
  Definitions().push_back(std::unique_ptr<OpDef>(new Definition(type)));
  return true;
}

}  // namespace ops

#define OP_ADD(OpType) static const bool g_##OpType##Registered = ::ops::Register<OpType>(#OpType)
