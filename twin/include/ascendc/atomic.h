// Atomic modes of the transfers to global memory.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

namespace twin_detail {

template <typename T>
inline constexpr bool kAccumulates = kOneOf<T, int8_t, int16_t, int32_t, half, bfloat16_t, float>;

// A number per element type, so that a transfer of another type than the mode's is seen.
template <typename T>
constexpr int AtomicType() {
  return std::is_same<T, int8_t>::value    ? 0
         : std::is_same<T, int16_t>::value ? 1
         : std::is_same<T, int32_t>::value ? 2
         : std::is_same<T, half>::value    ? 3
         : std::is_same<T, float>::value   ? 4
                                           : 5;
}

template <typename T>
T Combined(T old, T value, twin::AtomicMode mode) {
  if constexpr (std::is_same<T, bfloat16_t>::value) {
    return ToBfloat16(Combined(ToFloat(old), ToFloat(value), mode));
  } else if constexpr (std::is_integral<T>::value) {
    switch (mode) {
      case twin::AtomicMode::Add:
        return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(value));
      case twin::AtomicMode::Max:
        return old > value ? old : value;
      default:
        return old < value ? old : value;
    }
  } else {
    switch (mode) {
      case twin::AtomicMode::Add:
        return static_cast<T>(old + value);
      case twin::AtomicMode::Max:
        return old > value ? old : value;
      default:
        return old < value ? old : value;
    }
  }
}

template <typename T>
void Accumulate(__gm__ uint8_t* address, const uint8_t* from, uint64_t bytes) {
  auto& core = twin::Core::Current();
  if constexpr (!kAccumulates<T>) {
    core.Trap("E-30", "an atomic transfer of elements that have no atomic operation");
  } else {
    if (core.AtomicType() != AtomicType<T>()) {
      core.Trap("E-30", "the atomic mode was set for another element type than the transfer's");
    }
    uint8_t* to = core.GmAccumulate(address, bytes);
    for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
      T old;
      T value;
      std::memcpy(&old, to + at, sizeof(T));
      std::memcpy(&value, from + at, sizeof(T));
      const T result = Combined(old, value, core.Atomic());
      std::memcpy(to + at, &result, sizeof(T));
    }
  }
}

template <typename T>
void SetAtomic(twin::AtomicMode mode) {
  static_assert(kAccumulates<T>, "E-30: this type has no atomic operation");
  twin::Core::Current().SetAtomic(mode, AtomicType<T>());
}

}  // namespace twin_detail

template <typename T>
void SetAtomicAdd() {
  twin_detail::SetAtomic<T>(twin::AtomicMode::Add);
}

template <typename T>
void SetAtomicMax() {
  twin_detail::SetAtomic<T>(twin::AtomicMode::Max);
}

template <typename T>
void SetAtomicMin() {
  twin_detail::SetAtomic<T>(twin::AtomicMode::Min);
}

template <typename T>
void SetAtomicType() {
  twin_detail::SetAtomic<T>(twin::Core::Current().Atomic());
}

inline void SetAtomicNone() { twin::Core::Current().SetAtomic(twin::AtomicMode::None, -1); }
inline void DisableDmaAtomic() { SetAtomicNone(); }

}  // namespace AscendC
