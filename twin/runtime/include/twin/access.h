// What a task reads and writes. The strict mode (TWIN_STREAMS=strict) holds it against what earlier tasks did; without
// that mode nothing is collected.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl/acl.h"

extern "C" {

// A run of bytes. Memory that is neither a device's nor pinned is passed over.
struct twinAccess {
  const void* start;
  std::size_t bytes;
  bool writes;
};

bool twinStrictStreams();

// twinStreamSubmit (twin/stream.h), refused with ACL_ERROR_RT_FAILURE and a text that names both operations when
// nothing orders the task after an earlier access to the same memory of which one writes.
aclError twinStreamSubmitChecked(aclrtStream stream, const char* name, int32_t (*task)(void*), void (*drop)(void*),
                                 void* argument, const twinAccess* accesses, std::size_t count);

// The same check for work that counts as the stream's, but that the emulation does itself at once.
aclError twinStreamAccess(aclrtStream stream, const char* name, const twinAccess* accesses, std::size_t count);

// The operator gave a value to the host: on a device the host has waited for the stream by then.
aclError twinStreamGaveValue(aclrtStream stream);

// While true, this thread waits on the emulation's behalf: the program learns nothing from it.
void twinWaitsForItself(bool waits);
}

#ifdef __cplusplus
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace twin {

class Accesses {
 public:
  void Add(const void* start, std::size_t bytes, bool writes) {
    if (start != nullptr && bytes != 0) {
      runs_.push_back({start, bytes, writes});
    }
  }

  // The bytes of a strided view: `first` is its first element, strides count elements.
  template <typename Sizes>
  void AddView(const void* first, const Sizes& sizes, const Sizes& strides, std::size_t itemSize, bool writes) {
    std::vector<Axis> axes;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) {
        return;
      }
      if (sizes[i] > 1 && strides[i] > 0) {  // an expanded axis has no bytes of its own
        axes.push_back({static_cast<std::size_t>(strides[i]) * itemSize, static_cast<std::size_t>(sizes[i])});
      }
    }
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.pitch < b.pitch; });
    std::size_t run = itemSize;
    auto outer = axes.begin();
    for (; outer != axes.end() && outer->pitch <= run; ++outer) {
      run += outer->pitch * (outer->size - 1);
    }
    AddRuns(static_cast<const char*>(first), run, {outer, axes.end()}, writes);
  }

  const twinAccess* Data() const { return runs_.data(); }
  std::size_t Size() const { return runs_.size(); }

 private:
  struct Axis {
    std::size_t pitch;  // bytes
    std::size_t size;
  };

  // Of a view of more runs than this only some are noted, evenly spread: what lies between them is another's.
  static constexpr std::size_t kRuns = 1024;

  void AddRuns(const char* first, std::size_t run, const std::vector<Axis>& outer, bool writes) {
    std::size_t count = 1;
    for (const Axis& axis : outer) {
      count *= axis.size;
    }
    const std::size_t noted = std::min(count, kRuns);
    for (std::size_t i = 0; i < noted; ++i) {
      std::size_t index = noted == count ? i : i * (count / noted);
      const char* start = first;
      for (const Axis& axis : outer) {
        start += index % axis.size * axis.pitch;
        index /= axis.size;
      }
      Add(start, run, writes);
    }
  }

  std::vector<twinAccess> runs_;
};

inline aclError Submit(aclrtStream stream, const char* name, const Accesses& accesses, std::function<int32_t()> task) {
  auto* owned = new std::function<int32_t()>(std::move(task));
  return twinStreamSubmitChecked(
      stream, name, [](void* p) { return (*static_cast<std::function<int32_t()>*>(p))(); },
      [](void* p) { delete static_cast<std::function<int32_t()>*>(p); }, owned, accesses.Data(), accesses.Size());
}

}  // namespace twin
#endif
