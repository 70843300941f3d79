#include "layer/cpu/by_tiles.h"
#include "layer/cpu/table.h"

namespace gr_ops::layer {

// Of 16-bit types two terms are enough of what is computed: 16 bits. A weight in float16 has two as well. Six products
// of tiles for one of float pay for wide rows alone.
KernelSet KernelSet::amx() {
  return {kernels<ByVectors<float, float>>(),       kernels<ByTiles<float, 3, 3>>(),
          kernels<ByVectors<double, double>>(),     kernels<ByTiles<hstu::Half, 2, 2>>(),
          kernels<ByTiles<hstu::BFloat16, 2, 1>>(), &dropout_mask};
}

}  // namespace gr_ops::layer
