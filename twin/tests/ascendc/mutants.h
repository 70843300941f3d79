// Broken kernels. Each breaks one rule of table E; the test names the rule that must be reported.
#pragma once
#include "kernels.h"

namespace cases {

struct Bench {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  LocalTensor<float> t;

  Bench() {
    pipe.InitBuffer(buffer, TILE * sizeof(float));
    t = buffer.Get<float>();
  }
};

inline DataCopyExtParams Burst(uint32_t elements) {
  return DataCopyExtParams(1, elements * static_cast<uint32_t>(sizeof(float)), 0, 0, 0);
}

inline void LoadTile(const LocalTensor<float>& t, const GlobalTensor<float>& x) {
  DataCopyPad(t, x, Burst(64), DataCopyPadExtParams<float>(false, 0, 0, 0));
}

inline void MisalignedUb(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  LoadTile(b.t[3], s.x);
}

inline void TailLostByDataCopy(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  DataCopy(b.t, s.x, 61);
}

inline void TooMuchUb(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 3, 64 * 1024 + 32);
}

inline void TooManyBuffers(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 65, 32);
}

inline void TooManyLive(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 9, 32);
  for (int i = 0; i < 9; ++i) {
    in.AllocTensor<float>();
  }
}

inline void AllocWithoutFree(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 32);
  in.AllocTensor<float>();
  in.AllocTensor<float>();
}

inline void EnQueBeyondDepth(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 2, 32);
  LocalTensor<float> first = in.AllocTensor<float>();
  LocalTensor<float> second = in.AllocTensor<float>();
  in.EnQue(first);
  in.EnQue(second);
}

inline void DeQueEmpty(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 32);
  in.DeQue<float>();
}

inline void FreeTwice(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 32);
  LocalTensor<float> t = in.AllocTensor<float>();
  in.FreeTensor(t);
  in.FreeTensor(t);
}

inline void FreeInOtherQueue(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, 32);
  pipe.InitBuffer(out, 1, 32);
  LocalTensor<float> t = in.AllocTensor<float>();
  out.FreeTensor(t);
}

inline void EventIdOutOfRange(const Arguments&) {
  Bench b;
  SetFlag<HardEvent::V_MTE3>(8);
}

inline void EventNotReleased(const Arguments&) {
  Bench b;
  b.pipe.AllocEventID<HardEvent::V_MTE3>();
}

inline void VectorBeforeLoad(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  LoadTile(b.t, s.x);
  Adds(b.t, b.t, 1.0f, 64);
}

inline void StoreBeforeVector(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  DataCopyPad(s.y, b.t, Burst(64));
}

inline void LoadOverStore(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
  LoadTile(b.t, s.x);
}

inline void ScalarBeforeVector(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  ASSERT(b.t.GetValue(0) == 1.0f);
}

inline void StoreBeforeScalar(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  b.t.SetValue(0, 1.0f);
  DataCopyPad(s.y, b.t, Burst(1));
}

inline void FlagOfOtherPipes(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  LoadTile(b.t, s.x);
  SetFlag<HardEvent::MTE2_MTE3>(0);
  WaitFlag<HardEvent::MTE2_MTE3>(0);
  Adds(b.t, b.t, 1.0f, 64);
}

inline void WaitWithoutSet(const Arguments&) {
  Bench b;
  WaitFlag<HardEvent::V_MTE3>(0);
}

inline void SetTwice(const Arguments&) {
  Bench b;
  SetFlag<HardEvent::V_MTE3>(0);
  SetFlag<HardEvent::V_MTE3>(0);
}

inline void SetLeftOver(const Arguments&) {
  Bench b;
  SetFlag<HardEvent::V_MTE3>(0);
}

inline void TwoLoadsOneBuffer(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  LoadTile(b.t, s.x);
  LoadTile(b.t, s.x[64]);
}

inline void TwoStoresOnePlace(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
  DataCopyPad(s.y, b.t, Burst(64));
}

inline void BurstTooLong(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  DataCopyPad(b.t, s.x, DataCopyExtParams(1, 2097152, 0, 0, 0), DataCopyPadExtParams<float>(false, 0, 0, 0));
}

inline void TooMuchPadding(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  DataCopyPad(b.t, s.x, Burst(8), DataCopyPadExtParams<float>(true, 9, 0, 0));
}

inline void StoreOfUndefined(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  DataCopyPad(s.y, b.t, Burst(8));
}

// The filler after the 61st element is not data, though it came through a vector instruction.
inline void StoreOfFiller(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  DataCopyPad(b.t, s.x, Burst(61), DataCopyPadExtParams<float>(false, 0, 0, 0));
  PipeBarrier<PIPE_ALL>();
  Adds(b.t, b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
}

inline void BranchOnUndefined(const Arguments&) {
  Bench b;
  ASSERT(b.t.GetValue(0) == 0.0f);
}

inline void ReadPastTensor(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  GlobalTensor<float> x;
  x.SetGlobalBuffer(reinterpret_cast<float*>(a.x));
  LoadTile(b.t, x[static_cast<uint64_t>(s.elements) * static_cast<uint64_t>(GetBlockNum()) - 63]);
}

inline void ReadPastStatedSize(const Arguments& a) {
  Bench b;
  LoadTile(b.t, Floats(a.x, 63));
}

inline void WriteInput(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.x, b.t, Burst(64));
}

inline void ScalarWritesShareALine(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const uint64_t blocks = static_cast<uint64_t>(GetBlockNum());
  GlobalTensor<float> words = Floats(GetUserWorkspace(a.workspace), blocks);
  words.SetValue(static_cast<uint64_t>(GetBlockIdx()), 1.0f);
}

inline void StaleScalarRead(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Bench b;
  GlobalTensor<float> words = Floats(GetUserWorkspace(a.workspace), 64);
  words.GetValue(0);
  SyncAll();
  if (GetBlockIdx() == 0) {
    Duplicate(b.t, 7.0f, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(words, b.t, Burst(1));
    PipeBarrier<PIPE_ALL>();
  }
  SyncAll();
  ASSERT(words.GetValue(0) == 7.0f);
}

// Neighbours write overlapping stretches of y.
inline void OverlappingShares(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  GlobalTensor<float> y;
  y.SetGlobalBuffer(reinterpret_cast<float*>(a.y));
  DataCopyPad(y[static_cast<uint64_t>(GetBlockIdx()) * 32], b.t, Burst(64));
}

inline void ReadBeforeMeeting(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const uint64_t blocks = static_cast<uint64_t>(GetBlockNum());
  GlobalTensor<float> tokens = Floats(GetUserWorkspace(a.workspace), blocks * 8);
  Bench b;
  Duplicate(b.t, 1.0f, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(tokens[static_cast<uint64_t>(GetBlockIdx()) * 8], b.t, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(b.t[64], tokens[(static_cast<uint64_t>(GetBlockIdx()) + 1) % blocks * 8], 8);
}

// The token may still be on its way when the others go on.
inline void MeetingBeforeStoreEnds(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const uint64_t blocks = static_cast<uint64_t>(GetBlockNum());
  GlobalTensor<float> tokens = Floats(GetUserWorkspace(a.workspace), blocks * 8);
  Bench b;
  Duplicate(b.t, 1.0f, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(tokens[static_cast<uint64_t>(GetBlockIdx()) * 8], b.t, 8);
  SyncAll();
  DataCopy(b.t[64], tokens[(static_cast<uint64_t>(GetBlockIdx()) + 1) % blocks * 8], 8);
}

inline void MeetingOfSome(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  if (GetBlockIdx() != 0) {
    SyncAll();
  }
}

inline void MeetingWithoutMixType(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  SyncAll();
}

inline void MeetingOfBoth(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  SyncAll<false>();
}

inline void Meeting(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  SyncAll();
}

inline void RepeatTooLarge(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<uint64_t>(64), 256, 1, 8);
}

inline void MaskTooLarge(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<uint64_t>(65), 1, 1, 8);
}

inline void VectorPastBuffer(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<int32_t>(TILE) + 1);
}

inline void ShiftedOverlap(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 128);
  Adds(b.t[8], b.t, 1.0f, 64);
}

inline void OtherTilingClass(const Arguments& a) {
  GET_TILING_DATA_WITH_STRUCT(uint64_t, value, a.tiling);
  struct Larger {
    uint64_t words[2];
  };
  GET_TILING_DATA_WITH_STRUCT(Larger, larger, a.tiling);
  ASSERT(value == larger.words[0]);
}

inline void QueueTensorNotFreed(const Arguments&) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 32);
  in.AllocTensor<float>();
}

inline void ScalarPastTensor(const Arguments&) {
  Bench b;
  b.t.SetValue(TILE, 1.0f);
}

inline void TwoPipes(const Arguments&) {
  TPipe first;
  TPipe second;
}

// Offsets 0, `step`, 2 * `step`... for a gather of eight elements.
inline LocalTensor<uint32_t> GatherOffsets(TBuf<TPosition::VECCALC>& buffer, uint32_t step) {
  const LocalTensor<uint32_t> offsets = buffer.Get<uint32_t>();
  for (uint32_t i = 0; i < 8; ++i) {
    offsets.SetValue(i, i * step);
  }
  PipeBarrier<PIPE_ALL>();
  return offsets;
}

inline void GatherWith(const Arguments& a, uint32_t step, bool inPlace) {
  const Share s = ShareOf(a);
  Bench b;
  TBuf<TPosition::VECCALC> more[2];
  b.pipe.InitBuffer(more[0], TILE * sizeof(float));
  b.pipe.InitBuffer(more[1], TILE * sizeof(uint32_t));
  LoadTile(b.t, s.x);
  const LocalTensor<uint32_t> offsets = GatherOffsets(more[1], step);
  Gather(inPlace ? b.t[8] : more[0].Get<float>(), b.t, offsets, 0, 8);
}

inline void GatherBetweenElements(const Arguments& a) { GatherWith(a, 2, false); }
inline void GatherPastTensor(const Arguments& a) { GatherWith(a, 1024, false); }
inline void GatherInPlace(const Arguments& a) { GatherWith(a, 4, true); }

inline void GatherByUndefinedOffsets(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  TBuf<TPosition::VECCALC> more[2];
  b.pipe.InitBuffer(more[0], TILE * sizeof(float));
  b.pipe.InitBuffer(more[1], TILE * sizeof(uint32_t));
  LoadTile(b.t, s.x);
  PipeBarrier<PIPE_ALL>();
  Gather(more[0].Get<float>(), b.t, more[1].Get<uint32_t>(), 0, 8);
}

}  // namespace cases
