#include "common/operators.h"

namespace gr_ops {
namespace {

void call_mxrec(const c10::OperatorHandle& fbgemm, torch::jit::Stack* stack) {
  const c10::OperatorName& name = fbgemm.operator_name();
  const std::string same = "mxrec" + name.name.substr(name.name.find("::"));
  c10::Dispatcher::singleton().findSchemaOrThrow(same.c_str(), name.overload_name.c_str()).callBoxed(stack);
}

}  // namespace

torch::CppFunction forward_to_mxrec() { return torch::CppFunction::makeFromBoxedFunction<&call_mxrec>(); }

bool is_defined(const std::string& name, const std::string& overload) {
  return c10::Dispatcher::singleton().findSchema({name, overload}).has_value();
}

void define_if_absent(torch::Library& library, const std::string& space, const char* text) {
  c10::FunctionSchema schema = torch::schema(text);
  if (!is_defined(space + "::" + schema.name(), schema.overload_name())) {
    library.def(std::move(schema), {at::Tag::pt2_compliant_tag});
  }
}

}  // namespace gr_ops
