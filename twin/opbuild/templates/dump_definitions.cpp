// Prints the registered operator definitions, tiling classes and kernel templates as JSON.
#include <cstdio>
#include <string>

#include "ascendc/host_api/tiling/template_argument.h"
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "register/tilingdata_base.h"

namespace {

const char* KindName(ops::AttrKind kind) {
  switch (kind) {
    case ops::AttrKind::Bool:
      return "bool";
    case ops::AttrKind::Int:
      return "int";
    case ops::AttrKind::Float:
      return "float";
    case ops::AttrKind::String:
      return "string";
    case ops::AttrKind::ListBool:
      return "listBool";
    case ops::AttrKind::ListInt:
      return "listInt";
    case ops::AttrKind::ListFloat:
      return "listFloat";
    default:
      return "undefined";
  }
}

const char* OptionName(ops::Option option) {
  switch (option) {
    case ops::OPTIONAL:
      return "optional";
    case ops::REQUIRED:
      return "required";
    case ops::DYNAMIC:
      return "dynamic";
    default:
      return "other";
  }
}

template <typename Container, typename F>
void List(const Container& items, F print) {
  std::printf("[");
  const char* separator = "";
  for (const auto& item : items) {
    std::printf("%s", separator);
    print(item);
    separator = ", ";
  }
  std::printf("]");
}

template <typename E>
void Codes(const std::vector<E>& values) {
  List(values, [](E value) { std::printf("%d", static_cast<int>(value)); });
}

// `registered`: its shape is the kernel's by IMPL_OP's OutputShapeDependOnCompute.
void Parameter(const ops::OpParamDef& p, bool registered = false) {
  std::printf("{\"name\": \"%s\", \"option\": \"%s\", \"types\": ", p.name.c_str(), OptionName(p.option));
  Codes(p.types);
  std::printf(", \"type_list\": ");
  Codes(p.typeList);
  std::printf(", \"formats\": ");
  Codes(p.formats);
  std::printf(", \"format_list\": ");
  Codes(p.formatList);
  std::printf(
      ", \"value_depend\": %s, \"auto_contiguous\": %s, \"scalar\": %s, \"follow\": \"%s\", "
      "\"shape_by_kernel\": %s}",
      p.valueDepend == ops::IGNORE ? "false" : "true", p.autoContiguous ? "true" : "false",
      p.scalar       ? "\"one\""
      : p.scalarList ? "\"list\""
                     : "\"\"",
      p.follow.c_str(), p.shapeByKernel || registered ? "true" : "false");
}

void Outputs(const ops::OpParameters& outputs, const std::set<int32_t>& shapesByKernel) {
  int32_t at = 0;
  List(outputs, [&](const auto& p) { Parameter(*p, shapesByKernel.count(at++) != 0); });
}

const char* KindName(optiling::TemplateParameter::Kind kind) {
  using Kind = optiling::TemplateParameter::Kind;
  switch (kind) {
    case Kind::kDataType:
      return "data_type";
    case Kind::kFormat:
      return "format";
    case Kind::kUnsigned:
      return "unsigned";
    case Kind::kBool:
      return "bool";
    case Kind::kKernelType:
      return "kernel_type";
    case Kind::kDeterministic:
      return "deterministic";
    case Kind::kTilingStruct:
      return "tiling_struct";
  }
  return "";
}

void TemplateParameters(const optiling::KernelTemplate::Parameters& parameters) {
  using Parameter = optiling::TemplateParameter;
  List(parameters, [](const Parameter& p) {
    std::printf("{\"name\": \"%s\", \"kind\": \"%s\", \"bits\": %u, \"values\": ", p.name.c_str(), KindName(p.kind),
                p.bits);
    List(p.values, [](uint64_t value) { std::printf("%llu", static_cast<unsigned long long>(value)); });
    const uint64_t side = p.binding >= Parameter::kOutput ? Parameter::kOutput : Parameter::kInput;
    std::printf(", \"side\": \"%s\", \"index\": %llu}",
                p.binding == 0               ? ""
                : side == Parameter::kOutput ? "outputs"
                                             : "inputs",
                static_cast<unsigned long long>(p.binding == 0 ? 0 : p.binding - side));
  });
}

}  // namespace

int main() {
  std::printf("{\"operators\": ");
  List(ops::Definitions(), [](const auto& definition) {
    const auto registered = gert::Implementations().find(definition->type);
    const auto functions = registered == gert::Implementations().end() ? gert::OpImplementation() : registered->second;
    const bool hasTiling = definition->aicore.tiling != nullptr || functions.tiling != nullptr;
    std::printf("{\"type\": \"%s\", \"inputs\": ", definition->type.c_str());
    List(definition->inputs, [](const auto& p) { Parameter(*p); });
    std::printf(", \"outputs\": ");
    Outputs(definition->outputs, functions.shapesByKernel);
    std::printf(", \"attributes\": ");
    List(definition->attributes, [](const auto& a) {
      std::printf("{\"name\": \"%s\", \"option\": \"%s\", \"kind\": \"%s\", \"has_default\": %s}", a->name.c_str(),
                  OptionName(a->option), KindName(a->kind), a->hasDefault ? "true" : "false");
    });
    std::printf(", \"has_tiling\": %s, \"socs\": ", hasTiling ? "true" : "false");
    List(definition->aicore.configs, [](const auto& config) { std::printf("\"%s\"", config.first.c_str()); });
    std::printf(", \"overrides\": ");
    List(definition->aicore.configs, [&functions](const auto& config) {
      std::printf("{\"soc\": \"%s\", \"inputs\": ", config.first.c_str());
      List(config.second.inputs, [](const auto& p) { Parameter(*p); });
      std::printf(", \"outputs\": ");
      Outputs(config.second.outputs, functions.shapesByKernel);
      std::printf("}");
    });
    std::printf("}\n");
  });
  std::printf(", \"tiling_classes\": ");
  List(optiling::TilingClasses(), [](const auto& entry) {
    std::printf("{\"operator\": \"%s\", \"name\": \"%s\", \"fields\": ", entry.op.c_str(), entry.layout.name.c_str());
    List(entry.layout.fields, [](const auto& f) {
      std::printf("{\"type\": \"%s\", \"name\": \"%s\", \"count\": %zu, \"nested\": %s}", f.type.c_str(),
                  f.name.c_str(), f.count, f.nested ? "true" : "false");
    });
    std::printf("}");
  });
  std::printf(", \"kernel_templates\": ");
  List(optiling::KernelTemplates(), [](const optiling::KernelTemplate* entry) {
    std::printf("{\"op\": \"%s\", \"declared\": ", entry->op.c_str());
    TemplateParameters(entry->declared);
    std::printf(", \"selections\": ");
    List(entry->selections, TemplateParameters);
    std::printf("}\n");
  });
  std::printf("}\n");
  return 0;
}
