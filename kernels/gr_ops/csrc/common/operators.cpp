#include "common/operators.h"

namespace gr_ops {

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
