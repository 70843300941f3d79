#include "layer/cpu/table.h"

namespace gr_ops::layer {

KernelSet KernelSet::baseline() { return {kernels<float>(), kernels<double>(), &dropout_mask}; }

}  // namespace gr_ops::layer
