// Rows between GM and the unified buffer: gradients, weights and states in; weights and states, partial sums out.
#pragma once
#include "contribution.h"
#include "row_optimizer.h"

constexpr uint32_t MAX_GROUP = 32;
constexpr uint32_t TRAFFIC_BUFFERS = 2;
constexpr uint32_t PARTIALS_OF_GROUP = 2;  // a group ends at most one sum of the block before and one of its own

// The table of a key, and what its rows need.
class RowTables {
 public:
  __aicore__ inline void Init(const BackwardArguments& in,
                              const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    tiling_ = tiling;
    table_.Init(in.weightsOffsets, in.dOffsets, tiling.features, tiling.weightElements);
    columns_.Init(in.dOffsets, tiling.features + 1, sizeof(int32_t));
    keys_.Init(in.hashSizeCumsum, tiling.features + 1, sizeof(int64_t));
    momentum1_.Init(in.momentum1Offsets, tiling.features, sizeof(int64_t));
    momentum2_.Init(in.momentum2Offsets, tiling.features, sizeof(int64_t));
    first_ = 0;
    end_ = 0;
  }

  // False where the row's weights or states are not all inside their tensors.
  __aicore__ inline bool Select(int64_t key) {
    if (key < first_ || key >= end_) {
      Find(key);
    }
    row_ = key - first_;
    return row_ < rows_;
  }

  __aicore__ inline int64_t Width() const { return table_.Width(); }
  __aicore__ inline int64_t Weights() const { return table_.Base() + row_ * table_.Width(); }
  __aicore__ inline int64_t Momentum1() const { return momentum1Start_ + row_ * momentum1Width_; }
  __aicore__ inline int64_t Momentum2() const { return momentum2Start_ + row_ * table_.Width(); }

  // First column of a bag's gradient, and its position in the tensor.
  __aicore__ inline int64_t GradientOf(uint32_t source) {
    const int64_t at = static_cast<int64_t>(source);
    if (tiling_.pooling == embedding::POOL_NONE) {
      return at * tiling_.gradColumns;
    }
    const int64_t t = at / tiling_.batch;
    const int64_t column =
        embedding::Larger(0, embedding::Smaller(columns_.At(t), tiling_.gradColumns - table_.Width()));
    return (at - t * tiling_.batch) * tiling_.gradColumns + column;
  }

 private:
  // The feature with the greatest first key up to `key`.
  __aicore__ inline void Find(int64_t key) {
    int64_t feature = 0;
    first_ = -1;
    end_ = keys_.At(tiling_.features);
    for (int64_t t = 0; t < tiling_.features; ++t) {
      const int64_t start = keys_.At(t);
      if (start <= key && start > first_) {
        feature = t;
        first_ = start;
      } else if (start > key) {
        end_ = embedding::Smaller(end_, start);
      }
    }
    table_.Select(feature);
    rows_ = table_.Width() <= tiling_.maxWidth ? table_.Rows() : 0;
    momentum1Width_ = tiling_.optimizer == ROWWISE_ADAGRAD ? 1 : table_.Width();
    if (tiling_.optimizer != SGD) {
      momentum1Start_ = momentum1_.At(feature);
      Limit(momentum1Start_, momentum1Width_, tiling_.momentum1Elements);
    }
    if (tiling_.optimizer == ADAM) {
      momentum2Start_ = momentum2_.At(feature);
      Limit(momentum2Start_, table_.Width(), tiling_.momentum2Elements);
    }
  }

  __aicore__ inline void Limit(int64_t start, int64_t width, int64_t elements) {
    const bool inside = start >= 0 && start <= elements && width > 0;
    rows_ = inside ? embedding::Smaller(rows_, (elements - start) / width) : 0;
  }

  BackwardCodegenAdagradUnweightedExactTilingData tiling_;
  embedding::FeatureTable table_;
  embedding::Integers columns_;
  embedding::Integers keys_;
  embedding::Integers momentum1_;
  embedding::Integers momentum2_;
  int64_t first_;
  int64_t end_;
  int64_t row_;
  int64_t rows_;
  int64_t momentum1Start_;
  int64_t momentum1Width_;
  int64_t momentum2Start_;
};

// Parts of a buffer of the two queues, each `rows` slots.
template <typename T>
struct LoadedRows {
  AscendC::LocalTensor<uint8_t> bytes;
  AscendC::LocalTensor<T> weights;
  AscendC::LocalTensor<float> momentum1;
  AscendC::LocalTensor<float> momentum2;
};

template <typename T>
class RowTraffic {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardArguments& in,
                              const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    rows_ = tiling.groupRows;
    pitch_ = tiling.tileColumns;
    gradType_ = tiling.gradType;
    optimizer_ = tiling.optimizer;
    const bool rowwise = optimizer_ == ROWWISE_ADAGRAD;
    momentum1Pitch_ = rowwise ? SCALAR_LANES : pitch_;
    weightBytes_ = rows_ * pitch_ * static_cast<uint32_t>(sizeof(T));
    momentum1Bytes_ = optimizer_ == SGD ? 0 : rows_ * momentum1Pitch_ * static_cast<uint32_t>(sizeof(float));
    momentum2Bytes_ = optimizer_ == ADAM ? rows_ * pitch_ * static_cast<uint32_t>(sizeof(float)) : 0;
    gradBytes_ = rows_ * pitch_ * static_cast<uint32_t>(sizeof(float));
    const uint32_t stateBytes = weightBytes_ + momentum1Bytes_ + momentum2Bytes_;
    pipe->InitBuffer(loads_, TRAFFIC_BUFFERS, gradBytes_ + stateBytes);
    pipe->InitBuffer(stores_, TRAFFIC_BUFFERS,
                     stateBytes + PARTIALS_OF_GROUP * pitch_ * static_cast<uint32_t>(sizeof(float)));
    const uint64_t gradElements = static_cast<uint64_t>(tiling.gradRows * tiling.gradColumns);
    gradFloats_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.grad), gradElements);
    gradHalves_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(in.grad), gradElements);
    gradBfloats_.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(in.grad), gradElements);
    weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(in.weights), static_cast<uint64_t>(tiling.weightElements));
    momentum1_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.momentum1),
                               static_cast<uint64_t>(tiling.momentum1Elements));
    momentum2_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.momentum2),
                               static_cast<uint64_t>(tiling.momentum2Elements));
  }

  // Loads: Begin, any of the Load calls, End; Take gives the buffer to the vector unit.
  __aicore__ inline LoadedRows<T> Begin() { return Parts(loads_.template AllocTensor<uint8_t>(), gradBytes_); }
  __aicore__ inline void End(const LoadedRows<T>& rows) { loads_.EnQue(rows.bytes); }
  __aicore__ inline LoadedRows<T> Take() { return Parts(loads_.template DeQue<uint8_t>(), gradBytes_); }
  __aicore__ inline void Release(LoadedRows<T>& rows) { loads_.FreeTensor(rows.bytes); }

  __aicore__ inline void LoadGradient(const LoadedRows<T>& rows, uint32_t slot, int64_t at, int64_t columns) {
    if (gradType_ == embedding::ELEMENT_FLOAT) {
      Load(rows.bytes.template ReinterpretCast<float>()[slot * pitch_], gradFloats_, at, columns);
    } else if (gradType_ == embedding::ELEMENT_HALF) {
      Load(rows.bytes.template ReinterpretCast<half>()[slot * pitch_], gradHalves_, at, columns);
    } else {
      Load(rows.bytes.template ReinterpretCast<bfloat16_t>()[slot * pitch_], gradBfloats_, at, columns);
    }
  }

  // A row of fp32 sums from the workspace, in the place of a gradient.
  __aicore__ inline void LoadPartial(const LoadedRows<T>& rows, uint32_t slot, const AscendC::GlobalTensor<float>& from,
                                     int64_t at, int64_t columns) {
    Load(rows.bytes.template ReinterpretCast<float>()[slot * pitch_], from, at, columns);
  }

  __aicore__ inline void LoadWeights(const LoadedRows<T>& rows, uint32_t slot, const RowTables& table, int64_t column,
                                     int64_t columns) {
    Load(rows.weights[slot * pitch_], weights_, table.Weights() + column, columns);
  }

  __aicore__ inline void LoadState(const LoadedRows<T>& rows, uint32_t slot, const RowTables& table, int64_t column,
                                   int64_t columns) {
    if (optimizer_ == ROWWISE_ADAGRAD) {
      Load(rows.momentum1[slot * SCALAR_LANES], momentum1_, table.Momentum1(), 1);
    } else if (optimizer_ != SGD) {
      Load(rows.momentum1[slot * pitch_], momentum1_, table.Momentum1() + column, columns);
    }
    if (optimizer_ == ADAM) {
      Load(rows.momentum2[slot * pitch_], momentum2_, table.Momentum2() + column, columns);
    }
  }

  // fp32 gradients of a loaded group; `wide` is their place where they are of 2 bytes.
  __aicore__ inline AscendC::LocalTensor<float> Gradients(const LoadedRows<T>& rows,
                                                          const AscendC::LocalTensor<float>& wide, uint32_t count) {
    if (gradType_ == embedding::ELEMENT_FLOAT) {
      return rows.bytes.template ReinterpretCast<float>();
    }
    if (gradType_ == embedding::ELEMENT_HALF) {
      AscendC::Cast(wide, rows.bytes.template ReinterpretCast<half>(), AscendC::RoundMode::CAST_NONE, count * pitch_);
    } else {
      AscendC::Cast(wide, rows.bytes.template ReinterpretCast<bfloat16_t>(), AscendC::RoundMode::CAST_NONE,
                    count * pitch_);
    }
    AscendC::PipeBarrier<PIPE_V>();
    return wide;
  }

  // Stores: BeginStore, vector work into the parts, FinishStore, any of the Store calls, EndStore.
  __aicore__ inline LoadedRows<T> BeginStore() { return Parts(stores_.template AllocTensor<uint8_t>(), 0); }
  __aicore__ inline AscendC::LocalTensor<float> PartialSlot(const LoadedRows<T>& rows, uint32_t slot) {
    const uint32_t start = weightBytes_ + momentum1Bytes_ + momentum2Bytes_;
    return rows.bytes[start].template ReinterpretCast<float>()[slot * pitch_];
  }
  __aicore__ inline LoadedRows<T> FinishStore(const LoadedRows<T>& rows) {
    stores_.EnQue(rows.bytes);
    return Parts(stores_.template DeQue<uint8_t>(), 0);
  }
  __aicore__ inline void EndStore(LoadedRows<T>& rows) { stores_.FreeTensor(rows.bytes); }

  __aicore__ inline void StoreWeights(const LoadedRows<T>& rows, uint32_t slot, const RowTables& table, int64_t column,
                                      int64_t columns) {
    Store(weights_, table.Weights() + column, rows.weights[slot * pitch_], columns);
  }

  __aicore__ inline void StoreState(const LoadedRows<T>& rows, uint32_t slot, const RowTables& table, int64_t column,
                                    int64_t columns) {
    if (optimizer_ == ROWWISE_ADAGRAD) {
      Store(momentum1_, table.Momentum1(), rows.momentum1[slot * SCALAR_LANES], 1);
    } else if (optimizer_ != SGD) {
      Store(momentum1_, table.Momentum1() + column, rows.momentum1[slot * pitch_], columns);
    }
    if (optimizer_ == ADAM) {
      Store(momentum2_, table.Momentum2() + column, rows.momentum2[slot * pitch_], columns);
    }
  }

  template <typename E>
  __aicore__ inline static void Store(const AscendC::GlobalTensor<E>& to, int64_t at,
                                      const AscendC::LocalTensor<E>& from, int64_t columns) {
    AscendC::GlobalTensor<E> target = to[static_cast<uint64_t>(at)];
    AscendC::DataCopyPad(target, from,
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(columns) * sizeof(E), 0, 0, 0));
  }

 private:
  template <typename E>
  __aicore__ inline static void Load(const AscendC::LocalTensor<E>& to, const AscendC::GlobalTensor<E>& from,
                                     int64_t at, int64_t columns) {
    AscendC::DataCopyPad(to, from[static_cast<uint64_t>(at)],
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(columns) * sizeof(E), 0, 0, 0),
                         AscendC::DataCopyPadExtParams<E>(false, 0, 0, E()));
  }

  __aicore__ inline LoadedRows<T> Parts(const AscendC::LocalTensor<uint8_t>& bytes, uint32_t start) {
    LoadedRows<T> rows;
    rows.bytes = bytes;
    rows.weights = bytes[start].template ReinterpretCast<T>();
    rows.momentum1 = bytes[start + weightBytes_].template ReinterpretCast<float>();
    rows.momentum2 = bytes[start + weightBytes_ + momentum1Bytes_].template ReinterpretCast<float>();
    return rows;
  }

  AscendC::TQue<AscendC::TPosition::VECIN, TRAFFIC_BUFFERS> loads_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
  AscendC::GlobalTensor<float> gradFloats_;
  AscendC::GlobalTensor<half> gradHalves_;
  AscendC::GlobalTensor<bfloat16_t> gradBfloats_;
  AscendC::GlobalTensor<T> weights_;
  AscendC::GlobalTensor<float> momentum1_;
  AscendC::GlobalTensor<float> momentum2_;
  uint32_t rows_;
  uint32_t pitch_;
  uint32_t gradType_;
  uint32_t optimizer_;
  uint32_t momentum1Pitch_;
  uint32_t weightBytes_;
  uint32_t momentum1Bytes_;
  uint32_t momentum2Bytes_;
  uint32_t gradBytes_;
};
