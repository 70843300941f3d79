// The same source for several instruction sets, chosen when the library is loaded.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=haswell", "default"), optimize("O3")))
#else
#define FOR_EACH_CPU __attribute__((optimize("O3")))
#endif
