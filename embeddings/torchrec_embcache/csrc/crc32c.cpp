#include "crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace embcache {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Slicing by 8: table k holds the CRC of a byte followed by k zero bytes.
Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t k = 1; k < 8; ++k) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 255];
    }
  }
  return tables;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t state = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    state = _mm_crc32_u64(state, word);
  }
  auto last = static_cast<uint32_t>(state);
  for (; size > 0; --size, ++bytes) last = _mm_crc32_u8(last, *bytes);
  return ~last;
}
#endif

}  // namespace

uint32_t crc32c_portable(uint32_t crc, const void* data, size_t size) {
  static const Tables tables = make_tables();
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint32_t next = 0;
    for (size_t k = 0; k < 8; ++k) {
      const uint32_t mixed = k < 4 ? (state >> (8 * k)) & 255 : 0;
      next ^= tables[7 - k][bytes[k] ^ mixed];
    }
    state = next;
  }
  for (; size > 0; --size, ++bytes) state = (state >> 8) ^ tables[0][(state ^ *bytes) & 255];
  return ~state;
}

uint32_t crc32c(uint32_t crc, const void* data, size_t size) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_sse42(crc, data, size);
#endif
  return crc32c_portable(crc, data, size);
}

}  // namespace embcache
