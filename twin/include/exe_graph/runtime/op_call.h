// What the twin knows about one call of an operator; the contexts below are views of it.
#pragma once
#include <string>
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/tensor.h"

namespace fe {
struct PlatFormInfos {
  std::string soc;
  uint32_t vectorCores = 0;
  uint32_t cubeCores = 0;
  uint64_t l2Bytes = 0;
};
}  // namespace fe

namespace gert {

struct InstanceInfo {
  std::size_t start = 0;
  std::size_t count = 0;
  std::size_t GetInstanceNum() const { return count; }
  std::size_t GetInstanceStart() const { return start; }
};

struct OpCall {
  std::string type;
  std::vector<Tensor> inputs;           // actual inputs, members of lists one by one
  std::vector<InstanceInfo> instances;  // per declared input
  std::vector<Tensor> outputs;
  RuntimeAttrs attributes;
  fe::PlatFormInfos platform;
  bool deterministic = false;
};

}  // namespace gert
