#include "common/operators.h"

#include <ATen/core/stack.h>

#include <algorithm>

namespace gr_ops {
namespace {

using Arguments = std::vector<c10::Argument>;

bool same_names(const Arguments& ours, const Arguments& theirs) {
  const auto same = [](const c10::Argument& a, const c10::Argument& b) { return a.name() == b.name(); };
  return ours.size() == theirs.size() && std::equal(ours.begin(), ours.end(), theirs.begin(), same);
}

const c10::Argument* find_argument(const Arguments& arguments, const std::string& name) {
  const auto named = [&name](const c10::Argument& argument) { return argument.name() == name; };
  const auto found = std::find_if(arguments.begin(), arguments.end(), named);
  return found == arguments.end() ? nullptr : &*found;
}

// The values of our arguments by name. Releases of fbgemm add arguments, and move them: ours that theirs has not get
// their defaults, and theirs that ours has not must be left at their own.
torch::jit::Stack by_name(const c10::FunctionSchema& ours, const c10::FunctionSchema& theirs,
                          at::ArrayRef<c10::IValue> values) {
  torch::jit::Stack arranged;
  for (const c10::Argument& argument : ours.arguments()) {
    if (const c10::Argument* same = find_argument(theirs.arguments(), argument.name())) {
      arranged.push_back(values[same - theirs.arguments().data()]);
      continue;
    }
    TORCH_CHECK(argument.default_value(), theirs.name(), ": this release of fbgemm_gpu has no argument ",
                argument.name(), ", which ", ours.name(), " needs");
    arranged.push_back(*argument.default_value());
  }
  for (size_t i = 0; i < theirs.arguments().size(); ++i) {
    const c10::Argument& argument = theirs.arguments()[i];
    if (find_argument(ours.arguments(), argument.name())) continue;
    const bool left = values[i].isNone() ||
                      (argument.default_value() && !values[i].isTensor() && values[i] == *argument.default_value());
    TORCH_CHECK(left, theirs.name(), ": ", ours.name(), ", which stands in its place, has no argument ",
                argument.name(), "; leave it out");
  }
  return arranged;
}

void call_mxrec(const c10::OperatorHandle& fbgemm, torch::jit::Stack* stack) {
  const c10::OperatorName& name = fbgemm.operator_name();
  const std::string same = "mxrec" + name.name.substr(name.name.find("::"));
  const auto mxrec = c10::Dispatcher::singleton().findSchemaOrThrow(same.c_str(), name.overload_name.c_str());
  const Arguments& theirs = fbgemm.schema().arguments();
  if (!same_names(mxrec.schema().arguments(), theirs)) {
    torch::jit::Stack arranged = by_name(mxrec.schema(), fbgemm.schema(), torch::jit::last(*stack, theirs.size()));
    torch::jit::drop(*stack, theirs.size());
    stack->insert(stack->end(), arranged.begin(), arranged.end());
  }
  mxrec.callBoxed(stack);
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
