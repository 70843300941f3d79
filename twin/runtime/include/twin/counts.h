// What the twin's libraries report while TWIN_COUNTS names a file; docs/twin.md has the schema of its lines.
#pragma once
#include <cstdint>

#include "acl/acl.h"

extern "C" {

// False: nothing below need be called.
bool twinCounting(void);

// An ATen operator that the override ran for the program.
void twinCountAten(const char* name);

// The host got a value, or a size, from an ATen operator that the override ran: a wait on a device.
void twinCountValue(const char* name);

// What the emulated cores did in one launch of an operator: bytes of global memory read and written, and products
// (multiply-adds of the cube units).
void twinCountKernel(const char* name, uint64_t bytesRead, uint64_t bytesWritten, uint64_t products);

// Of the bytes of that launch those that an L2 of TWIN_COUNTS_L2 bytes lets through.
void twinCountHbm(const char* name, uint64_t bytesRead, uint64_t bytesWritten);

// `drain` ends what the program queued but the runtime has not seen yet; called where a step begins and ends.
void twinCountsDrain(void (*drain)(void));

// A step, by name; one that is still open ends. Without an open step EndStep does nothing.
void twinCountsBeginStep(const char* name);
void twinCountsEndStep(void);
}
