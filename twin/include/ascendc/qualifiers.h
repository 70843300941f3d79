// Qualifiers of the kernel language. They mean nothing to g++, which builds what the emulated cores run; with
// TWIN_ADDRESS_SPACES clang compiles a kernel once more, each memory an address space of its own, so that a pointer of
// the wrong one is an error (opbuild/address_spaces.py).
#pragma once

#define __global__
#define __aicore__
#ifdef TWIN_ADDRESS_SPACES
#define __gm__ __attribute__((address_space(1)))
#define __ubuf__ __attribute__((address_space(2)))
#define __cbuf__ __attribute__((address_space(3)))
#define __ca__ __attribute__((address_space(4)))
#define __cb__ __attribute__((address_space(5)))
#define __cc__ __attribute__((address_space(6)))
#else
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#endif
