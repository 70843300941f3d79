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
  OpParamDef& Follow(const char* value, FollowType = FollowType::ALL) {
    follow = value;
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
  bool autoContiguous = false;
  bool ignoreContiguous = false;
  std::string follow;
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

class OpAICoreConfig {
 public:
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
  OpParamDef& Input(const char* name) { return Named(inputs, name); }
  OpParamDef& Output(const char* name) { return Named(outputs, name); }
  OpAttrDef& Attr(const char* name) { return Named(attributes, name); }
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
  std::vector<std::unique_ptr<OpParamDef>> inputs;
  std::vector<std::unique_ptr<OpParamDef>> outputs;
  std::vector<std::unique_ptr<OpAttrDef>> attributes;
  InferShapeFunction inferShape = nullptr;
  InferDataTypeFunction inferDataType = nullptr;
  OpAICoreDef aicore;

 private:
  template <typename Def>
  Def& Named(std::vector<std::unique_ptr<Def>>& defs, const char* name) {
    for (auto& def : defs) {
      if (def->name == name) {
        return *def;
      }
    }
    defs.push_back(std::unique_ptr<Def>(new Def(name)));
    return *defs.back();
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
