#pragma once

#include <cstddef>
#include <cstdint>

namespace embcache {

// CRC-32C (Castagnoli, RFC 3720) of `size` bytes, continued from `crc`; 0 starts one.
uint32_t crc32c(uint32_t crc, const void* data, size_t size);

// The same without the processor's own instruction, for processors that have none and for tests.
uint32_t crc32c_portable(uint32_t crc, const void* data, size_t size);

}  // namespace embcache
