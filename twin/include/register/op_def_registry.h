// Umbrella of the op_host API: definitions, contexts, platform.
#pragma once
#include <iostream>

#include "register/op_def.h"
#include "tiling/platform/platform_ascendc.h"
