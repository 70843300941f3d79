#include "launch_plan.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "launch_work.h"
#include "twin/counts.h"
#include "twin/stream.h"

namespace twin {

namespace {

constexpr std::size_t kGmAlignment = 512;
constexpr std::size_t kLenientBytes = 32;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<unsigned char, Free>;

Block Allocate(std::size_t bytes) {
  const std::size_t padded = (bytes + kGmAlignment) / kGmAlignment * kGmAlignment;
  return Block(static_cast<unsigned char*>(std::aligned_alloc(kGmAlignment, padded)));
}

bool Fast() {
  const char* level = std::getenv("TWIN_CHECK");
  return level != nullptr && std::strcmp(level, "fast") == 0;
}

// A device's allocations are padded: what a copy of whole blocks reads and writes behind a tensor harms nothing.
std::size_t PaddedBytes(std::size_t bytes) { return (bytes + kLenientBytes - 1) / kLenientBytes * kLenientBytes; }

// Global memory of one launch: what the caller gave, and dense copies, lists and tiling data made for it.
class LaunchMemory {
 public:
  explicit LaunchMemory(bool lenient) : lenient_(lenient) {}

  unsigned char* Own(std::size_t bytes) {
    blocks_.push_back(Allocate(bytes));
    return blocks_.back().get();
  }

  void* Tensor(const View& view) {
    unsigned char* data = view.data;
    const auto bytes = static_cast<std::size_t>(view.Bytes());
    const std::size_t given = lenient_ ? PaddedBytes(bytes) : bytes;
    // Behind the caller's tensor lies the caller's memory, so padding takes a copy.
    if (bytes != 0 && (!view.Contiguous() || given != bytes)) {
      data = CopyFor(view, given);
    }
    // An output in the place of an input keeps its contents: the operator updates it in place.
    const bool inPlace = view.output && MakeWritable(data, given);
    if (bytes != 0 && view.output && !inPlace && !Fast()) {
      std::memset(data, kPoison, bytes);
    }
    extents.push_back({data, given, view.name.c_str(), view.output, view.output && !inPlace && !Fast()});
    return data;
  }

  // The list of a DYNAMIC parameter without shapes: its members' addresses.
  void* List(const PlanArgument& argument) {
    const auto count = argument.members.size();
    auto* words = reinterpret_cast<uint64_t*>(Own((3 + count) * sizeof(uint64_t)));
    words[0] = 3 * sizeof(uint64_t);
    words[1] = static_cast<uint64_t>(count) << 32;
    words[2] = 0xffffffff;
    for (std::size_t i = 0; i < count; ++i) {
      words[3 + i] = reinterpret_cast<uint64_t>(Tensor(argument.members[i]));
    }
    return words;
  }

  void* Bytes(const std::vector<unsigned char>& bytes, const char* name) {
    auto* data = Own(bytes.size());
    std::memcpy(data, bytes.data(), bytes.size());
    extents.push_back({data, bytes.size(), name, false});
    return data;
  }

  // Poisoned at every level: it tells which words were written.
  unsigned char* Records(std::size_t count) {
    const std::size_t bytes = count * kShapeRecordBytes;
    auto* data = Own(bytes);
    std::memset(data, kPoison, bytes);
    extents.push_back({data, bytes, "shapes of outputs", true, !Fast()});
    return data;
  }

  void WriteBack() const {
    for (const auto& scatter : scatters_) {
      scatter.first->Scatter(scatter.second);
    }
  }

  std::vector<GmExtent> extents;

 private:
  struct Copy {
    const View* of;
    unsigned char* data;
  };

  // An output in the place of an input has the input's copy.
  unsigned char* CopyFor(const View& view, std::size_t bytes) {
    for (const auto& copy : copies_) {
      if (view.output && copy.of->data == view.data && copy.of->dims == view.dims && copy.of->strides == view.strides) {
        scatters_.push_back({&view, copy.data});
        return copy.data;
      }
    }
    auto* data = Own(bytes);
    std::memset(data, 0, bytes);
    if (view.output) {
      scatters_.push_back({&view, data});
    } else {
      view.Gather(data);
      copies_.push_back({&view, data});
    }
    return data;
  }

  // True if an input lies exactly there; it may be written then.
  bool MakeWritable(const unsigned char* data, std::size_t bytes) {
    bool found = false;
    for (auto& extent : extents) {
      if (bytes != 0 && extent.start == data && extent.bytes == bytes && !extent.writable) {
        extent.writable = true;
        found = true;
      }
    }
    return found;
  }

  const bool lenient_;
  std::deque<Block> blocks_;
  std::vector<Copy> copies_;  // of inputs
  std::vector<std::pair<const View*, const unsigned char*>> scatters_;
};

}  // namespace

bool Lenient(const std::string& type) {
  const char* text = std::getenv("TWIN_LENIENT");
  if (text == nullptr) {
    return false;
  }
  const std::string names = text;
  return names == "1" || ("," + names + ",").find("," + type + ",") != std::string::npos;
}

int32_t Execute(const LaunchPlan& plan, void* workspace, uint64_t workspaceBytes) {
  LaunchMemory memory(plan.lenient);
  std::vector<void*> arguments;
  for (const auto& argument : plan.arguments) {
    if (argument.list) {
      arguments.push_back(memory.List(argument));
    } else if (!argument.members.empty()) {
      arguments.push_back(memory.Tensor(argument.members.front()));
    } else {
      arguments.push_back(argument.present ? memory.Bytes(argument.hostValues, "host values") : nullptr);
    }
  }
  unsigned char* records = plan.shaped.empty() ? nullptr : memory.Records(plan.shaped.size());
  if (records != nullptr) {
    arguments.push_back(records);
  }
  void* tiling = memory.Bytes(plan.tiling, "tiling data");
  if (workspaceBytes != 0) {
    memory.extents.push_back({workspace, workspaceBytes, "workspace", true, !Fast()});
    if (!Fast() && workspaceBytes > kSystemWorkspaceBytes) {
      std::memset(static_cast<unsigned char*>(workspace) + kSystemWorkspaceBytes, kPoison,
                  workspaceBytes - kSystemWorkspaceBytes);
    }
  }
  arguments.push_back(workspace);
  arguments.push_back(tiling);

  Launch launch{};
  launch.name = plan.name;
  launch.entry = plan.entry;
  launch.arguments = arguments.data();
  launch.extents = memory.extents.data();
  launch.extentCount = memory.extents.size();
  launch.blockDim = plan.blockDim;
  launch.cores = plan.cores;
  launch.vectorsPerBlock = plan.vectorsPerBlock;
  launch.scheduleMode = plan.scheduleMode;
  launch.lenient = plan.lenient;
  launch.tilingKey = plan.tilingKey;
  launch.workspace = workspace;
  launch.workspaceBytes = workspaceBytes;
  launch.tiling = tiling;
  launch.tilingBytes = plan.tiling.size();
  char error[1024];
  launchWork = {};
  const int code = Run(launch, error, sizeof(error));
  if (code != 0) {
    twinSetErrorMessage((std::string("[twin] aicore exception: ") + error).c_str());
    return code;
  }
  twinCountKernel(plan.name, launchWork.bytesRead, launchWork.bytesWritten, launchWork.products);
  if (launchWork.hbmRead + launchWork.hbmWritten != 0) {
    twinCountHbm(plan.name, launchWork.hbmRead, launchWork.hbmWritten);
  }
  memory.WriteBack();
  if (const std::string fault = TakeShapes(plan.shaped, records); !fault.empty()) {
    twinSetErrorMessage(("[twin] aicore exception: " + std::string(plan.name) + ": " + fault).c_str());
    return kTrapped;
  }
  return 0;
}

}  // namespace twin
