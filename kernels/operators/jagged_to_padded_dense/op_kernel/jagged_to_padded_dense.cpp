// dense[b, s1..sK, :] = values[row] where the cell lies on the jagged tree, else the padding.
// Each core writes one contiguous share of the output, line by line; a line is the S_K cells of one (b, s1..s_{K-1}).
#include "kernel_operator.h"

#include "jagged_faults.h"
#include "jagged_offsets.h"
#include "jagged_writer.h"

template <typename T, typename Offset>
class JaggedToPaddedDenseKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR values, GM_ADDR offsets, GM_ADDR dense, GM_ADDR faults,
                              const JaggedTilingData& tiling) {
    tiling_ = tiling;
    tree_.Init(offsets, tiling);
    reporter_.Init(faults, fault::JAGGED_TO_PADDED_DENSE);
    AscendC::GlobalTensor<T> source;
    AscendC::GlobalTensor<T> target;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(values),
                           static_cast<uint64_t>(tiling.valueRows * tiling.innerSize));
    target.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense), static_cast<uint64_t>(tiling.totalElements));
    writer_.Init(pipe, source, target, tiling.tileBytes, tiling.fillBytes, tiling.fillPattern);
  }

  __aicore__ inline void Process() {
    if (!reporter_.Silent()) {
      jagged::LookAtOffsets(tree_, tiling_.dims, tiling_.valueRows, reporter_);
    }
    const int64_t first = AscendC::GetBlockIdx() * tiling_.elementsPerCore;
    const int64_t rest = tiling_.totalElements - first;
    const int64_t end = first + (rest < tiling_.elementsPerCore ? rest : tiling_.elementsPerCore);
    const int64_t lineElements = tiling_.maxLengths[tiling_.dims - 1] * tiling_.innerSize;
    int64_t at = first;
    while (at < end) {
      const int64_t line = at / lineElements;
      const int64_t lineStart = line * lineElements;
      const int64_t lineEnd = lineStart + lineElements < end ? lineStart + lineElements : end;
      WriteLine(line, lineStart, at, lineEnd);
      at = lineEnd;
    }
    writer_.Flush();
  }

 private:
  // Elements [from, to) of the line that starts at `lineStart`; rows beyond its end are cut off by `to`.
  __aicore__ inline void WriteLine(int64_t line, int64_t lineStart, int64_t from, int64_t to) {
    const jagged::Span rows = LineRows(line);
    const int64_t stored = (rows.end - rows.start) * tiling_.innerSize;
    const int64_t copyEnd = lineStart + stored < to ? lineStart + stored : to;
    if (from < copyEnd) {
      writer_.Copy(from, rows.start * tiling_.innerSize + (from - lineStart), copyEnd - from);
      from = copyEnd;
    }
    if (from < to) {
      writer_.Fill(from, to - from);
    }
  }

  // Rows of values behind a line, more than S_K perhaps; empty where the line is not on the tree.
  __aicore__ inline jagged::Span LineRows(int64_t line) const {
    const uint32_t last = tiling_.dims - 1;
    int64_t steps[JAGGED_MAX_DIMS];
    for (uint32_t k = last; k > 0; --k) {
      steps[k - 1] = line % tiling_.maxLengths[k - 1];
      line /= tiling_.maxLengths[k - 1];
    }
    int64_t node = line;
    jagged::Span none;
    none.start = 0;
    none.end = 0;
    for (uint32_t k = 0; k < last; ++k) {
      const jagged::Span children = tree_.Rows(k, node);
      if (steps[k] >= children.end - children.start) {
        return none;
      }
      node = children.start + steps[k];
    }
    return tree_.Rows(last, node);
  }

  JaggedTilingData tiling_;
  jagged::OffsetTree<Offset> tree_;
  fault::Reporter reporter_;
  jagged::RunWriter<T> writer_;
};

template <typename T>
__aicore__ inline void RunJaggedToPaddedDense(GM_ADDR values, GM_ADDR offsets, GM_ADDR dense, GM_ADDR faults,
                                              const JaggedTilingData& tiling) {
  AscendC::TPipe pipe;
  JaggedToPaddedDenseKernel<T, DTYPE_OFFSETS> kernel;
  kernel.Init(&pipe, values, offsets, dense, faults, tiling);
  kernel.Process();
}

// The tiling key is the width of an element in bytes: a copy does not care what the bits mean.
extern "C" __global__ __aicore__ void jagged_to_padded_dense(GM_ADDR values, GM_ADDR offsets, GM_ADDR faults,
                                                             GM_ADDR dense, GM_ADDR faults_out, GM_ADDR workspace,
                                                             GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(JaggedTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  if (TILING_KEY_IS(1)) {
    RunJaggedToPaddedDense<uint8_t>(values, offsets, dense, faults_out, tilingData);
  } else if (TILING_KEY_IS(2)) {
    RunJaggedToPaddedDense<uint16_t>(values, offsets, dense, faults_out, tilingData);
  } else if (TILING_KEY_IS(4)) {
    RunJaggedToPaddedDense<uint32_t>(values, offsets, dense, faults_out, tilingData);
  } else if (TILING_KEY_IS(8)) {
    RunJaggedToPaddedDense<uint64_t>(values, offsets, dense, faults_out, tilingData);
  }
}
