// The same source for several instruction sets, chosen when the library is loaded: by what the processor has, where
// "arch=haswell" would be taken on processors of that name only.
#pragma once

#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((optimize("O3")))
#else
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#endif
