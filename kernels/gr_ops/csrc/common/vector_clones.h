#pragma once

// A function is compiled for the baseline of the architecture and, on x86-64, for AVX2 and AVX-512; which one runs is
// chosen when the library is loaded. Vectors are the compiler's own: it splits those that a set does not have.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GR_OPS_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GR_OPS_VECTOR_CLONES
#endif

// The same for a text that depends on the width of the set's registers: `name` is name_by<bytes of a register>, which
// is always inlined. Callers in other files would get the baseline's: such a function is its own file's.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GR_OPS_BY_REGISTER(name, parameters, ...)                                         \
  __attribute__((target("avx512f"))) void name parameters { name##_by<64>(__VA_ARGS__); } \
  __attribute__((target("avx2"))) void name parameters { name##_by<32>(__VA_ARGS__); }    \
  __attribute__((target("default"))) void name parameters { name##_by<16>(__VA_ARGS__); }
#else
#define GR_OPS_BY_REGISTER(name, parameters, ...) \
  void name parameters { name##_by<16>(__VA_ARGS__); }
#endif
