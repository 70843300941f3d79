#include "opcall.h"

#include <algorithm>
#include <memory>

#include "ascendc/host_api/tiling/template_argument.h"
#include "ascendc/tiling.h"
#include "keys.h"
#include "launch_plan.h"
#include "platform.h"
#include "scalars.h"
#include "twin/access.h"
#include "twin/stream.h"

namespace twin {

namespace {

constexpr aclnnStatus kNullPointer = 161001;
constexpr aclnnStatus kInvalid = 161002;
constexpr aclnnStatus kInferShapeFailed = 561001;
constexpr aclnnStatus kTilingFailed = 561002;
constexpr aclnnStatus kNoKernel = 561003;
constexpr std::size_t kTilingCapacity = 65536;
constexpr uint64_t kWorkspaceAlignment = 512;

std::string Text(const gert::Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.GetDimNum(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape.GetDim(i));
  }
  return text + "]";
}

// Of kernels that are templates: what GET_TPL_TILING_KEY had against its arguments.
std::string WhyNoTemplateKey(uint64_t key) {
  return key == optiling::kNoTemplateKey ? ": " + optiling::KernelTemplate::Refusal() : "";
}

gert::Tensor TensorOf(const aclTensor& handle) {
  gert::Shape shape;
  for (const auto dim : handle.viewDims) {
    shape.AppendDim(dim);
  }
  return gert::Tensor(gert::StorageShape(shape, shape), static_cast<ge::DataType>(handle.dataType),
                      static_cast<ge::Format>(handle.format), nullptr);
}

Accesses AccessesOf(const LaunchPlan& plan, const void* workspace, std::size_t workspaceBytes) {
  Accesses accesses;
  accesses.Add(workspace, workspaceBytes, true);
  for (const auto& argument : plan.arguments) {
    for (const auto& view : argument.members) {
      const auto elementBytes = static_cast<std::size_t>(view.elementBytes);
      accesses.AddView(view.data, view.dims, view.strides, elementBytes, view.output);
    }
  }
  return accesses;
}

bool TypeFits(const ops::OpParamDef& parameter, std::size_t column, ge::DataType wanted) {
  if (!parameter.typeList.empty()) {
    return std::find(parameter.typeList.begin(), parameter.typeList.end(), wanted) != parameter.typeList.end();
  }
  return column < parameter.types.size() && parameter.types[column] == wanted;
}

}  // namespace

// What the definition names comes before what is registered apart from it.
AclnnCall::AclnnCall(const char* type, const KernelTable& kernels) : type_(type), kernels_(kernels) {
  for (const auto& definition : ops::Definitions()) {
    if (definition->type == type) {
      definition_ = definition.get();
    }
  }
  if (definition_ == nullptr) {
    return;
  }
  const char* soc = aclrtGetSocName();
  const auto shortName = ShortSocName(soc == nullptr ? "" : soc);
  inputParameters_ = &definition_->InputsFor(shortName);
  outputParameters_ = &definition_->OutputsFor(shortName);
  const auto registered = gert::Implementations().find(type);
  if (registered != gert::Implementations().end()) {
    functions_ = registered->second;
  }
  functions_.tiling = definition_->aicore.tiling != nullptr ? definition_->aicore.tiling : functions_.tiling;
  functions_.inferShape = definition_->inferShape != nullptr ? definition_->inferShape : functions_.inferShape;
  functions_.inferDataType =
      definition_->inferDataType != nullptr ? definition_->inferDataType : functions_.inferDataType;
}

aclnnStatus AclnnCall::Fail(aclnnStatus status, const std::string& message) const {
  twinSetErrorMessage(("[twin] aclnn" + std::string(type_) + ": " + message).c_str());
  return status;
}

// Presence of what is required, and the dtype column that all parameters agree on.
aclnnStatus AclnnCall::CheckArguments(int& column) const {
  if (definition_ == nullptr) {
    return Fail(kNoKernel, "the operator is not registered");
  }
  if (nullAttribute_) {
    return Fail(kNullPointer, "an attribute is null");
  }
  std::size_t columns = 0;
  const auto check = [&](const ops::OpParameters& parameters, const std::vector<Argument>& arguments) -> aclnnStatus {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = *parameters[i];
      columns = std::max(columns, parameter.types.size());
      if (!arguments[i].present && parameter.option != ops::OPTIONAL) {
        return Fail(kNullPointer, parameter.name + " is null");
      }
      if (parameter.option == ops::DYNAMIC && arguments[i].members.empty()) {
        return Fail(kInvalid, parameter.name + " is an empty list");
      }
      for (const auto* member : arguments[i].members) {
        if (member == nullptr) {
          return Fail(kNullPointer, parameter.name + " holds a null tensor");
        }
        if (member->viewDims.size() > gert::Shape::kMaxDimNum) {
          return Fail(kInvalid, parameter.name + " has too many dimensions");
        }
      }
    }
    return ACL_SUCCESS;
  };
  aclnnStatus status = check(*inputParameters_, inputs_);
  if (status == ACL_SUCCESS) {
    status = check(*outputParameters_, outputs_);
  }
  if (status != ACL_SUCCESS) {
    return status;
  }
  if (FindColumn(columns, true, column) || FindColumn(columns, false, column)) {
    return ACL_SUCCESS;
  }
  std::string given;
  for (const auto* side : {&inputs_, &outputs_}) {
    for (const auto& argument : *side) {
      for (const auto* member : argument.members) {
        given += " " + std::to_string(static_cast<int>(member->dataType));
      }
      if (argument.hostType != ge::DT_UNDEFINED) {
        given += " " + std::to_string(static_cast<int>(argument.hostType));
      }
    }
  }
  return Fail(kInvalid, "no declared combination has the data types" + given);
}

// The first column whose data types are those of the call. A scalar is converted, so its own type decides last.
bool AclnnCall::FindColumn(std::size_t columns, bool scalarTypes, int& column) const {
  const auto fits = [&](std::size_t c, const ops::OpParameters& parameters, const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      for (const auto* member : arguments[i].members) {
        if (!TypeFits(*parameters[i], c, static_cast<ge::DataType>(member->dataType))) {
          return false;
        }
      }
      if (arguments[i].hostType != ge::DT_UNDEFINED && !TypeFits(*parameters[i], c, arguments[i].hostType)) {
        return false;
      }
      for (const auto* scalar : arguments[i].scalars) {
        if (scalarTypes && !TypeFits(*parameters[i], c, static_cast<ge::DataType>(scalar->dataType))) {
          return false;
        }
      }
    }
    return true;
  };
  for (std::size_t c = 0; c < std::max<std::size_t>(columns, 1); ++c) {
    if (fits(c, *inputParameters_, inputs_) && fits(c, *outputParameters_, outputs_)) {
      column = static_cast<int>(c);
      return true;
    }
  }
  return false;
}

bool AclnnCall::ReadsValues(std::size_t input) const {
  return (*inputParameters_)[input]->valueDepend != ops::IGNORE ||
         functions_.valuesOfInputs.count(static_cast<int32_t>(input)) != 0;
}

bool AclnnCall::ShapeByKernel(std::size_t output) const {
  return (*outputParameters_)[output]->shapeByKernel ||
         functions_.shapesByKernel.count(static_cast<int32_t>(output)) != 0;
}

// Tensors whose values the tiling reads lie in host memory; the kernel gets a copy, as of an array.
aclnnStatus AclnnCall::TakeHostTensors() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    auto& argument = inputs_[i];
    if (argument.members.empty() || argument.list || !ReadsValues(i)) {
      continue;
    }
    const auto& name = (*inputParameters_)[i]->name;
    const auto view = ViewOf(*argument.members.front(), name, false);
    const auto bytes = static_cast<std::size_t>(view.Bytes());
    const void* start = nullptr;
    std::size_t size = 0;
    if (bytes != 0 && twinDeviceAllocation(view.data, 1, &start, &size)) {
      return Fail(kInvalid, name +
                                " lies in device memory, and its values are read by the tiling or shape function: "
                                "give a tensor in host memory");
    }
    argument.hostValues.resize(bytes);
    if (bytes != 0) {
      view.Gather(argument.hostValues.data());
    }
    argument.hostType = static_cast<ge::DataType>(argument.members.front()->dataType);
    argument.hostDims = view.dims;
    argument.members.clear();
  }
  return ACL_SUCCESS;
}

// For the text of a failure: inputs whose values were asked for in vain.
std::string AclnnCall::MissedValues(const gert::OpCall& call) const {
  std::string names;
  for (std::size_t i = 0; i < call.instances.size(); ++i) {
    for (std::size_t k = 0; k < call.instances[i].count; ++k) {
      if (call.inputs[call.instances[i].start + k].MissedData()) {
        names += (names.empty() ? "" : ", ") + (*inputParameters_)[i]->name;
        break;
      }
    }
  }
  return names.empty() ? "" : "; it asked for the values of " + names + ", which ValueDepend(REQUIRED) makes known";
}

// The place in the kernel table: of the column, and of the types that the call has of each DataTypeList.
std::size_t AclnnCall::Combination(int column) const {
  auto at = static_cast<std::size_t>(column);
  const auto add = [&](const ops::OpParameters& parameters, const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& types = parameters[i]->typeList;
      if (!types.empty()) {
        const auto& members = arguments[i].members;
        const auto type = members.empty() ? types.front() : static_cast<ge::DataType>(members.front()->dataType);
        at = at * types.size() + static_cast<std::size_t>(std::find(types.begin(), types.end(), type) - types.begin());
      }
    }
  };
  add(*inputParameters_, inputs_);
  add(*outputParameters_, outputs_);
  return at;
}

aclnnStatus AclnnCall::ConvertScalars(int column) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    auto& argument = inputs_[i];
    if (argument.scalars.empty()) {
      continue;
    }
    const auto& parameter = *(*inputParameters_)[i];
    const auto at = static_cast<std::size_t>(column);
    argument.hostType = at < parameter.types.size() ? parameter.types[at] : parameter.typeList.front();
    argument.hostDims = {static_cast<int64_t>(argument.scalars.size())};
    argument.hostValues.clear();
    for (const auto* scalar : argument.scalars) {
      if (!AppendScalar(*scalar, argument.hostType, argument.hostValues)) {
        return Fail(kInvalid, parameter.name + " is a scalar of data type " +
                                  std::to_string(static_cast<int>(scalar->dataType)) + ", which does not convert to " +
                                  std::to_string(static_cast<int>(argument.hostType)));
      }
    }
  }
  return ACL_SUCCESS;
}

aclnnStatus AclnnCall::Describe(gert::OpCall& call) const {
  call.type = type_;
  call.attributes = gert::RuntimeAttrs(attributes_);
  const char* soc = aclrtGetSocName();
  const auto machine = PlatformOf(soc == nullptr ? "" : soc);
  if (!machine) {
    return Fail(kNoKernel, "the device is of no known SoC: '" + std::string(soc == nullptr ? "" : soc) +
                               "' is none of " + KnownSocs() + "; set TWIN_NPU_SOC to one of them");
  }
  call.platform = *machine;
  for (const auto& argument : inputs_) {
    gert::InstanceInfo instance;
    instance.start = call.inputs.size();
    for (const auto* member : argument.members) {
      call.inputs.push_back(TensorOf(*member));
    }
    if (argument.hostType != ge::DT_UNDEFINED) {
      gert::Shape shape;
      for (const auto dim : argument.hostDims) {
        shape.AppendDim(dim);
      }
      call.inputs.emplace_back(gert::StorageShape(shape, shape), argument.hostType, ge::FORMAT_ND,
                               argument.hostValues.data());
    }
    instance.count = call.inputs.size() - instance.start;
    call.instances.push_back(instance);
  }
  for (const auto& argument : outputs_) {
    for (const auto* member : argument.members) {
      call.outputs.push_back(TensorOf(*member));
    }
  }
#ifdef TWIN_ANY_SOC
  constexpr bool anySoc = true;
#else
  constexpr bool anySoc = false;
#endif
  if (!anySoc && definition_->aicore.configs.count(ShortSocName(call.platform.soc)) == 0) {
    return Fail(kNoKernel, "the operator has no kernel for " + call.platform.soc);
  }
  return ACL_SUCCESS;
}

// The shapes and types that the operator derives must be those of the given outputs.
aclnnStatus AclnnCall::Infer(const gert::OpCall& call) const {
  if (functions_.inferShape != nullptr) {
    std::vector<bool> shapesByKernel;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      shapesByKernel.insert(shapesByKernel.end(), outputs_[i].members.size(), ShapeByKernel(i));
    }
    gert::InferShapeContext context(call);
    if (functions_.inferShape(&context) != ge::GRAPH_SUCCESS) {
      return Fail(kInferShapeFailed, "the shape function failed" + MissedValues(call));
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const auto& inferred = *context.GetOutputShape(i);
      const auto& given = call.outputs[i].GetStorageShape();
      // A lenient caller's shapes count: an operator's own may be a template's that nobody has filled in.
      if (shapesByKernel[i] || Lenient(type_)) {
        continue;
      }
      bool agrees = inferred.GetDimNum() == given.GetDimNum();
      for (std::size_t d = 0; agrees && d < given.GetDimNum(); ++d) {
        agrees = inferred.GetDim(d) < 0 || inferred.GetDim(d) == given.GetDim(d);
      }
      if (!agrees) {
        return Fail(kInvalid,
                    "output " + std::to_string(i) + " has shape " + Text(given) + ", expected " + Text(inferred));
      }
    }
  }
  if (functions_.inferDataType != nullptr) {
    gert::InferDataTypeContext context(call);
    if (functions_.inferDataType(&context) != ge::GRAPH_SUCCESS) {
      return Fail(kInferShapeFailed, "the data type function failed");
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const auto inferred = context.OutputDataType(i);
      if (inferred != ge::DT_UNDEFINED && inferred != call.outputs[i].GetDataType()) {
        return Fail(kInvalid, "output " + std::to_string(i) + " has another data type than inferred");
      }
    }
  }
  return ACL_SUCCESS;
}

aclnnStatus AclnnCall::Plan(uint64_t* workspaceSize, aclOpExecutor** executor) {
  if (workspaceSize == nullptr || executor == nullptr) {
    return Fail(kNullPointer, "workspaceSize or executor is null");
  }
  int column = 0;
  aclnnStatus status = CheckArguments(column);
  if (status == ACL_SUCCESS) {
    status = TakeHostTensors();
  }
  if (status == ACL_SUCCESS) {
    status = ConvertScalars(column);
  }
  if (status != ACL_SUCCESS) {
    return status;
  }
  gert::OpCall call;
  status = Describe(call);
  if (status == ACL_SUCCESS) {
    status = Infer(call);
  }
  if (status != ACL_SUCCESS) {
    return status;
  }
  auto plan = std::make_shared<LaunchPlan>();
  plan->name = type_;
  plan->lenient = Lenient(type_);
  const bool empty = std::all_of(call.outputs.begin(), call.outputs.end(),
                                 [](const gert::Tensor& t) { return t.GetShapeSize() == 0; });
  uint64_t bytes = 0;
  if (!empty) {
    gert::TilingContext context(call, kTilingCapacity);
    std::shared_ptr<void> compileInfo;
    if (functions_.parse) {
      compileInfo = functions_.parse(call);
      if (compileInfo == nullptr) {
        return Fail(kTilingFailed, "the function given to TilingParse failed");
      }
      context.SetCompileInfo(compileInfo.get());
    }
    const auto tiling = functions_.tiling;
    const auto code = tiling == nullptr ? ge::GRAPH_FAILED : tiling(&context);
    if (code != ge::GRAPH_SUCCESS) {
      return Fail(kTilingFailed, "the tiling function failed" + MissedValues(call));
    }
    const auto at = Combination(column);
    const auto& keys = TilingKeys(kernels_.objectOfColumn[at]);
    if (!keys.empty() && keys.count(context.GetTilingKey()) == 0) {
      return Fail(kNoKernel, "no kernel for tiling key " + std::to_string(context.GetTilingKey()) +
                                 WhyNoTemplateKey(context.GetTilingKey()));
    }
    for (const auto size : context.Workspaces()) {
      bytes += (size + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    }
    const auto* raw = static_cast<const unsigned char*>(context.GetRawTilingData()->GetData());
    plan->entry = kernels_.entryOfColumn[at];
    plan->tiling.assign(raw, raw + context.GetRawTilingData()->GetDataSize());
    plan->tilingKey = context.GetTilingKey();
    plan->blockDim = context.GetBlockDim();
    plan->scheduleMode = context.GetScheduleMode();
    const int taskType = TaskType(kernels_.objectOfColumn[at], plan->tilingKey);
    const bool mixed = taskType == KERNEL_TYPE_MIX_AIC_1_1 || taskType == KERNEL_TYPE_MIX_AIC_1_2;
    plan->vectorsPerBlock = taskType == KERNEL_TYPE_MIX_AIC_1_2 ? 2 : 1;
    plan->cores = mixed ? call.platform.cubeCores * plan->vectorsPerBlock : call.platform.vectorCores;
    const auto add = [&](const ops::OpParameters& parameters, const std::vector<Argument>& arguments,
                         bool output) -> aclnnStatus {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        PlanArgument argument;
        argument.list = arguments[i].list;
        argument.present = arguments[i].present;
        argument.hostValues = arguments[i].hostValues;
        for (const auto* member : arguments[i].members) {
          argument.members.push_back(ViewOf(*member, parameters[i]->name, output));
          if (!output && !parameters[i]->autoContiguous && !argument.members.back().Contiguous()) {
            return Fail(kInvalid, parameters[i]->name + " must be contiguous");
          }
          if (output && ShapeByKernel(i)) {
            const auto& view = argument.members.back();
            if (!view.Contiguous()) {
              return Fail(kInvalid, parameters[i]->name + " must be contiguous: the kernel decides on its shape");
            }
            plan->shaped.push_back({const_cast<aclTensor*>(member), parameters[i]->name, view.Elements()});
          }
        }
        plan->arguments.push_back(std::move(argument));
      }
      return ACL_SUCCESS;
    };
    status = add(*inputParameters_, inputs_, false);
    if (status == ACL_SUCCESS) {
      status = add(*outputParameters_, outputs_, true);
    }
    if (status != ACL_SUCCESS) {
      return status;
    }
  }
  *workspaceSize = bytes;
  *executor = new aclOpExecutor{
      type_, [plan, empty, bytes](void* workspace, uint64_t given, aclrtStream stream) {
        if (empty) {
          return static_cast<aclnnStatus>(ACL_SUCCESS);
        }
        if (given < bytes || (workspace == nullptr && bytes != 0)) {
          twinSetErrorMessage("[twin] the workspace is smaller than the first phase asked for");
          return kInvalid;
        }
        Accesses accesses;
        if (twinStrictStreams()) {
          accesses = AccessesOf(*plan, workspace, bytes);
        }
        return static_cast<aclnnStatus>(Submit(stream, plan->name, accesses,
                                               [plan, workspace, bytes] { return Execute(*plan, workspace, bytes); }));
      }};
  return ACL_SUCCESS;
}

}  // namespace twin
