#pragma once

// A function is compiled for the baseline of the architecture and, on x86-64, for AVX2 and AVX-512; which one runs is
// chosen when the library is loaded. Vectors are the compiler's own: it splits those that a set does not have.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GR_OPS_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GR_OPS_VECTOR_CLONES
#endif
