// The same source for several instruction sets, chosen when the library is loaded: by what the processor has, where
// "arch=haswell" would be taken on processors of that name only.
#pragma once

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((optimize("O3")))
#else
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#endif

// The same for a text that depends on the width of the set's registers: `name` is NameBy<bytes of a register>, which is
// always inlined. Only for functions of one file.
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BY_REGISTER(name, parameters, ...) \
  FOR_EACH_CPU void name parameters { name##By<16>(__VA_ARGS__); }
#else
#define BY_REGISTER(name, parameters, ...)                                                                      \
  __attribute__((target("arch=x86-64-v4"), optimize("O3"))) void name parameters { name##By<64>(__VA_ARGS__); } \
  __attribute__((target("arch=x86-64-v3"), optimize("O3"))) void name parameters { name##By<32>(__VA_ARGS__); } \
  __attribute__((target("default"), optimize("O3"))) void name parameters { name##By<16>(__VA_ARGS__); }
#endif
