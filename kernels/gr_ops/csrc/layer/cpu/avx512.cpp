#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet KernelSet::avx512() { return by_vectors(); }

}  // namespace gr_ops::layer
