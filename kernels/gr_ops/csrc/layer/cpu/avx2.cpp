#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet KernelSet::avx2() { return by_vectors(); }

}  // namespace gr_ops::layer
