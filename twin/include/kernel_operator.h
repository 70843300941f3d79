// The kernel language on the twin: a vector core in a CPU process.
#pragma once
#include "ascendc/atomic.h"
#include "ascendc/copy.h"
#include "ascendc/gather.h"
#include "ascendc/pipe.h"
#include "ascendc/select.h"
#include "ascendc/sync.h"
#include "ascendc/tensor.h"
#include "ascendc/tiling.h"
#include "ascendc/types.h"
#include "ascendc/vector.h"
