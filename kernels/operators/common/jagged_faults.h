// Nested jagged offsets that cannot be right, told to the host (data_faults.h); jagged_offsets.h makes them safe. The
// cores share the entries of a level out.
#pragma once
#include "data_faults.h"
#include "jagged_offsets.h"

namespace jagged {

// rows: what the last level must stay within; less than 0: any.
template <typename Offset>
__aicore__ inline void LookAtOffsets(const OffsetTree<Offset>& tree, uint32_t levels, int64_t rows,
                                     fault::Reporter& reporter) {
  const int64_t cores = AscendC::GetBlockNum();
  const int64_t core = AscendC::GetBlockIdx();
  for (uint32_t k = 0; k < levels; ++k) {
    const int64_t argument = fault::LEVEL + k;
    const int64_t nodes = tree.Nodes(k);
    if (core == 0) {
      const int64_t first = tree.Given(k, 0);
      const int64_t last = tree.Given(k, nodes);
      if (first < 0) {
        reporter.Tell(fault::NEGATIVE, argument, 0, first, 0);
      }
      if (k + 1 < levels && last != tree.Nodes(k + 1)) {
        reporter.Tell(fault::NOT_THE_END, argument, nodes, last, tree.Nodes(k + 1));
      } else if (k + 1 == levels && rows >= 0 && last > rows) {
        reporter.Tell(fault::BEYOND, argument, nodes, last, rows);
      }
    }
    const int64_t end = nodes * (core + 1) / cores;
    for (int64_t node = nodes * core / cores; node < end && !reporter.Silent(); ++node) {
      const int64_t start = tree.Given(k, node);
      const int64_t stop = tree.Given(k, node + 1);
      if (stop < start) {
        reporter.Tell(fault::DECREASES, argument, node + 1, stop, start);
      }
    }
  }
}

}  // namespace jagged
