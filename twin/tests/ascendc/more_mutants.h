// Broken kernels: atomic transfers, strides, divisions, stack, loops without an end, preloaded lines.
#pragma once
#include "mutants.h"

namespace cases {

inline void AtomicOverPlainStore(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
  SetAtomicAdd<float>();
  DataCopyPad(s.y, b.t, Burst(64));
  SetAtomicNone();
}

inline void AtomicOntoNothing(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Bench b;
  Duplicate(b.t, 1.0f, 8);
  PipeBarrier<PIPE_ALL>();
  SetAtomicAdd<float>();
  DataCopyPad(Floats(GetUserWorkspace(a.workspace), 8), b.t, Burst(8));
  SetAtomicNone();
}

inline void AtomicOfOtherType(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  SetAtomicAdd<int32_t>();
  DataCopyPad(s.y, b.t, Burst(64));
  SetAtomicNone();
}

// One core adds, the other takes the maximum.
inline void AtomicOfTwoKinds(const Arguments& a) {
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  PipeBarrier<PIPE_ALL>();
  GetBlockIdx() == 0 ? SetAtomicAdd<float>() : SetAtomicMax<float>();
  GlobalTensor<float> y;
  y.SetGlobalBuffer(reinterpret_cast<float*>(a.y));
  DataCopyPad(y, b.t, Burst(64));
  SetAtomicNone();
}

// Everybody stores a token, sets a flag and waits; `wait` is what is left out.
template <bool wait, uint16_t flag, pipe_t pipe>
inline void TokensByFlag(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const auto blocks = static_cast<uint64_t>(GetBlockNum());
  const auto own = static_cast<uint64_t>(GetBlockIdx());
  GlobalTensor<float> tokens = Floats(GetUserWorkspace(a.workspace), blocks * 8);
  Bench b;
  Duplicate(b.t, 1.0f, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(tokens[own * 8], b.t, 8);
  CrossCoreSetFlag<0, pipe>(flag);
  if constexpr (wait) {
    CrossCoreWaitFlag(flag);
  }
  DataCopy(b.t[64], tokens[(own + 1) % blocks * 8], 8);
}

inline void FlagNotWaitedFor(const Arguments& a) { TokensByFlag<false, 5, PIPE_MTE3>(a); }
inline void FlagOfOtherPipe(const Arguments& a) { TokensByFlag<true, 5, PIPE_V>(a); }
inline void FlagOfSyncAll(const Arguments& a) { TokensByFlag<true, 12, PIPE_MTE3>(a); }

inline void FlagOfSome(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  if (GetBlockIdx() != 1) {
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
  }
  CrossCoreWaitFlag(5);
}

inline void FlagSetTooOften(const Arguments&) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  for (int i = 0; i < 16; ++i) {
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
  }
}

inline void AtomicModeLeftOn(const Arguments&) { SetAtomicMin<float>(); }

inline void StrideZero(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<uint64_t>(64), 1, 0, 8);
}

inline void LanesMisaligned(const Arguments&) {
  Bench b;
  Duplicate(b.t[3], 1.0f, static_cast<uint64_t>(8), 1, 1, 8);
}

// The second repeat reads what the first has written.
inline void RepeatReadsResult(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<int32_t>(TILE));
  Add(b.t[64], b.t, b.t, static_cast<uint64_t>(64), 2, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
}

// Lanes of repeats in blocks of which the rest is in order.
inline void LaneOfUndefined(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 67);
  Adds(b.t, b.t, 1.0f, static_cast<uint64_t>(64), 2, UnaryRepeatParams(1, 1, 8, 8));
  PipeBarrier<PIPE_ALL>();
  ASSERT(b.t.GetValue(66) == 2.0f);
  ASSERT(b.t.GetValue(67) == 2.0f);
}

inline void LaneLeftOut(const Arguments&) {
  Bench b;
  Duplicate(b.t[64], 1.0f, 64);
  Adds(b.t, b.t[64], 1.0f, static_cast<uint64_t>(3), 1, UnaryRepeatParams(1, 1, 8, 8));
  PipeBarrier<PIPE_ALL>();
  ASSERT(b.t.GetValue(2) == 2.0f);
  ASSERT(b.t.GetValue(3) == 2.0f);
}

inline void LanePastBuffer(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<int32_t>(TILE));
  Adds(b.t[TILE - 120], b.t, 1.0f, static_cast<uint64_t>(64), 2, UnaryRepeatParams(1, 1, 8, 8));
}

inline void LanesBeforeLoad(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  LoadTile(b.t, s.x);
  Adds(b.t[64], b.t, 1.0f, static_cast<uint64_t>(64), 1, UnaryRepeatParams(1, 1, 8, 8));
}

inline void LanesOverStore(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 128);
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
  Adds(b.t, b.t[64], 1.0f, static_cast<uint64_t>(64), 1, UnaryRepeatParams(1, 1, 8, 8));
}

inline void BlocksShifted(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, static_cast<int32_t>(TILE));
  Add(b.t[8], b.t, b.t, static_cast<uint64_t>(64), 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
}

inline void CastModeUnknown(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  Cast(b.t[128].ReinterpretCast<bfloat16_t>(), b.t, RoundMode::CAST_NONE, 64);
}

inline void CompareOfPart(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  CompareScalar(b.t[128].ReinterpretCast<uint8_t>(), b.t, 0.0f, CMPMODE::GT, 60u);
}

// More lanes than the register has: the last repeat's bits alone would be left.
inline void CompareOfRepeats(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 128);
  SetMaskCount();
  SetVectorMask<float, MaskMode::COUNTER>(0, 128);
  Compare<float, false>(b.t, b.t, CMPMODE::EQ, MASK_PLACEHOLDER, BinaryRepeatParams());
}

inline void CmpMaskIntoLittle(const Arguments&) {
  Bench b;
  TBuf<> little;
  b.pipe.InitBuffer(little, 32);
  GetCmpMask(little.Get<uint8_t>());
}

inline void CmpMaskMisaligned(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 64);
  SetCmpMask(b.t[3]);
}

// Half of the lanes have no bit: the Compare before it was of the other half.
inline void SelectByBitsNotCompared(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  Duplicate(b.t, 1.0f, 128);
  Compare(b.t, b.t, CMPMODE::EQ, static_cast<uint64_t>(32), BinaryRepeatParams());
  SetVectorMask<float>(64);
  Select<float, SELMODE::VSEL_CMPMASK_SPR>(b.t, b.t, b.t[64], 1, BinaryRepeatParams());
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(s.y, b.t, Burst(64));
}

inline void SelectByNoAddress(const Arguments&) {
  Bench b;
  Duplicate(b.t, 1.0f, 128);
  Select<float, SELMODE::VSEL_TENSOR_TENSOR_MODE>(b.t, b.t, b.t[64], 1, BinaryRepeatParams());
}

template <typename F>
inline void TransBlocksOf(LocalTensor<float> t, const TransDataTo5HDParams& p, F f) {
  Duplicate(t, 1.0f, static_cast<int32_t>(TILE));
  uint64_t to[16], from[16];
  for (uint32_t i = 0; i < 16; ++i) {
    to[i] = t.GetPhyAddr() + i * 32;
    from[i] = to[i];
  }
  f(to, from);
  TransDataTo5HD<float>(to, from, p);
}

inline void TransPartlyInPlace(const Arguments&) {
  Bench b;
  TransBlocksOf(b.t, {}, [](uint64_t*, uint64_t* from) { std::swap(from[3], from[4]); });
}

inline void TransMisaligned(const Arguments&) {
  Bench b;
  TransBlocksOf(b.t, {}, [](uint64_t* to, uint64_t*) { to[5] += 16; });
}

inline void TransOutsideBuffers(const Arguments&) {
  Bench b;
  TransBlocksOf(b.t, {}, [](uint64_t*, uint64_t* from) { from[15] = 180 * 1024; });
}

inline void TransOnceWithStride(const Arguments&) {
  Bench b;
  TransBlocksOf(b.t, {false, false, 1, 16, 16}, [](uint64_t*, uint64_t*) {});
}

// The second repeat reads the blocks that the first has written.
inline void TransReadsResult(const Arguments&) {
  Bench b;
  TransBlocksOf(b.t, {false, false, 2, 16, 16}, [](uint64_t* to, uint64_t*) {
    for (int i = 0; i < 16; ++i) {
      to[i] += 512;
    }
  });
}

// The scratch of Select is the end of the unified buffer.
inline void SelectOverBuffers(const Arguments&) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 190 * 1024);
  LocalTensor<float> t = buffer.Get<float>();
  Duplicate(t, 1.0f, 128);
  Select(t, t[64].ReinterpretCast<uint8_t>(), t, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64u);
}

// An output queue filled by DMA: its flags are those of the vector unit.
inline void OutputQueueLoaded(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(out, 1, TILE * sizeof(float));
  LocalTensor<float> t = out.AllocTensor<float>();
  LoadTile(t, s.x);
  out.EnQue(t);
  t = out.DeQue<float>();
  DataCopyPad(s.y, t, Burst(64));
  out.FreeTensor(t);
}

inline void EnQueOfBuffer(const Arguments&) {
  Bench b;
  TQue<TPosition::VECIN, 1> in;
  b.pipe.InitBuffer(in, 1, 32);
  in.EnQue(b.t);
}

inline void DivisionByZero(const Arguments& a) {
  const Share s = ShareOf(a);
  Bench b;
  volatile uint32_t rows = s.elements - s.elements;
  Duplicate(b.t, 1.0f, static_cast<int32_t>(64 / rows));
}

inline void LargeLocalArray(const Arguments&) {
  volatile float lanes[32 * 1024];
  for (uint32_t i = 0; i < 32 * 1024; ++i) {
    lanes[i] = static_cast<float>(i);
  }
  ASSERT(lanes[7] == 7.0f);
}

// Waits for a word that nobody writes.
inline void PollingForEver(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const GlobalTensor<float> words = Floats(GetUserWorkspace(a.workspace), 8);
  while (words.GetValue(0) != 1.0f) {
  }
}

inline void LoopWithoutCall(const Arguments&) {
  Bench b;
  volatile bool ready = false;
  while (!ready && GetBlockIdx() == 1) {
  }
}

// As StaleScalarRead, but for a read ahead that the kernel does not repeat after the meeting.
inline void StalePreload(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Bench b;
  GlobalTensor<float> words = Floats(GetUserWorkspace(a.workspace), 64);
  GlobalTensor<uint64_t> lines;
  lines.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(GetUserWorkspace(a.workspace)), 32);
  DataCachePreload(lines, static_cast<int64_t>(64));
  SyncAll();
  if (GetBlockIdx() == 0) {
    Duplicate(b.t, 7.0f, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(words[16], b.t, Burst(1));
    PipeBarrier<PIPE_ALL>();
  }
  SyncAll();
  ASSERT(words.GetValue(16) == 7.0f);
}

// A preload is no read: that it was there does not order what is read later.
inline void ReadOfPreloaded(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Bench b;
  GlobalTensor<float> words = Floats(GetUserWorkspace(a.workspace), 64);
  GlobalTensor<uint64_t> lines;
  lines.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(GetUserWorkspace(a.workspace)), 32);
  DataCachePreload(lines, static_cast<int16_t>(0));
  if (GetBlockIdx() != 0) {
    words.GetValue(0);
  } else {
    Duplicate(b.t, 7.0f, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(words, b.t, Burst(1));
  }
  SyncAll();
}

inline void PreloadPastTensor(const Arguments& a) {
  const Share s = ShareOf(a);
  GlobalTensor<uint64_t> x;
  x.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(a.x));
  DataCachePreload(x, static_cast<int64_t>(-1));
}

}  // namespace cases
