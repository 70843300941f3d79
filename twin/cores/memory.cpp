// The core's memory side: order and definedness in the unified buffer, bounds and order in global memory.
#include <algorithm>
#include <cstring>

#include "core_state.h"
#include "gm_access.h"
#include "launch_work.h"
#include "scheduler.h"

namespace twin {

namespace {

constexpr const char* kPipeNames[kPipes] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};

uint32_t CheckedAddress(Core& core, const UbRange& range, uint64_t offset, uint64_t bytes, uint32_t alignment) {
  const auto& buffers = core.state->buffers;
  if (range.buffer < 0 || static_cast<std::size_t>(range.buffer) >= buffers.size()) {
    core.Trap("E-36", "access through a tensor that has no buffer");
  }
  const auto& buffer = buffers[range.buffer];
  const uint64_t start = range.address + offset;
  if (start + bytes > static_cast<uint64_t>(buffer.start) + buffer.bytes) {
    core.Trap(core.state->pipe == PIPE_S ? "E-36" : "E-25", "UB [0x%llx, 0x%llx) is outside the buffer [0x%x, 0x%x)",
              static_cast<unsigned long long>(start), static_cast<unsigned long long>(start + bytes), buffer.start,
              buffer.start + buffer.bytes);
  }
  if ((start & (alignment - 1)) != 0) {  // alignments are powers of two
    core.Trap(core.state->pipe == PIPE_S ? "E-36" : "E-01", "UB address 0x%llx is not aligned to %u bytes",
              static_cast<unsigned long long>(start), alignment);
  }
  if (buffer.queue >= 0 && buffer.state == BufferState::Free) {
    core.Trap("E-09", "use of the tensor at UB 0x%llx after FreeTensor", static_cast<unsigned long long>(start));
  }
  return static_cast<uint32_t>(start);
}

inline void IssueScalar(CoreState& s, const char* call) {
  s.pipe = PIPE_S;
  s.call = call;
  s.scheduler->CheckTime(s);
  ++s.issued[PIPE_S];
  if (s.scheduler->launch.lenient) {
    KnowAsCompiled(s, PIPE_S);
  }
}

[[noreturn]] void Unordered(Core& core, const char* access, uint32_t block, const char* earlier, int pipe) {
  core.Trap("E-11", "%s of UB 0x%x by pipe %s does not wait for the %s by pipe %s: a flag, queue or barrier is missing",
            access, block * kUbBlock, kPipeNames[Index(core.state->pipe)], earlier, kPipeNames[pipe]);
}

}  // namespace

const uint8_t* Core::UbData(const UbRange& range) const { return state->ub.data() + range.address; }

UbRange Core::UbAt(uint64_t address, const char* what) {
  for (std::size_t i = 0; i < state->buffers.size(); ++i) {
    const auto& buffer = state->buffers[i];
    if (address >= buffer.start && address - buffer.start < buffer.bytes) {
      return {static_cast<uint32_t>(address), static_cast<uint32_t>(buffer.start + buffer.bytes - address),
              static_cast<int32_t>(i)};
    }
  }
  Trap("E-36", "%s: UB address 0x%llx is in no buffer", what, static_cast<unsigned long long>(address));
}

const uint8_t* Core::UbRead(const UbRange& range, uint64_t offset, uint64_t bytes, uint32_t alignment) {
  const uint32_t start = CheckedAddress(*this, range, offset, bytes, alignment);
  if (state->scheduler->full && bytes != 0) {
    const int p = Index(state->pipe);
    const auto last = static_cast<uint32_t>((start + bytes - 1) / kUbBlock);
    const auto found = state->shadow.Read(start / kUbBlock, last + 1, p, state->issued[p], state->known[p]);
    if (found.pipe >= 0) {
      Unordered(*this, "read", found.block, "write", found.pipe);
    }
  }
  return state->ub.data() + start;
}

uint8_t* Core::UbWrite(const UbRange& range, uint64_t offset, uint64_t bytes, uint32_t alignment) {
  const uint32_t start = CheckedAddress(*this, range, offset, bytes, alignment);
  if (state->scheduler->full && bytes != 0) {
    const int p = Index(state->pipe);
    const auto last = static_cast<uint32_t>((start + bytes - 1) / kUbBlock);
    const auto found = state->shadow.Write(start / kUbBlock, last + 1, p, state->issued[p], state->known[p]);
    if (found.pipe == p) {
      Trap("E-13", "two writes of pipe %s to UB 0x%x without PipeBarrier", kPipeNames[p], found.block * kUbBlock);
    }
    if (found.pipe >= 0) {
      Unordered(*this, "write", found.block, found.write ? "write" : "read", found.pipe);
    }
  }
  return state->ub.data() + start;
}

namespace {

bool InBuffer(const CoreState& s, const UbRange& range, const uint64_t (&offsets)[8], const uint32_t (&bits)[8]) {
  if (range.buffer < 0 || static_cast<std::size_t>(range.buffer) >= s.buffers.size() || range.address % kUbBlock != 0) {
    return false;
  }
  const auto& buffer = s.buffers[range.buffer];
  const uint64_t end = static_cast<uint64_t>(buffer.start) + buffer.bytes;
  bool inside = buffer.queue < 0 || buffer.state != BufferState::Free;
  for (int i = 0; i < 8; ++i) {
    inside &= bits[i] == 0 || range.address + offsets[i] + kUbBlock - __builtin_clz(bits[i]) <= end;
  }
  return inside;
}

}  // namespace

const uint8_t* Core::UbReadBlocks(const UbRange& range, const uint64_t (&offsets)[8], const uint32_t (&bits)[8],
                                  bool chained) {
  if (!InBuffer(*state, range, offsets, bits)) {
    return nullptr;
  }
  const int p = Index(state->pipe);
  for (int i = 0; i < 8 && state->scheduler->full; ++i) {
    const auto block = static_cast<uint32_t>((range.address + offsets[i]) / kUbBlock);
    if (bits[i] != 0 && ((!chained && state->shadow.WrittenBy(block, block + 1, p, state->issued[p])) ||
                         state->shadow.ReadOne(block, p, state->issued[p], state->known[p]).pipe >= 0 ||
                         !state->shadow.DefinedIn(block, bits[i]))) {
      return nullptr;
    }
  }
  return state->ub.data() + range.address;
}

uint8_t* Core::UbWriteBlocks(const UbRange& range, const uint64_t (&offsets)[8], const uint32_t (&bits)[8]) {
  if (!InBuffer(*state, range, offsets, bits)) {
    return nullptr;
  }
  const int p = Index(state->pipe);
  for (int i = 0; i < 8 && state->scheduler->full; ++i) {
    const auto block = static_cast<uint32_t>((range.address + offsets[i]) / kUbBlock);
    if (bits[i] != 0) {
      if (state->shadow.WriteOne(block, p, state->issued[p], state->known[p]).pipe >= 0) {
        return nullptr;
      }
      state->shadow.DefineIn(block, bits[i]);
    }
  }
  return state->ub.data() + range.address;
}

bool Core::UbWrittenNow(const UbRange& range, uint64_t offset, uint64_t bytes) const {
  const int p = Index(state->pipe);
  const uint64_t start = range.address + offset;
  return state->scheduler->full && bytes != 0 &&
         state->shadow.WrittenBy(static_cast<uint32_t>(start / kUbBlock),
                                 static_cast<uint32_t>((start + bytes - 1) / kUbBlock) + 1, p, state->issued[p]);
}

void Core::Define(const UbRange& range, uint64_t offset, uint64_t bytes) {
  if (state->scheduler->full) {
    state->shadow.Define(range.address + offset, range.address + offset + bytes);
  }
}

void Core::Undefine(const UbRange& range, uint64_t offset, uint64_t bytes) {
  if (state->scheduler->full) {
    state->shadow.Undefine(range.address + offset, range.address + offset + bytes);
  }
}

bool Core::Defined(const UbRange& range, uint64_t offset, uint64_t bytes) const {
  return !state->scheduler->full || state->shadow.Defined(range.address + offset, range.address + offset + bytes);
}

namespace {

// An aligned element lies in one block.
uint32_t ElementMask(uint32_t start, uint32_t bytes) { return ((1u << bytes) - 1) << (start % kUbBlock); }

void CopyElement(void* to, const void* from, uint32_t bytes) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    default:
      std::memcpy(to, from, 8);
      break;
  }
}

}  // namespace

void Core::UbLoad(const UbRange& range, uint64_t index, void* value, uint32_t bytes) {
  IssueScalar(*state, "LocalTensor::GetValue");
  const uint32_t start = CheckedAddress(*this, range, index * bytes, bytes, bytes);
  if (state->scheduler->full) {
    const uint32_t block = start / kUbBlock;
    const auto found = state->shadow.ReadOne(block, PIPE_S, state->issued[PIPE_S], state->known[PIPE_S]);
    if (found.pipe >= 0) {
      Unordered(*this, "read", found.block, "write", found.pipe);
    }
    if (!state->shadow.DefinedIn(block, ElementMask(start, bytes))) {
      RequireDefined(range, index * bytes, bytes);
    }
  }
  CopyElement(value, state->ub.data() + start, bytes);
}

void Core::UbStore(const UbRange& range, uint64_t index, const void* value, uint32_t bytes) {
  IssueScalar(*state, "LocalTensor::SetValue");
  const uint32_t start = CheckedAddress(*this, range, index * bytes, bytes, bytes);
  if (state->scheduler->full) {
    const uint32_t block = start / kUbBlock;
    const auto found = state->shadow.WriteOne(block, PIPE_S, state->issued[PIPE_S], state->known[PIPE_S]);
    if (found.pipe >= 0) {
      Unordered(*this, "write", found.block, found.write ? "write" : "read", found.pipe);
    }
    state->shadow.DefineIn(block, ElementMask(start, bytes));
  }
  CopyElement(state->ub.data() + start, value, bytes);
}

void Core::UbPeek(const UbRange& range, uint64_t index, void* value, uint32_t bytes) const {
  const uint64_t start = range.address + index * bytes;
  if (start + bytes <= state->ub.size()) {
    CopyElement(value, state->ub.data() + start, bytes);
  }
}

void Core::RequireDefined(const UbRange& range, uint64_t offset, uint64_t bytes) {
  if (!Defined(range, offset, bytes)) {
    Trap("E-16", "bytes of UB [0x%llx, 0x%llx) were never written",
         static_cast<unsigned long long>(range.address + offset),
         static_cast<unsigned long long>(range.address + offset + bytes));
  }
}

const GmExtent& GmExtentAt(Core& core, const void* address, uint64_t bytes, bool write) {
  const auto& launch = core.state->scheduler->launch;
  const auto at = reinterpret_cast<uint64_t>(address);
  for (std::size_t i = 0; i < launch.extentCount; ++i) {
    const std::size_t index = (core.state->lastExtent + i) % launch.extentCount;
    const auto& extent = launch.extents[index];
    const auto start = reinterpret_cast<uint64_t>(extent.start);
    if (at >= start && at - start <= extent.bytes && bytes <= extent.bytes - (at - start)) {
      core.state->lastExtent = index;
      if (write && !extent.writable) {
        core.Trap("E-17", "write of %llu bytes at GM %p, inside the input %s", static_cast<unsigned long long>(bytes),
                  address, extent.name);
      }
      return extent;
    }
  }
  const GmExtent* nearest = nullptr;
  for (std::size_t i = 0; i < launch.extentCount; ++i) {
    const auto& extent = launch.extents[i];
    const auto start = reinterpret_cast<uint64_t>(extent.start);
    if (at < start + extent.bytes + 65536 && start < at + bytes + 65536) {
      nearest = &extent;
    }
  }
  core.Trap("E-17", "%s of %llu bytes at GM %p is outside every tensor of the launch%s%s", write ? "write" : "read",
            static_cast<unsigned long long>(bytes), address, nearest != nullptr ? ", near " : "",
            nearest != nullptr ? nearest->name : "");
}

void RecordGm(Core& core, const void* address, uint64_t bytes, bool write) {
  auto& s = *core.state;
  if (!s.scheduler->full) {
    return;
  }
  const int p = Index(s.pipe);
  const auto start = reinterpret_cast<uint64_t>(address);
  const auto atomic = write && s.pipe == PIPE_MTE3 ? s.atomic : AtomicMode::None;
  s.gm.Add({start, start + bytes, s.block, s.issued[p], s.known[p], static_cast<uint8_t>(p), write, atomic, s.call,
            s.cross});
}

// Of `rows` stretches, for the emulated L2.
void AskGm(CoreState& s, const void* address, uint64_t rows, uint64_t bytes, uint64_t pitch, bool read, bool write) {
  if (!s.keepsRequests) {
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    s.requests.Add(static_cast<const uint8_t*>(address) + row * pitch, bytes, read, write, s.barriers);
  }
}

const uint8_t* Core::GmRead(const void* address, uint64_t bytes) {
  launchWork.bytesRead += bytes;
  AskGm(*state, address, 1, bytes, 0, true, false);
  // A read of what nothing may write is ordered with everything.
  if (GmExtentAt(*this, address, bytes, false).writable) {
    RecordGm(*this, address, bytes, false);
  }
  if (state->scheduler->Random(16)) {
    Yield();
  }
  return static_cast<const uint8_t*>(address);
}

uint8_t* Core::GmWrite(void* address, uint64_t bytes) {
  launchWork.bytesWritten += bytes;
  AskGm(*state, address, 1, bytes, 0, false, true);
  GmExtentAt(*this, address, bytes, true);
  RecordGm(*this, address, bytes, true);
  if (state->scheduler->Random(16)) {
    Yield();
  }
  return static_cast<uint8_t*>(address);
}

namespace {

bool IsPoison(const uint8_t* from, uint64_t bytes) {
  return std::all_of(from, from + bytes, [](uint8_t byte) { return byte == kPoison; });
}

}  // namespace

uint8_t* Core::GmAccumulate(void* address, uint64_t bytes) {
  const auto& extent = GmExtentAt(*this, address, bytes, true);
  AskGm(*state, address, 1, bytes, 0, true, true);
  auto* to = GmWrite(address, bytes);
  // Only a stretch that is poison throughout cannot be a value of the kernel's own.
  if (extent.poisoned && bytes >= 8 && IsPoison(to, bytes)) {
    Trap("E-21", "atomic write of %llu bytes at GM %p, inside %s, onto memory that nothing has initialised",
         static_cast<unsigned long long>(bytes), address, extent.name);
  }
  return to;
}

const uint8_t* Core::GmReadRows(const void* address, uint64_t rows, uint64_t bytes, uint64_t pitch) {
  launchWork.bytesRead += rows * bytes;
  AskGm(*state, address, rows, bytes, pitch, true, false);
  const auto* first = static_cast<const uint8_t*>(address);
  const bool dense = bytes == pitch;
  for (uint64_t row = 0; row < (dense ? 1 : rows); ++row) {
    if (!GmExtentAt(*this, first + row * pitch, dense ? rows * bytes : bytes, false).writable) {
      // The rows of a matrix lie in one tensor.
      GmExtentAt(*this, first, (rows - 1) * pitch + bytes, false);
      break;
    }
    RecordGm(*this, first + row * pitch, dense ? rows * bytes : bytes, false);
  }
  if (state->scheduler->Random(16)) {
    Yield();
  }
  return first;
}

void Core::RequireWritten(const void* address, uint64_t rows, uint64_t bytes, uint64_t pitch) {
  const auto& extent = GmExtentAt(*this, address, (rows - 1) * pitch + bytes, false);
  if (!extent.poisoned) {
    return;
  }
  const auto* row = static_cast<const uint8_t*>(address);
  for (uint64_t r = 0; r < rows; ++r, row += pitch) {
    for (uint64_t at = 0; at < bytes; at += kUbBlock) {
      // Fewer than 8 bytes of the pattern may be a value of the kernel's own.
      const uint64_t length = std::min<uint64_t>(bytes - at, kUbBlock);
      if (length >= 8 && IsPoison(row + at, length)) {
        Trap("E-16", "read of %llu bytes at GM %p, inside %s, which nothing has written",
             static_cast<unsigned long long>(length), static_cast<const void*>(row + at), extent.name);
      }
    }
  }
}

uint8_t* Core::GmWriteRows(void* address, uint64_t rows, uint64_t bytes, uint64_t pitch, bool accumulates) {
  launchWork.bytesWritten += rows * bytes;
  AskGm(*state, address, rows, bytes, pitch, accumulates, true);
  auto* first = static_cast<uint8_t*>(address);
  const bool dense = bytes == pitch;
  for (uint64_t row = 0; row < (dense ? 1 : rows); ++row) {
    GmExtentAt(*this, first + row * pitch, dense ? rows * bytes : bytes, true);
    RecordGm(*this, first + row * pitch, dense ? rows * bytes : bytes, true);
  }
  return first;
}

void Core::CubeCarries(const UbRange& range, uint64_t offset, uint64_t rows, uint64_t bytes, uint64_t pitch,
                       bool write) {
  (write ? launchWork.bytesWritten : launchWork.bytesRead) += rows * bytes;
  const uint64_t place = static_cast<uint64_t>(state->slot) * kUbBytes + range.address + offset;
  AskGm(*state, SystemWorkspace() + place, rows, bytes, pitch, !write, write);
}

}  // namespace twin
