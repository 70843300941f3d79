#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet KernelSet::baseline() { return by_vectors(); }

}  // namespace gr_ops::layer
