// Tiling templates: the template parameters of a kernel, and which of their combinations are built. op_host computes
// the tiling key from them (GET_TPL_TILING_KEY); the builder instantiates the kernel for each key
// (opbuild/kernel_templates.py).
#pragma once

#ifdef __CCE_AICORE__  // in a kernel they say nothing

#define ASCENDC_TPL_ARGS_DECL(...)
#define ASCENDC_TPL_SEL(...)

#else

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

// Values of data types, formats and kernel types in the macros.
enum : uint64_t {
  C_DT_FLOAT = 0,
  C_DT_FLOAT16 = 1,
  C_DT_INT8 = 2,
  C_DT_INT32 = 3,
  C_DT_UINT8 = 4,
  C_DT_INT16 = 6,
  C_DT_UINT16 = 7,
  C_DT_UINT32 = 8,
  C_DT_INT64 = 9,
  C_DT_UINT64 = 10,
  C_DT_DOUBLE = 11,
  C_DT_BOOL = 12,
  C_DT_COMPLEX64 = 16,
  C_DT_BF16 = 27,
};
enum : uint64_t { C_FORMAT_NCHW = 0, C_FORMAT_NHWC = 1, C_FORMAT_ND = 2, C_FORMAT_FRACTAL_NZ = 29 };
enum : uint64_t {
  ASCENDC_TPL_AIV_ONLY,
  ASCENDC_TPL_AIC_ONLY,
  ASCENDC_TPL_MIX_AIV_1_0,
  ASCENDC_TPL_MIX_AIC_1_0,
  ASCENDC_TPL_MIX_AIC_1_1,
  ASCENDC_TPL_MIX_AIC_1_2,
};
enum : uint64_t { ASCENDC_TPL_UI_RANGE, ASCENDC_TPL_UI_LIST, ASCENDC_TPL_UI_MIX };

#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_8_BW 8
// A data type that is an input's or an output's, not the tiling function's choice.
#define ASCENDC_TPL_INPUT(index) (::optiling::TemplateParameter::kInput + (index))
#define ASCENDC_TPL_OUTPUT(index) (::optiling::TemplateParameter::kOutput + (index))

namespace optiling {

// One parameter: of a declaration with all its values, of a selection with those that are built.
struct TemplateParameter {
  enum class Kind { kDataType, kFormat, kUnsigned, kBool, kKernelType, kDeterministic, kTilingStruct };
  static constexpr uint64_t kInput = uint64_t{1} << 40;
  static constexpr uint64_t kOutput = uint64_t{1} << 41;

  TemplateParameter(const char* parameter, Kind itsKind, unsigned width, std::initializer_list<uint64_t> given)
      : name(parameter), kind(itsKind), bits(width), values(itsKind == Kind::kUnsigned ? Expanded(given) : given) {
    const auto bound = [](uint64_t value) { return value >= kInput; };
    const auto at = std::find_if(values.begin(), values.end(), bound);
    if (at != values.end()) binding = *at;
    values.erase(std::remove_if(values.begin(), values.end(), bound), values.end());
  }

  // As it is said: ASCENDC_TPL_UI_RANGE, number of ranges, their first and last values; ASCENDC_TPL_UI_LIST, values;
  // ASCENDC_TPL_UI_MIX, number of ranges, their first and last values, values.
  static std::vector<uint64_t> Expanded(std::initializer_list<uint64_t> given) {
    std::vector<uint64_t> found;
    const uint64_t* next = given.begin();
    if (next == given.end()) return found;
    if (*next++ != ASCENDC_TPL_UI_LIST && next != given.end()) {
      uint64_t ranges = *next++;
      for (; ranges > 0 && given.end() - next >= 2; --ranges, next += 2) {
        for (uint64_t value = next[0]; value <= next[1]; ++value) found.push_back(value);
      }
    }
    found.insert(found.end(), next, given.end());
    return found;
  }

  std::string name;  // of ASCENDC_TPL_TILING_STRUCT_SEL: the struct's
  Kind kind;
  unsigned bits;
  std::vector<uint64_t> values;
  uint64_t binding = 0;  // kInput or kOutput and the index, or 0
};

// What one operator declares, filled by static initialisers; the builder prints it.
struct KernelTemplate {
  using Parameters = std::vector<TemplateParameter>;

  std::string op;
  Parameters declared;
  std::vector<Parameters> selections;

  // The parameter's index among the declared values, the first parameter in the lowest bits. The whole ones where a
  // combination is not built: then Refusal() says why.
  uint64_t Key(const std::vector<uint64_t>& given) const;
  bool Selects(const Parameters& selection, const std::vector<uint64_t>& given) const;

  // Why the last Key() of this thread was none; empty where it was one.
  static std::string& Refusal() {
    static thread_local std::string reason;
    return reason;
  }
};

inline std::vector<const KernelTemplate*>& KernelTemplates() {
  static std::vector<const KernelTemplate*> templates;
  return templates;
}

constexpr uint64_t kNoTemplateKey = ~uint64_t{0};

inline bool KernelTemplate::Selects(const Parameters& selection, const std::vector<uint64_t>& given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (const auto& parameter : selection) {
      const auto& values = parameter.values;
      if (parameter.name == declared[i].name && std::find(values.begin(), values.end(), given[i]) == values.end()) {
        return false;
      }
    }
  }
  return true;
}

inline uint64_t KernelTemplate::Key(const std::vector<uint64_t>& given) const {
  std::string& refusal = Refusal();
  refusal = "";
  if (given.size() != declared.size()) {
    refusal = op + " declares " + std::to_string(declared.size()) + " template parameters, " +
              std::to_string(given.size()) + " are given";
    return kNoTemplateKey;
  }
  uint64_t key = 0;
  unsigned shift = 0;
  std::string all;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& values = declared[i].values;
    const auto at = std::find(values.begin(), values.end(), given[i]);
    const std::string here = declared[i].name + " = " + std::to_string(given[i]);
    if (at == values.end()) {
      refusal = here + " is none of its values in ASCENDC_TPL_ARGS_DECL(" + op + ", ..)";
      return kNoTemplateKey;
    }
    key |= static_cast<uint64_t>(at - values.begin()) << shift;
    shift += declared[i].bits;
    all += (i == 0 ? "" : ", ") + here;
  }
  for (const auto& selection : selections) {
    if (Selects(selection, given)) return key;
  }
  refusal = all + ": no ASCENDC_TPL_ARGS_SEL of " + op + " has this combination";
  return kNoTemplateKey;
}

struct KernelTemplateArguments {
  KernelTemplateArguments(const char* type, std::initializer_list<TemplateParameter> parameters)
      : op(type), declared(parameters) {}

  const char* op;
  KernelTemplate::Parameters declared;
};

class KernelTemplateSelections {
 public:
  KernelTemplateSelections(const KernelTemplateArguments& arguments,
                           std::initializer_list<std::initializer_list<TemplateParameter> > selections)
      : template_{arguments.op, arguments.declared, {selections.begin(), selections.end()}} {
    KernelTemplates().push_back(&template_);
  }

  template <typename... Value>
  uint64_t Key(Value... given) const {
    return template_.Key({static_cast<uint64_t>(given)...});
  }
  uint64_t Key(std::initializer_list<uint64_t> given) const { return template_.Key(given); }

 private:
  KernelTemplate template_;
};

}  // namespace optiling

#define TWIN_TEMPLATE_PARAMETER(name, kind, bits, ...) \
  ::optiling::TemplateParameter(name, ::optiling::TemplateParameter::Kind::kind, bits, {__VA_ARGS__})

#define ASCENDC_TPL_DTYPE_DECL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kDataType, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_DECL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kDataType, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kFormat, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(x, bits, ...) TWIN_TEMPLATE_PARAMETER(#x, kUnsigned, bits, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kBool, ASCENDC_TPL_1_BW, __VA_ARGS__)

#define ASCENDC_TPL_DTYPE_SEL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kDataType, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kDataType, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kFormat, ASCENDC_TPL_8_BW, __VA_ARGS__)
#define ASCENDC_TPL_UINT_SEL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kUnsigned, 0, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(x, ...) TWIN_TEMPLATE_PARAMETER(#x, kBool, ASCENDC_TPL_1_BW, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(...) TWIN_TEMPLATE_PARAMETER("", kKernelType, 0, __VA_ARGS__)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...) TWIN_TEMPLATE_PARAMETER("", kDeterministic, 0, __VA_ARGS__)
#define ASCENDC_TPL_TILING_STRUCT_SEL(Struct) TWIN_TEMPLATE_PARAMETER(#Struct, kTilingStruct, 0, 0)

#define ASCENDC_TPL_ARGS_DECL(op, ...) \
  static const ::optiling::KernelTemplateArguments kernelTemplateArguments(#op, {__VA_ARGS__});
#define ASCENDC_TPL_ARGS_SEL(...) {__VA_ARGS__}
#define ASCENDC_TPL_SEL(...) \
  static const ::optiling::KernelTemplateSelections kernelTemplateSelections(kernelTemplateArguments, {__VA_ARGS__});

#define GET_TPL_TILING_KEY(...) kernelTemplateSelections.Key(__VA_ARGS__)
#define ASCENDC_TPL_SEL_PARAM(context, ...) (context)->SetTilingKey(GET_TPL_TILING_KEY(__VA_ARGS__))

#endif
