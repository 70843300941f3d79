#include "sampled_softmax/cpu/table.h"

namespace gr_ops::sampled_softmax {

KernelSet KernelSet::avx512() { return {kernels<float>(), kernels<double>()}; }

}  // namespace gr_ops::sampled_softmax
