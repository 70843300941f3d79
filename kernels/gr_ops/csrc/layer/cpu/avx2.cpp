#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet avx2_set() { return {kernels<float>(), kernels<double>()}; }

}  // namespace gr_ops::layer
