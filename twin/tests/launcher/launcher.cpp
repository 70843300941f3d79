// launcher [--cores 1,2,..] [--seeds none,1,2,..] FILE: calls one operator, compiled into this program, with the cases
// of FILE under every core count and seed, the way an aclnn caller does, and compares the results: bit by bit, or
// within a tolerance and then bit by bit with those of the first launch. Prints "ok N launches", or the first call that
// trapped (exit code 1) or gave another result (exit code 2).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "case_file.h"
#include "opcall/opcall.h"
#include "twin/executor.h"

// The kernel of this program, written by build.py.
const twin::KernelTable& LaunchedKernels();

namespace {

using launcher::Argument;
using launcher::Case;
using launcher::Tensor;

constexpr int kOk = 0;
constexpr int kTrapped = 1;
constexpr int kWrong = 2;
constexpr int kBroken = 3;

void Check(const char* call, aclError code) {
  if (code != ACL_SUCCESS) {
    const char* text = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(code) + ": " +
                             (text == nullptr ? "" : text));
  }
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    if (bytes != 0) {
      Check("aclrtMalloc", aclrtMalloc(&data_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    }
  }
  ~DeviceMemory() {
    if (data_ != nullptr) {
      aclrtFree(data_);
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* Data() const { return data_; }

 private:
  void* data_ = nullptr;
};

using Bytes = std::vector<unsigned char>;

// Where output `number` differs from what was expected by more than the tolerance, as text; empty where it does not.
std::string FloatDifference(std::size_t number, const Bytes& given, const Bytes& expected, double tolerance) {
  for (std::size_t i = 0; i < expected.size() / sizeof(float); ++i) {
    float is = 0;
    float wanted = 0;
    std::memcpy(&is, &given[i * sizeof(float)], sizeof(float));
    std::memcpy(&wanted, &expected[i * sizeof(float)], sizeof(float));
    if (!(std::abs(is - wanted) <= tolerance + tolerance * std::abs(wanted))) {
      return "element " + std::to_string(i) + " of output " + std::to_string(number) + " is " + std::to_string(is) +
             ", not " + std::to_string(wanted);
    }
  }
  return "";
}

std::string BitDifference(std::size_t number, const Bytes& given, const Bytes& expected) {
  for (std::size_t b = 0; b < expected.size(); ++b) {
    if (given[b] != expected[b]) {
      return "byte " + std::to_string(b) + " of output " + std::to_string(number) + " is " + std::to_string(given[b]) +
             ", not " + std::to_string(expected[b]);
    }
  }
  return "";
}

// The handles and the device memory of one call.
class Staged {
 public:
  Staged(twin::AclnnCall& call, const Case& one) {
    for (const auto& argument : one.arguments) {
      Add(call, argument);
    }
  }

  // The first difference from what was expected, as text; empty when there is none. `first`: results of the case's
  // first launch, filled in by it.
  std::string Difference(std::vector<Bytes>& first) const {
    const bool isFirst = first.empty();
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto& expected = results_[i].argument->tensors[results_[i].index].bytes;
      Bytes given(expected.size());
      if (!given.empty()) {
        Check("aclrtMemcpy", aclrtMemcpy(given.data(), given.size(), results_[i].handle->data, given.size(),
                                         ACL_MEMCPY_DEVICE_TO_HOST));
      }
      const double tolerance = results_[i].argument->tolerance;
      std::string text =
          tolerance == 0 ? BitDifference(i, given, expected) : FloatDifference(i, given, expected, tolerance);
      if (text.empty() && !isFirst && tolerance != 0) {
        text = BitDifference(i, given, first[i]);
        text += text.empty() ? "" : " as in the first launch";
      }
      if (!text.empty()) {
        return text;
      }
      if (isFirst) {
        first.push_back(given);
      }
    }
    return "";
  }

 private:
  struct Result {
    const Argument* argument;
    std::size_t index;  // among the argument's tensors
    const aclTensor* handle;
  };

  // Device memory with the tensor's bytes, or with others where it has none: an output is not zero before the call.
  void* Upload(const Tensor& tensor, bool filled) {
    int64_t elements = 1;
    for (const auto dim : tensor.dims) {
      elements *= dim;
    }
    const auto bytes =
        static_cast<std::size_t>(elements * ge::GetSizeByDataType(static_cast<ge::DataType>(tensor.dataType)));
    memory_.emplace_back(bytes);
    void* data = memory_.back().Data();
    if (bytes != 0) {
      Check("aclrtMemset", aclrtMemset(data, bytes, 0xCD, bytes));
    }
    if (filled && !tensor.bytes.empty()) {
      Check("aclrtMemcpy",
            aclrtMemcpy(data, bytes, tensor.bytes.data(), tensor.bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    return data;
  }

  aclTensor* Make(const Tensor& tensor, void* data) {
    tensors_.emplace_back();
    aclTensor& handle = tensors_.back();
    handle.viewDims = tensor.dims;
    handle.strides.assign(tensor.dims.size(), 1);
    for (std::size_t i = tensor.dims.size(); i-- > 1;) {
      handle.strides[i - 1] = handle.strides[i] * tensor.dims[i];
    }
    handle.storageDims = tensor.dims;
    handle.offset = 0;
    handle.dataType = static_cast<aclDataType>(tensor.dataType);
    handle.format = ACL_FORMAT_ND;
    handle.data = data;
    return &handle;
  }

  void AddOutput(twin::AclnnCall& call, const Argument& argument) {
    const Tensor& tensor = argument.tensors.at(0);
    void* data = argument.updates < 0 ? Upload(tensor, false) : inputs_.at(static_cast<std::size_t>(argument.updates));
    const aclTensor* handle = Make(tensor, data);
    results_.push_back({&argument, 0, handle});
    call.Output(handle);
  }

  void AddOutputs(twin::AclnnCall& call, const Argument& argument) {
    lists_.emplace_back();
    for (std::size_t i = 0; i < argument.tensors.size(); ++i) {
      aclTensor* handle = Make(argument.tensors[i], Upload(argument.tensors[i], false));
      results_.push_back({&argument, i, handle});
      lists_.back().values.push_back(handle);
    }
    call.Output(&lists_.back());
  }

  void Add(twin::AclnnCall& call, const Argument& argument) {
    inputs_.push_back(nullptr);
    switch (argument.kind) {
      case Argument::INPUT:
        inputs_.back() = Upload(argument.tensors.at(0), true);
        call.Input(Make(argument.tensors.at(0), inputs_.back()));
        break;
      case Argument::NO_INPUT:
        call.Input(static_cast<const aclTensor*>(nullptr));
        break;
      case Argument::INPUT_LIST:
        lists_.emplace_back();
        for (const auto& tensor : argument.tensors) {
          lists_.back().values.push_back(Make(tensor, Upload(tensor, true)));
        }
        call.Input(&lists_.back());
        break;
      case Argument::INT:
        call.Attribute(argument.numbers.at(0));
        break;
      case Argument::TRUTH:
        call.Attribute(argument.numbers.at(0) != 0);
        break;
      case Argument::REAL:
        call.Attribute(argument.real);
        break;
      case Argument::TEXT:
        call.Attribute(argument.text.c_str());
        break;
      case Argument::INT_LIST:
        ints_.push_back({argument.numbers});
        call.Attribute(&ints_.back());
        break;
      case Argument::OUTPUT:
        AddOutput(call, argument);
        break;
      case Argument::OUTPUT_LIST:
        AddOutputs(call, argument);
        break;
      case Argument::NO_OUTPUT:
        call.Output(static_cast<const aclTensor*>(nullptr));
        break;
    }
  }

  std::deque<DeviceMemory> memory_;
  std::deque<aclTensor> tensors_;
  std::deque<aclTensorList> lists_;
  std::deque<aclIntArray> ints_;
  std::vector<void*> inputs_;  // by argument; null where it is no tensor
  std::vector<Result> results_;
};

std::string Reason(aclError code) {
  const char* text = aclGetRecentErrMsg();
  return std::to_string(code) + " " + (text == nullptr ? "" : text);
}

// kOk, or kTrapped and kWrong with a reason.
int Launch(const char* type, const Case& one, aclrtStream stream, std::vector<Bytes>& first, std::string& reason) {
  twin::AclnnCall call(type, LaunchedKernels());
  const Staged staged(call, one);
  uint64_t workspaceBytes = 0;
  aclOpExecutor* executor = nullptr;
  aclError code = call.Plan(&workspaceBytes, &executor);
  if (one.refused) {
    reason = "the call was not refused";
    return code == ACL_SUCCESS ? kWrong : kOk;
  }
  if (code != ACL_SUCCESS) {
    reason = "refused: " + Reason(code);
    return kTrapped;
  }
  const DeviceMemory workspace(workspaceBytes);
  code = twinRunExecutor(executor, workspace.Data(), workspaceBytes, stream);
  if (code == ACL_SUCCESS) {
    code = aclrtSynchronizeStream(stream);
  }
  if (code != ACL_SUCCESS) {
    reason = "trapped: " + Reason(code);
    return kTrapped;
  }
  reason = staged.Difference(first);
  if (!reason.empty()) {
    reason = "wrong: " + reason;
    return kWrong;
  }
  return kOk;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= text.size()) {
    const auto comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

struct Options {
  std::vector<std::string> cores = {"48"};
  std::vector<std::string> seeds = {"none"};
  std::string file;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--cores" && i + 1 < argc) {
      options.cores = Split(argv[++i]);
    } else if (word == "--seeds" && i + 1 < argc) {
      options.seeds = Split(argv[++i]);
    } else {
      options.file = word;
    }
  }
  return !options.file.empty();
}

int RunAll(const Options& options) {
  const auto file = launcher::ReadCases(options.file);
  Check("aclInit", aclInit(nullptr));
  Check("aclrtSetDevice", aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  Check("aclrtCreateStream", aclrtCreateStream(&stream));
  std::vector<std::vector<Bytes>> results(file.cases.size());
  unsigned launches = 0;
  for (const auto& cores : options.cores) {
    setenv("TWIN_CORES", cores.c_str(), 1);
    for (const auto& seed : options.seeds) {
      seed == "none" ? unsetenv("TWIN_SEED") : setenv("TWIN_SEED", seed.c_str(), 1);
      for (std::size_t i = 0; i < file.cases.size(); ++i) {
        const Case& one = file.cases[i];
        std::string reason;
        const int outcome = Launch(file.type.c_str(), one, stream, results[i], reason);
        if (outcome != kOk) {
          std::printf("case %s cores %s seed %s %s\n", one.name.c_str(), cores.c_str(), seed.c_str(), reason.c_str());
          return outcome;
        }
        ++launches;
      }
    }
  }
  Check("aclrtDestroyStream", aclrtDestroyStream(stream));
  Check("aclFinalize", aclFinalize());
  std::printf("ok %u launches\n", launches);
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: launcher [--cores LIST] [--seeds LIST] FILE\n");
    return kBroken;
  }
  try {
    return RunAll(options);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "launcher: %s\n", fault.what());
    return kBroken;
  }
}
