// grad_x[j] = the sum of grad_y[i] over index[i] == j, in float, rounded once; grad_index = 0.
// Key 1: every core sums a share of the index into a private image of x; all meet, and each adds up one share of x over
// the images, in the order of the cores. Key 2: every core owns slices of x and sums what the index has for them.
// Neither uses atomics: the same bits come out of every run.
#include "kernel_operator.h"

#include "index_select_for_rank1_backward_tiling.h"
#include "index_tiles.h"

constexpr uint32_t ADD_ELEMENTS = 2048;   // floats of an image that are added together
constexpr int64_t IMAGE_ALIGNMENT = 128;  // floats, so that every image starts on a 512-byte border

template <typename T, typename Index>
class GatherGradKernel {
 public:
  static constexpr bool WIDENED = rank1::IndexTiles<T, Index>::WIDENED;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR gradY, GM_ADDR index, GM_ADDR gradX, GM_ADDR gradIndex,
                              GM_ADDR workspace, const IndexSelectForRank1BackwardTilingData& tiling) {
    tiling_ = tiling;
    imageSize_ = (tiling.length + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
    gradX_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradX), static_cast<uint64_t>(tiling.length));
    gradIndex_.SetGlobalBuffer(reinterpret_cast<__gm__ Index*>(gradIndex), static_cast<uint64_t>(tiling.count));
    images_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace),
                            static_cast<uint64_t>(AscendC::GetBlockNum() * imageSize_));
    tiles_.Init(pipe, gradY, index, tiling.count, tiling.tileElements);
    pipe->InitBuffer(sums_, tiling.sumElements * sizeof(float));
    pipe->InitBuffer(image_, 2, ADD_ELEMENTS * sizeof(float));
    pipe->InitBuffer(result_, 2, ADD_ELEMENTS * sizeof(T));
    if constexpr (WIDENED) {
      pipe->InitBuffer(total_, ADD_ELEMENTS * sizeof(float));
    }
  }

  __aicore__ inline void SumByImages() {
    const int64_t first = AscendC::GetBlockIdx() * tiling_.countPerCore;
    const int64_t end = Smaller(first + tiling_.countPerCore, tiling_.count);
    const AscendC::LocalTensor<float> sums = Cleared(tiling_.length);
    tiles_.AddTo(sums, 0, tiling_.length, first, end);
    rank1::Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(images_[static_cast<uint64_t>(AscendC::GetBlockIdx() * imageSize_)], sums,
                         rank1::Burst(static_cast<uint32_t>(tiling_.length), sizeof(float)));
    ClearGradIndex();
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();

    const int64_t start = AscendC::GetBlockIdx() * tiling_.lengthPerCore;
    const int64_t stop = Smaller(start + tiling_.lengthPerCore, tiling_.length);
    for (int64_t at = start; at < stop; at += ADD_ELEMENTS) {
      AddImages(at, static_cast<uint32_t>(Smaller(stop - at, ADD_ELEMENTS)));
    }
  }

  __aicore__ inline void SumBySlices() {
    const int64_t start = AscendC::GetBlockIdx() * tiling_.lengthPerCore;
    const int64_t stop = Smaller(start + tiling_.lengthPerCore, tiling_.length);
    for (int64_t low = start; low < stop; low += tiling_.sumElements) {
      const int64_t size = Smaller(stop - low, tiling_.sumElements);
      const AscendC::LocalTensor<float> sums = Cleared(size);
      if (tiling_.sorted != 0) {
        tiles_.AddTo(sums, low, size, FirstEntry(low), FirstEntry(low + size));
      } else {
        tiles_.AddTo(sums, low, size, 0, tiling_.count);
      }
      StoreSlice(sums, low, size);
    }
    ClearGradIndex();
  }

 private:
  static __aicore__ inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  __aicore__ inline AscendC::LocalTensor<float> Cleared(int64_t elements) {
    AscendC::LocalTensor<float> sums = sums_.template Get<float>();
    AscendC::Duplicate<float>(sums, 0.0f, static_cast<int32_t>(elements));
    rank1::Fence<AscendC::HardEvent::V_S>();
    return sums;
  }

  // The first entry of a sorted index that is not below `value`.
  __aicore__ inline int64_t FirstEntry(int64_t value) const {
    int64_t low = 0;
    int64_t high = tiling_.count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (tiles_.IndexAt(middle) < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // One share of x: the images in the order of the cores.
  __aicore__ inline void AddImages(int64_t at, uint32_t count) {
    AscendC::LocalTensor<T> result = result_.template AllocTensor<T>();
    AscendC::LocalTensor<float> total;
    if constexpr (WIDENED) {
      total = total_.template Get<float>();
    } else {
      total = result;
    }
    AscendC::Duplicate<float>(total, 0.0f, static_cast<int32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    for (int64_t block = 0; block < AscendC::GetBlockNum(); ++block) {
      AscendC::LocalTensor<float> image = image_.template AllocTensor<float>();
      AscendC::DataCopyPad(image, images_[static_cast<uint64_t>(block * imageSize_ + at)],
                           rank1::Burst(count, sizeof(float)), AscendC::DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
      image_.EnQue(image);
      image = image_.template DeQue<float>();
      AscendC::Add(total, total, image, static_cast<int32_t>(count));
      AscendC::PipeBarrier<PIPE_V>();
      image_.FreeTensor(image);
    }
    if constexpr (WIDENED) {
      AscendC::Cast(result, total, AscendC::RoundMode::CAST_RINT, count);
      AscendC::PipeBarrier<PIPE_V>();
    }
    Store(result, at, count);
  }

  __aicore__ inline void StoreSlice(const AscendC::LocalTensor<float>& sums, int64_t low, int64_t size) {
    rank1::Fence<AscendC::HardEvent::S_V>();
    for (int64_t done = 0; done < size; done += ADD_ELEMENTS) {
      const uint32_t count = static_cast<uint32_t>(Smaller(size - done, ADD_ELEMENTS));
      AscendC::LocalTensor<T> result = result_.template AllocTensor<T>();
      const AscendC::LocalTensor<float> part = sums[static_cast<uint32_t>(done)];
      if constexpr (WIDENED) {
        AscendC::Cast(result, part, AscendC::RoundMode::CAST_RINT, count);
      } else {
        AscendC::Muls(result, part, 1.0f, static_cast<int32_t>(count));
      }
      AscendC::PipeBarrier<PIPE_V>();
      Store(result, low + done, count);
    }
  }

  __aicore__ inline void Store(AscendC::LocalTensor<T>& result, int64_t at, uint32_t count) {
    result_.EnQue(result);
    result = result_.template DeQue<T>();
    AscendC::DataCopyPad(gradX_[static_cast<uint64_t>(at)], result, rank1::Burst(count, sizeof(T)));
    result_.FreeTensor(result);
  }

  // A buffer of the queue serves as the source of zeros.
  __aicore__ inline void ClearGradIndex() {
    const int64_t first = AscendC::GetBlockIdx() * tiling_.countPerCore;
    const int64_t end = Smaller(first + tiling_.countPerCore, tiling_.count);
    const uint32_t bytes = ADD_ELEMENTS * static_cast<uint32_t>(sizeof(float));
    const int64_t perCopy = bytes / sizeof(Index);
    AscendC::LocalTensor<float> zeros = image_.template AllocTensor<float>();
    AscendC::Duplicate<float>(zeros, 0.0f, static_cast<int32_t>(ADD_ELEMENTS));
    rank1::Fence<AscendC::HardEvent::V_MTE3>();
    for (int64_t at = first; at < end; at += perCopy) {
      AscendC::DataCopyPad(gradIndex_[static_cast<uint64_t>(at)], zeros.template ReinterpretCast<Index>(),
                           rank1::Burst(static_cast<uint32_t>(Smaller(end - at, perCopy)), sizeof(Index)));
    }
    rank1::Fence<AscendC::HardEvent::MTE3_MTE2>();
    image_.FreeTensor(zeros);
  }

  IndexSelectForRank1BackwardTilingData tiling_;
  int64_t imageSize_;
  rank1::IndexTiles<T, Index> tiles_;
  AscendC::GlobalTensor<T> gradX_;
  AscendC::GlobalTensor<Index> gradIndex_;
  AscendC::GlobalTensor<float> images_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sums_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> image_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> result_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> total_;
};

extern "C" __global__ __aicore__ void index_select_for_rank1_backward(GM_ADDR grad_y, GM_ADDR x, GM_ADDR index,
                                                                      GM_ADDR grad_x, GM_ADDR grad_index,
                                                                      GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(IndexSelectForRank1BackwardTilingData);
  GET_TILING_DATA(tilingData, tiling);
  KERNEL_TASK_TYPE(1, KERNEL_TYPE_MIX_AIV_1_0);
  KERNEL_TASK_TYPE(2, KERNEL_TYPE_AIV_ONLY);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  GatherGradKernel<DTYPE_GRAD_Y, DTYPE_INDEX> kernel;
  kernel.Init(&pipe, grad_y, index, grad_x, grad_index, user, tilingData);
  if (TILING_KEY_IS(1)) {
    kernel.SumByImages();
  } else if (TILING_KEY_IS(2)) {
    kernel.SumBySlices();
  }
}
