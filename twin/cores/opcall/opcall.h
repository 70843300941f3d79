// The body behind every generated aclnn pair. A pair hands its arguments over in declaration
// order; everything else follows from the operator's registered definition.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ascendc/launch.h"
#include "register/op_def.h"
#include "register/op_impl_registry.h"
#include "twin/handles.h"

namespace twin {

using KernelEntry = void (*)(void* const* arguments);

// Kernels of one operator: the object that serves each dtype column.
struct KernelTable {
  const char* type;
  std::vector<int> objectOfColumn;
  std::vector<KernelEntry> entryOfColumn;
};

class AclnnCall {
 public:
  AclnnCall(const char* type, const KernelTable& kernels);

  AclnnCall& Input(const aclTensor* tensor);
  AclnnCall& Input(const aclTensorList* list);
  AclnnCall& Input(const aclIntArray* values);
  AclnnCall& Input(const aclFloatArray* values);
  AclnnCall& Input(const aclBoolArray* values);
  AclnnCall& Input(const aclScalar* value);
  AclnnCall& Input(const aclScalarList* values);
  AclnnCall& Output(const aclTensor* tensor);
  AclnnCall& Output(const aclTensorList* list);
  AclnnCall& Attribute(bool value);
  AclnnCall& Attribute(int64_t value);
  AclnnCall& Attribute(double value);
  AclnnCall& Attribute(const char* value);
  AclnnCall& Attribute(const aclIntArray* value);
  AclnnCall& Attribute(const aclFloatArray* value);
  AclnnCall& Attribute(const aclBoolArray* value);

  aclnnStatus Plan(uint64_t* workspaceSize, aclOpExecutor** executor);

 private:
  struct Argument {
    bool present = false;
    bool list = false;
    std::vector<const aclTensor*> members;
    std::vector<const aclScalar*> scalars;  // they become host values of the column's data type
    std::vector<unsigned char> hostValues;  // value-dependent input: its data and what it looks like
    ge::DataType hostType = ge::DT_UNDEFINED;
    std::vector<int64_t> hostDims;
  };

  Argument& HostInput(const void* values, std::size_t bytes, ge::DataType type, int64_t count);
  bool ReadsValues(std::size_t input) const;
  bool ShapeByKernel(std::size_t output) const;
  aclnnStatus TakeHostTensors();
  aclnnStatus Fail(aclnnStatus status, const std::string& message) const;
  aclnnStatus CheckArguments(int& column) const;
  bool FindColumn(std::size_t columns, bool scalarTypes, int& column) const;
  std::size_t Combination(int column) const;
  aclnnStatus ConvertScalars(int column);
  aclnnStatus Describe(gert::OpCall& call) const;
  aclnnStatus Infer(const gert::OpCall& call) const;
  std::string MissedValues(const gert::OpCall& call) const;

  const char* type_;
  const KernelTable& kernels_;
  const ops::OpDef* definition_ = nullptr;
  // Of the device's SoC.
  const ops::OpParameters* inputParameters_ = nullptr;
  const ops::OpParameters* outputParameters_ = nullptr;
  gert::OpImplementation functions_;
  std::vector<Argument> inputs_;
  std::vector<Argument> outputs_;
  std::vector<gert::RuntimeAttrs::Value> attributes_;
  bool nullAttribute_ = false;
};

}  // namespace twin
