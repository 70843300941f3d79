// DataCopy and DataCopyPad.
#pragma once
#include "ascendc/atomic.h"
#include "ascendc/tensor.h"

namespace AscendC {

struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t srcGapIn, uint16_t dstGapIn)
      : blockCount(count), blockLen(len), srcStride(srcGapIn), dstStride(dstGapIn) {}
  uint16_t blockCount = 1;
  uint16_t blockLen = 0;
  union {
    uint16_t srcStride = 0;
    uint16_t srcGap;
  };
  union {
    uint16_t dstStride = 0;
    uint16_t dstGap;
  };
};

struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t srcGap, uint32_t dstGap, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(srcGap), dstStride(dstGap), rsv(reserved) {}
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;
  uint32_t srcStride = 0;
  uint32_t dstStride = 0;
  uint32_t rsv = 0;
};

struct DataCopyPadParams {
  DataCopyPadParams() = default;
  DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  uint64_t paddingValue = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  T paddingValue = T();
};

namespace twin_detail {

template <typename T>
inline constexpr bool kCopyable = kOneOf<T, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                                         uint64_t, half, bfloat16_t, float, double>;

// A strided move: count bursts of `bytes`, each side with its own distance from start to start.
struct Bursts {
  uint64_t count;
  uint64_t bytes;
  uint64_t gmPitch;
  uint64_t ubPitch;
};

template <typename T>
void CheckGmAlignment(const __gm__ T* address) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof(T) != 0) {
    twin::Core::Current().Trap("E-01", "GM address %p is not aligned to an element of %zu bytes",
                               reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address)), sizeof(T));
  }
}

template <typename T>
void CheckGmExtent(const GlobalTensor<T>& tensor, const Bursts& bursts) {
  CheckGmAlignment(tensor.GetPhyAddr());
  tensor.Check(0, (bursts.count - 1) * bursts.gmPitch + bursts.bytes);
}

template <typename T>
void CopyIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Bursts& bursts) {
  auto& core = twin::Core::Current();
  CheckGmExtent(src, bursts);
  const auto* from = reinterpret_cast<const __gm__ uint8_t*>(src.GetPhyAddr());
  for (uint64_t i = 0; i < bursts.count; ++i) {
    const uint64_t at = i * bursts.ubPitch;
    const uint8_t* data = core.GmRead(from + i * bursts.gmPitch, bursts.bytes);
    std::memcpy(core.UbWrite(dst.Range(), at, bursts.bytes), data, bursts.bytes);
    core.Define(dst.Range(), at, bursts.bytes);
  }
}

// What leaves the unified buffer was written, but for the filler of a last block whose front was: a device copies what
// lies there, over which the next row comes or which is behind the tensor.
inline void RequireWritten(const twin::UbRange& range, uint64_t at, uint64_t bytes) {
  auto& core = twin::Core::Current();
  if (core.Lenient() && core.Atomic() == twin::AtomicMode::None && bytes % twin::kUbBlock == 0 &&
      core.Defined(range, at + bytes - twin::kUbBlock, 1)) {
    core.RequireDefined(range, at, bytes - twin::kUbBlock);
  } else {
    core.RequireDefined(range, at, bytes);
  }
}

template <typename T>
void CopyOut(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Bursts& bursts) {
  auto& core = twin::Core::Current();
  CheckGmExtent(dst, bursts);
  auto* to = reinterpret_cast<__gm__ uint8_t*>(const_cast<__gm__ T*>(dst.GetPhyAddr()));
  for (uint64_t i = 0; i < bursts.count; ++i) {
    const uint64_t at = i * bursts.ubPitch;
    const uint8_t* data = core.UbRead(src.Range(), at, bursts.bytes);
    RequireWritten(src.Range(), at, bursts.bytes);
    if (core.Atomic() == twin::AtomicMode::None) {
      std::memcpy(core.GmWrite(to + i * bursts.gmPitch, bursts.bytes), data, bursts.bytes);
    } else {
      Accumulate<T>(to + i * bursts.gmPitch, data, bursts.bytes);
    }
  }
}

template <typename T>
uint64_t WholeBlocks(uint32_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  if (bytes % twin::kUbBlock != 0 && !twin::Core::Current().Lenient()) {
    twin::Core::Current().Trap("E-02", "DataCopy of %u elements of %zu bytes loses its tail: use DataCopyPad", count,
                               sizeof(T));
  }
  return bytes / twin::kUbBlock * twin::kUbBlock;
}

inline void CheckBurstCount(uint32_t count) {
  if (count > 4095) {
    twin::Core::Current().Trap("E-15", "blockCount %u is above 4095", count);
  }
}

inline void CheckPadLength(uint64_t bytes, std::size_t element) {
  if (bytes > 2097151 || bytes % element != 0) {
    twin::Core::Current().Trap("E-15", "blockLen %llu is above 2097151 bytes or no multiple of the element",
                               static_cast<unsigned long long>(bytes));
  }
}

inline uint64_t PaddedBytes(uint64_t bytes) { return (bytes + twin::kUbBlock - 1) / twin::kUbBlock * twin::kUbBlock; }

// GM -> UB with padding on both sides of each burst.
template <typename T>
void PadIn(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Bursts& bursts, uint32_t left, uint32_t right,
           bool isPad, T value) {
  auto& core = twin::Core::Current();
  if (left * sizeof(T) > twin::kUbBlock || right * sizeof(T) > twin::kUbBlock) {
    core.Trap("E-15", "padding of %u and %u elements is above 32 bytes", left, right);
  }
  T zero{};
  if (isPad && sizeof(T) == 8 && std::memcmp(&value, &zero, sizeof(T)) != 0) {
    core.Trap("E-15", "paddingValue must be 0 for 8-byte elements");
  }
  CheckGmExtent(src, bursts);
  const auto* from = reinterpret_cast<const __gm__ uint8_t*>(src.GetPhyAddr());
  const uint64_t image = PaddedBytes((left + right) * sizeof(T) + bursts.bytes);
  const uint64_t pitch = image + bursts.ubPitch;
  for (uint64_t i = 0; i < bursts.count; ++i) {
    const uint64_t at = i * pitch;
    const uint8_t* data = core.GmRead(from + i * bursts.gmPitch, bursts.bytes);
    uint8_t* to = core.UbWrite(dst.Range(), at, image);
    const uint64_t body = left * sizeof(T);
    if (isPad) {
      // Without padding, what fills the block up is the burst's first element and not the value.
      const void* filler = left + right == 0 ? static_cast<const void*>(data) : &value;
      for (uint64_t b = 0; b + sizeof(T) <= image; b += sizeof(T)) {
        std::memcpy(to + b, filler, sizeof(T));
      }
      core.Define(dst.Range(), at, image);
    } else {
      core.Undefine(dst.Range(), at, image);
      core.Define(dst.Range(), at + body, bursts.bytes);
    }
    std::memcpy(to + body, data, bursts.bytes);
  }
}

}  // namespace twin_detail

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopy does not move this type");
  twin::Core::Current().Issue(PIPE_MTE2, "DataCopy");
  const uint64_t bytes = twin_detail::WholeBlocks<T>(count);
  if (bytes != 0) {
    twin_detail::CopyIn(dst, src, {1, bytes, bytes, bytes});
  }
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopy does not move this type");
  twin::Core::Current().Issue(PIPE_MTE3, "DataCopy");
  const uint64_t bytes = twin_detail::WholeBlocks<T>(count);
  if (bytes != 0) {
    twin_detail::CopyOut(dst, src, {1, bytes, bytes, bytes});
  }
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopy does not move this type");
  twin::Core::Current().Issue(PIPE_MTE2, "DataCopy");
  twin_detail::CheckBurstCount(p.blockCount);
  const uint64_t bytes = static_cast<uint64_t>(p.blockLen) * twin::kUbBlock;
  if (p.blockCount != 0 && bytes != 0) {
    twin_detail::CopyIn(dst, src,
                        {p.blockCount, bytes, bytes + static_cast<uint64_t>(p.srcStride) * twin::kUbBlock,
                         bytes + static_cast<uint64_t>(p.dstStride) * twin::kUbBlock});
  }
}

template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopy does not move this type");
  twin::Core::Current().Issue(PIPE_MTE3, "DataCopy");
  twin_detail::CheckBurstCount(p.blockCount);
  const uint64_t bytes = static_cast<uint64_t>(p.blockLen) * twin::kUbBlock;
  if (p.blockCount != 0 && bytes != 0) {
    twin_detail::CopyOut(dst, src,
                         {p.blockCount, bytes, bytes + static_cast<uint64_t>(p.dstStride) * twin::kUbBlock,
                          bytes + static_cast<uint64_t>(p.srcStride) * twin::kUbBlock});
  }
}

// UB -> UB, on the vector pipe.
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "DataCopy");
  twin_detail::CheckBurstCount(p.blockCount);
  const uint64_t bytes = static_cast<uint64_t>(p.blockLen) * twin::kUbBlock;
  const uint64_t from = bytes + static_cast<uint64_t>(p.srcStride) * twin::kUbBlock;
  const uint64_t to = bytes + static_cast<uint64_t>(p.dstStride) * twin::kUbBlock;
  for (uint64_t i = 0; bytes != 0 && i < p.blockCount; ++i) {
    const uint8_t* data = core.UbRead(src.Range(), i * from, bytes);
    std::memmove(core.UbWrite(dst.Range(), i * to, bytes), data, bytes);
    if (core.Defined(src.Range(), i * from, bytes)) {
      core.Define(dst.Range(), i * to, bytes);
      continue;
    }
    for (uint64_t b = 0; b < bytes; b += sizeof(T)) {
      core.Defined(src.Range(), i * from + b, sizeof(T)) ? core.Define(dst.Range(), i * to + b, sizeof(T))
                                                         : core.Undefine(dst.Range(), i * to + b, sizeof(T));
    }
  }
}

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  const uint64_t blocks = twin_detail::WholeBlocks<T>(count) / twin::kUbBlock;
  DataCopy(dst, src, DataCopyParams(1, static_cast<uint16_t>(blocks), 0, 0));
}

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                 const DataCopyPadExtParams<T>& pad) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopyPad does not move this type");
  twin::Core::Current().Issue(PIPE_MTE2, "DataCopyPad");
  twin_detail::CheckBurstCount(p.blockCount);
  twin_detail::CheckPadLength(p.blockLen, sizeof(T));
  if (p.blockCount != 0 && p.blockLen != 0) {
    twin_detail::PadIn(dst, src,
                       {p.blockCount, p.blockLen, static_cast<uint64_t>(p.blockLen) + p.srcStride,
                        static_cast<uint64_t>(p.dstStride) * twin::kUbBlock},
                       pad.leftPadding, pad.rightPadding, pad.isPad, pad.paddingValue);
  }
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p) {
  static_assert(twin_detail::kCopyable<T>, "E-30: DataCopyPad does not move this type");
  twin::Core::Current().Issue(PIPE_MTE3, "DataCopyPad");
  twin_detail::CheckBurstCount(p.blockCount);
  twin_detail::CheckPadLength(p.blockLen, sizeof(T));
  if (p.blockCount != 0 && p.blockLen != 0) {
    twin_detail::CopyOut(dst, src,
                         {p.blockCount, p.blockLen, static_cast<uint64_t>(p.blockLen) + p.dstStride,
                          twin_detail::PaddedBytes(p.blockLen) + static_cast<uint64_t>(p.srcStride) * twin::kUbBlock});
  }
}

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                 const DataCopyPadParams& pad) {
  T value;
  std::memcpy(&value, &pad.paddingValue, sizeof(T));
  DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0),
              DataCopyPadExtParams<T>(pad.isPad, pad.leftPadding, pad.rightPadding, value));
}

template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p) {
  DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0));
}

template <typename T, CacheLine line, DcciDst destination = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor) {
  twin::Core::Current().CleanCache(tensor.GetPhyAddr(), line == CacheLine::ENTIRE_DATA_CACHE);
}

// The line that holds the byte `cacheOffset` bytes behind the tensor's start.
template <typename T>
void DataCachePreload(const GlobalTensor<uint64_t>& src, const T cacheOffset) {
  static_assert(kOneOf<T, int16_t, int64_t>, "E-30: cacheOffset is int16_t or int64_t");
  twin::Core::Current().PreloadCache(reinterpret_cast<const __gm__ uint8_t*>(src.GetPhyAddr()) + cacheOffset);
}

}  // namespace AscendC
