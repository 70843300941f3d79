// Device types, qualifiers and enumerations of the kernel language.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ascendc/core.h"
#include "ascendc/qualifiers.h"

#define GM_ADDR __gm__ uint8_t*
#define ASCEND_IS_AIV constexpr(true)
#define ASCEND_IS_AIC constexpr(false)
#define ASCEND_IS_NOT_AIV constexpr(false)
#define ASCEND_IS_NOT_AIC constexpr(true)

using half = _Float16;

using float16_t = half;
using float32_t = float;

// Numbers are converted on demand only, as T(0) in a template; back to float by ToFloat.
struct bfloat16_t {
  bfloat16_t() = default;
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  explicit bfloat16_t(T value) : bits(Round(static_cast<float>(value))) {}

  uint16_t bits;

 private:
  static uint16_t Round(float value) {
    uint32_t image;
    std::memcpy(&image, &value, sizeof(image));
    if ((image & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<uint16_t>((image >> 16) | 0x40u);
    }
    return static_cast<uint16_t>((image + 0x7fffu + ((image >> 16) & 1u)) >> 16);
  }
};

// The device's compiler has these of numbers. A kernel's own functions of these names go first.
template <typename T, typename... None>
constexpr typename std::enable_if<std::is_arithmetic<T>::value && sizeof...(None) == 0, T>::type min(T a, T b,
                                                                                                     None...) {
  return b < a ? b : a;
}
template <typename T, typename... None>
constexpr typename std::enable_if<std::is_arithmetic<T>::value && sizeof...(None) == 0, T>::type max(T a, T b,
                                                                                                     None...) {
  return a < b ? b : a;
}

enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace AscendC {

using TEventID = int8_t;
using TTagType = int32_t;

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  MAX
};
using QuePosition = TPosition;

enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  MTE2_M,
  M_MTE2,
  V_MTE1,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_FIX,
  FIX_MTE2,
  FIX_S,
  M_S,
  FIX_MTE3,
  MTE1_FIX,
  FIX_MTE1,
  FIX_FIX,
  MAX
};

struct EventPipes {
  pipe_t from;
  pipe_t to;
};

constexpr EventPipes kEventPipes[] = {
    {PIPE_MTE2, PIPE_MTE1}, {PIPE_MTE1, PIPE_MTE2}, {PIPE_MTE1, PIPE_M},  {PIPE_M, PIPE_MTE1},
    {PIPE_MTE2, PIPE_V},    {PIPE_V, PIPE_MTE2},    {PIPE_MTE3, PIPE_V},  {PIPE_V, PIPE_MTE3},
    {PIPE_M, PIPE_V},       {PIPE_V, PIPE_M},       {PIPE_V, PIPE_V},     {PIPE_MTE3, PIPE_MTE1},
    {PIPE_MTE1, PIPE_MTE3}, {PIPE_MTE1, PIPE_V},    {PIPE_MTE2, PIPE_M},  {PIPE_M, PIPE_MTE2},
    {PIPE_V, PIPE_MTE1},    {PIPE_M, PIPE_FIX},     {PIPE_FIX, PIPE_M},   {PIPE_MTE3, PIPE_MTE2},
    {PIPE_MTE2, PIPE_MTE3}, {PIPE_S, PIPE_V},       {PIPE_V, PIPE_S},     {PIPE_S, PIPE_MTE2},
    {PIPE_MTE2, PIPE_S},    {PIPE_S, PIPE_MTE3},    {PIPE_MTE3, PIPE_S},  {PIPE_MTE2, PIPE_FIX},
    {PIPE_FIX, PIPE_MTE2},  {PIPE_FIX, PIPE_S},     {PIPE_M, PIPE_S},     {PIPE_FIX, PIPE_MTE3},
    {PIPE_MTE1, PIPE_FIX},  {PIPE_FIX, PIPE_MTE1},  {PIPE_FIX, PIPE_FIX},
};

constexpr bool OnVectorCore(HardEvent event) {
  const auto vector = [](pipe_t p) { return p == PIPE_S || p == PIPE_V || p == PIPE_MTE2 || p == PIPE_MTE3; };
  const auto pipes = kEventPipes[static_cast<int>(event)];
  return vector(pipes.from) && vector(pipes.to);
}

enum class RoundMode { CAST_NONE = 0, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class MemDsbT { ALL = 0, DDR, UB, SEQ };

inline float ToFloat(const bfloat16_t& value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }

inline constexpr uint32_t DivCeil(uint32_t a, uint32_t b) { return b == 0 ? 0 : (a + b - 1) / b; }
inline constexpr uint32_t AlignUp(uint32_t a, uint32_t b) { return DivCeil(a, b) * b; }
inline constexpr int32_t CeilDivision(int32_t a, int32_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

// Sizes of the vector unit, in bytes, and its default strides.
constexpr int32_t DEFAULT_BLOCK_SIZE = 256;
constexpr int32_t DEFAULT_BLK_NUM = 8;
constexpr int32_t DEFAULT_BLK_STRIDE = 1;
constexpr int32_t DEFAULT_REPEAT_STRIDE = 8;
constexpr uint32_t DEFAULT_C0_SIZE = 32;
constexpr int32_t ONE_BLK_SIZE = 32;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;

template <typename T, typename... Ts>
inline constexpr bool kOneOf = (std::is_same<T, Ts>::value || ...);

}  // namespace AscendC
