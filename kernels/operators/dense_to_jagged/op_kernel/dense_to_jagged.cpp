// values[row] = dense[b, s1..sK, :] for the cell behind each row of the jagged tree; zero for rows without a cell.
// Each core writes one contiguous share of the output, node by node; a node is a run of rows of the last level.
#include "kernel_operator.h"

#include "jagged_faults.h"
#include "jagged_offsets.h"
#include "jagged_writer.h"

template <typename T, typename Offset>
class DenseToJaggedKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR dense, GM_ADDR offsets, GM_ADDR values, GM_ADDR faults,
                              const JaggedTilingData& tiling) {
    tiling_ = tiling;
    last_ = tiling.dims - 1;
    tree_.Init(offsets, tiling);
    reporter_.Init(faults, fault::DENSE_TO_JAGGED);
    int64_t cells = tiling.nodes[0];
    for (uint32_t k = 0; k < tiling.dims; ++k) {
      cells *= tiling.maxLengths[k];
      cursor_[k] = 0;
    }
    AscendC::GlobalTensor<T> source;
    AscendC::GlobalTensor<T> target;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense), static_cast<uint64_t>(cells * tiling.innerSize));
    target.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(values), static_cast<uint64_t>(tiling.totalElements));
    writer_.Init(pipe, source, target, tiling.tileBytes, tiling.fillBytes, tiling.fillPattern);
  }

  __aicore__ inline void Process() {
    if (!reporter_.Silent()) {
      jagged::LookAtOffsets(tree_, tiling_.dims, -1, reporter_);
    }
    const int64_t first = AscendC::GetBlockIdx() * tiling_.elementsPerCore;
    const int64_t rest = tiling_.totalElements - first;
    const int64_t end = first + (rest < tiling_.elementsPerCore ? rest : tiling_.elementsPerCore);
    int64_t at = first;
    cursor_[last_] = tree_.Find(last_, first / tiling_.innerSize);
    while (at < end) {
      const int64_t next = WriteNode(at, end);
      at = next < end ? next : end;
    }
    writer_.Flush();
  }

 private:
  // Writes from element `at` to the end of its node, at most to `end`; returns where it stopped.
  __aicore__ inline int64_t WriteNode(int64_t at, int64_t end) {
    const int64_t row = at / tiling_.innerSize;
    const int64_t node = Seek(last_, row);
    if (node < 0) {
      return FillTo(at, tree_.At(last_, 0) * tiling_.innerSize, end);
    }
    const jagged::Span rows = tree_.Rows(last_, node);
    if (row >= rows.end) {
      return FillTo(at, end, end);
    }
    const int64_t line = LineOf(node);
    const int64_t step = row - rows.start;
    const int64_t nodeEnd = rows.end * tiling_.innerSize;
    if (line < 0 || step >= tiling_.maxLengths[last_]) {
      return FillTo(at, nodeEnd, end);
    }
    const int64_t stored = (rows.start + tiling_.maxLengths[last_]) * tiling_.innerSize;
    int64_t copyEnd = stored < nodeEnd ? stored : nodeEnd;
    copyEnd = copyEnd < end ? copyEnd : end;
    const int64_t cell = line * tiling_.maxLengths[last_] + step;
    writer_.Copy(at, cell * tiling_.innerSize + (at - row * tiling_.innerSize), copyEnd - at);
    return copyEnd;
  }

  __aicore__ inline int64_t FillTo(int64_t at, int64_t to, int64_t end) {
    const int64_t stop = to < end ? to : end;
    if (stop <= at) {  // offsets that decrease: whatever comes out, the loop must move on
      writer_.Fill(at, end - at);
      return end;
    }
    writer_.Fill(at, stop - at);
    return stop;
  }

  // The node of `row`. Rows are asked for in ascending order, so the cursor only moves forward.
  __aicore__ inline int64_t Seek(uint32_t level, int64_t row) {
    int64_t node = cursor_[level];
    while (node + 1 < tree_.Nodes(level) && tree_.At(level, node + 1) <= row) {
      ++node;
    }
    cursor_[level] = node;
    return node;
  }

  // The line of dense behind a node of the last level; -1 where dense has no such cell.
  __aicore__ inline int64_t LineOf(int64_t node) {
    int64_t line = 0;
    int64_t stride = 1;
    for (uint32_t k = last_; k > 0; --k) {
      const uint32_t level = k - 1;
      if (cursor_[level] >= 0 && tree_.At(level, cursor_[level]) > node) {
        cursor_[level] = tree_.Find(level, node);
      }
      const int64_t parent = Seek(level, node);
      if (parent < 0) {
        return -1;
      }
      const jagged::Span children = tree_.Rows(level, parent);
      const int64_t step = node - children.start;
      if (step < 0 || node >= children.end || step >= tiling_.maxLengths[level]) {
        return -1;
      }
      line += step * stride;
      stride *= tiling_.maxLengths[level];
      node = parent;
    }
    return line + node * stride;
  }

  JaggedTilingData tiling_;
  uint32_t last_;
  int64_t cursor_[JAGGED_MAX_DIMS];
  jagged::OffsetTree<Offset> tree_;
  fault::Reporter reporter_;
  jagged::RunWriter<T> writer_;
};

template <typename T>
__aicore__ inline void RunDenseToJagged(GM_ADDR dense, GM_ADDR offsets, GM_ADDR values, GM_ADDR faults,
                                        const JaggedTilingData& tiling) {
  AscendC::TPipe pipe;
  DenseToJaggedKernel<T, DTYPE_OFFSETS> kernel;
  kernel.Init(&pipe, dense, offsets, values, faults, tiling);
  kernel.Process();
}

// The tiling key is the width of an element in bytes: a copy does not care what the bits mean.
extern "C" __global__ __aicore__ void dense_to_jagged(GM_ADDR dense, GM_ADDR offsets, GM_ADDR faults, GM_ADDR values,
                                                      GM_ADDR faults_out, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(JaggedTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  if (TILING_KEY_IS(1)) {
    RunDenseToJagged<uint8_t>(dense, offsets, values, faults_out, tilingData);
  } else if (TILING_KEY_IS(2)) {
    RunDenseToJagged<uint16_t>(dense, offsets, values, faults_out, tilingData);
  } else if (TILING_KEY_IS(4)) {
    RunDenseToJagged<uint32_t>(dense, offsets, values, faults_out, tilingData);
  } else if (TILING_KEY_IS(8)) {
    RunDenseToJagged<uint64_t>(dense, offsets, values, faults_out, tilingData);
  }
}
