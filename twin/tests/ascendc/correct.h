// Kernels that must pass under every seed and core count.
#pragma once
#include "kernels.h"

namespace cases {

inline void AddOneQueued(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 2, TILE * sizeof(float));
  pipe.InitBuffer(out, 2, TILE * sizeof(float));
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    LocalTensor<float> x = in.AllocTensor<float>();
    DataCopyPad(x, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    in.EnQue(x);
    x = in.DeQue<float>();
    LocalTensor<float> y = out.AllocTensor<float>();
    Adds(y, x, 1.0f, static_cast<int32_t>(n));
    in.FreeTensor(x);
    out.EnQue(y);
    y = out.DeQue<float>();
    DataCopyPad(s.y[at], y, burst);
    out.FreeTensor(y);
  }
}

// The same with flags of its own and one buffer.
inline void AddOneFlags(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, TILE * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  const auto loaded = pipe.AllocEventID<HardEvent::MTE2_V>();
  const auto computed = pipe.AllocEventID<HardEvent::V_MTE3>();
  const auto stored = pipe.AllocEventID<HardEvent::MTE3_MTE2>();
  SetFlag<HardEvent::MTE3_MTE2>(stored);
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    WaitFlag<HardEvent::MTE3_MTE2>(stored);
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(true, 0, 0, 0));
    SetFlag<HardEvent::MTE2_V>(loaded);
    WaitFlag<HardEvent::MTE2_V>(loaded);
    Adds(t, t, 1.0f, static_cast<int32_t>(n));
    SetFlag<HardEvent::V_MTE3>(computed);
    WaitFlag<HardEvent::V_MTE3>(computed);
    DataCopyPad(s.y[at], t, burst);
    SetFlag<HardEvent::MTE3_MTE2>(stored);
  }
  WaitFlag<HardEvent::MTE3_MTE2>(stored);
  pipe.ReleaseEventID<HardEvent::MTE2_V>(loaded);
  pipe.ReleaseEventID<HardEvent::V_MTE3>(computed);
  pipe.ReleaseEventID<HardEvent::MTE3_MTE2>(stored);
}

// Element by element on the scalar unit.
inline void AddOneScalar(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, TILE * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    const auto load = pipe.FetchEventID<HardEvent::MTE2_S>();
    SetFlag<HardEvent::MTE2_S>(load);
    WaitFlag<HardEvent::MTE2_S>(load);
    for (uint32_t i = 0; i < n; ++i) {
      t.SetValue(i, t.GetValue(i) + 1.0f);
    }
    const auto store = pipe.FetchEventID<HardEvent::S_MTE3>();
    SetFlag<HardEvent::S_MTE3>(store);
    WaitFlag<HardEvent::S_MTE3>(store);
    DataCopyPad(s.y[at], t, burst);
    PipeBarrier<PIPE_ALL>();
  }
}

// Whole blocks are copied inside the unified buffer, also those whose last bytes nobody has written.
inline void AddOneThroughCopy(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 2 * TILE * sizeof(float));
  const LocalTensor<float> in = buffer.Get<float>();
  const LocalTensor<float> copy = in[TILE];
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    DataCopyPad(in, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
    DataCopy(copy, in, (n + 7) / 8 * 8);
    PipeBarrier<PIPE_V>();
    Adds(copy, copy, 1.0f, static_cast<int32_t>(n));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at], copy, burst);
    PipeBarrier<PIPE_ALL>();
  }
}

// The second half of y is loaded ahead while the first one, whose load was waited for, is stored.
inline void AddOneBehindLoadAhead(const Arguments& a) {
  const Share s = ShareOf(a);
  constexpr uint32_t half = TILE / 2;
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 3 * TILE * sizeof(float));
  const LocalTensor<float> x = buffer.Get<float>();
  const LocalTensor<float> first = x[TILE];
  const LocalTensor<float> second = x[2 * TILE];
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const uint32_t low = n < half ? n : half;
    const DataCopyExtParams lowBurst(1, low * sizeof(float), 0, 0, 0);
    const DataCopyExtParams highBurst(1, (n - low) * sizeof(float), 0, 0, 0);
    const DataCopyPadExtParams<float> pad(false, 0, 0, 0);
    DataCopyPad(x, s.x[at], DataCopyExtParams(1, n * sizeof(float), 0, 0, 0), pad);
    DataCopyPad(first, s.y[at], lowBurst, pad);
    const auto loaded = pipe.FetchEventID<HardEvent::MTE2_V>();
    SetFlag<HardEvent::MTE2_V>(loaded);
    DataCopyPad(second, s.y[at + low], highBurst, pad);
    WaitFlag<HardEvent::MTE2_V>(loaded);
    Adds(first, x, 1.0f, static_cast<int32_t>(low));
    const auto ready = pipe.FetchEventID<HardEvent::V_MTE3>();
    SetFlag<HardEvent::V_MTE3>(ready);
    WaitFlag<HardEvent::V_MTE3>(ready);
    DataCopyPad(s.y[at], first, lowBurst);
    PipeBarrier<PIPE_ALL>();
    Adds(second, x[low], 1.0f, static_cast<int32_t>(n - low));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at + low], second, highBurst);
    PipeBarrier<PIPE_ALL>();
  }
}

// Every block writes a token to the workspace, all meet, every block adds the token of its neighbour (1.0).
inline void AddNeighboursToken(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const Share s = ShareOf(a);
  const uint64_t blocks = static_cast<uint64_t>(GetBlockNum());
  GlobalTensor<float> tokens = Floats(GetUserWorkspace(a.workspace), blocks * 8);
  {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 2 * 32);
    LocalTensor<float> token = buffer.Get<float>();
    Duplicate(token, 1.0f, 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(tokens[static_cast<uint64_t>(GetBlockIdx()) * 8], token, 8);
    PipeBarrier<PIPE_ALL>();
    SyncAll();
    const uint64_t neighbour = (static_cast<uint64_t>(GetBlockIdx()) + 1) % blocks;
    DataCopy(token[8], tokens[neighbour * 8], 8);
    PipeBarrier<PIPE_ALL>();
    ASSERT(token.GetValue(8) == 1.0f);
  }
  AddOneQueued(a);
}

// Each tile is gathered in reverse and once more in reverse, by byte offsets that the scalar unit has written.
inline void AddOneGathered(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffers[3];
  for (auto& buffer : buffers) {
    pipe.InitBuffer(buffer, TILE * sizeof(float));
  }
  const LocalTensor<float> t = buffers[0].Get<float>();
  const LocalTensor<float> reversed = buffers[1].Get<float>();
  const LocalTensor<uint32_t> offsets = buffers[2].Get<uint32_t>();
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    for (uint32_t i = 0; i < n; ++i) {
      offsets.SetValue(i, (n - 1 - i) * static_cast<uint32_t>(sizeof(float)));
    }
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
    Gather(reversed, t, offsets, 0, n);
    PipeBarrier<PIPE_V>();
    Gather(t, reversed, offsets, 0, n);
    PipeBarrier<PIPE_V>();
    Adds(t, t, 1.0f, static_cast<int32_t>(n));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at], t, burst);
    PipeBarrier<PIPE_ALL>();
  }
}

// Every block stores its x, all meet, and two blocks add halves to each share.
inline void AddOneAtomically(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const Share s = ShareOf(a);
  const auto blocks = static_cast<uint64_t>(GetBlockNum());
  const auto own = static_cast<uint64_t>(GetBlockIdx());
  GlobalTensor<float> y = Floats(a.y, blocks * s.elements);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, TILE * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  const auto inTiles = [&](auto body) {
    for (uint32_t at = 0; at < s.elements; at += TILE) {
      const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
      body(at, DataCopyExtParams(1, n * sizeof(float), 0, 0, 0));
    }
  };
  inTiles([&](uint32_t at, const DataCopyExtParams& burst) {
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at], t, burst);
    PipeBarrier<PIPE_ALL>();
  });
  SyncAll();
  Duplicate(t, 0.5f, static_cast<int32_t>(TILE));
  PipeBarrier<PIPE_ALL>();
  SetAtomicAdd<float>();
  for (uint64_t target : {own, (own + 1) % blocks}) {
    inTiles([&](uint32_t at, const DataCopyExtParams& burst) { DataCopyPad(y[target * s.elements + at], t, burst); });
  }
  SetAtomicNone();
}

// x by the data cache, each line asked for before its first element is read, and once more, which changes nothing.
inline void AddOnePreloaded(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, TILE * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  GlobalTensor<uint64_t> lines;
  lines.SetGlobalBuffer(reinterpret_cast<__gm__ uint64_t*>(const_cast<__gm__ float*>(s.x.GetPhyAddr())));
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    for (uint32_t i = 0; i < n; ++i) {
      DataCachePreload(lines, static_cast<int64_t>(at + i) * 4);
      t.SetValue(i, s.x.GetValue(at + i) + 1.0f);
    }
    const auto store = pipe.FetchEventID<HardEvent::S_MTE3>();
    SetFlag<HardEvent::S_MTE3>(store);
    WaitFlag<HardEvent::S_MTE3>(store);
    DataCopyPad(s.y[at], t, DataCopyExtParams(1, n * sizeof(float), 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
  }
}

// A line of ones summed over four repeats into one, a quarter each; then added to x.
inline void AddOneInChains(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 7 * 64 * sizeof(float));
  LocalTensor<float> quarters = buffer.Get<float>();
  LocalTensor<float> sum = quarters[256];
  LocalTensor<float> t = quarters[320];
  Duplicate(quarters, 0.25f, 256);
  Duplicate(sum, 0.0f, 64);
  Add(sum, quarters, sum, static_cast<uint64_t>(64), 4, BinaryRepeatParams(1, 1, 1, 0, 8, 0));
  for (uint32_t at = 0; at < s.elements; at += 64) {
    const uint32_t n = s.elements - at < 64 ? s.elements - at : 64;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
    Add(t, t, sum, static_cast<int32_t>(n));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at], t, burst);
  }
}

// What stands behind a burst of one element: the element again where nothing is padded, whatever the value to pad with;
// the value where the rest of the block is padded.
inline void AddOneByFiller(const Arguments& a) {
  const Share s = ShareOf(a);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, (TILE + 16) * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  LocalTensor<float> filled = t[TILE];
  LocalTensor<float> padded = t[TILE + 8];
  const DataCopyExtParams one(1, sizeof(float), 0, 0, 0);
  DataCopyPad(filled, s.x, one, DataCopyPadExtParams<float>(true, 0, 0, -7.0f));
  DataCopyPad(padded, s.x, one, DataCopyPadExtParams<float>(true, 0, 7, 1.0f));
  PipeBarrier<PIPE_ALL>();
  float added = padded.GetValue(7);
  for (uint32_t lane = 1; lane < 8; ++lane) {
    added += filled.GetValue(lane) - filled.GetValue(0);
  }
  for (uint32_t at = 0; at < s.elements; at += TILE) {
    const uint32_t n = s.elements - at < TILE ? s.elements - at : TILE;
    const DataCopyExtParams burst(1, n * sizeof(float), 0, 0, 0);
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(t, s.x[at], burst, DataCopyPadExtParams<float>(false, 0, 0, 0));
    PipeBarrier<PIPE_ALL>();
    Adds(t, t, added, static_cast<int32_t>(n));
    PipeBarrier<PIPE_ALL>();
    DataCopyPad(s.y[at], t, burst);
  }
}

// A token goes round the cores by flags between them: twice, so that the second store waits for the first reads.
inline void AddTokensByFlags(const Arguments& a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  const auto blocks = static_cast<uint64_t>(GetBlockNum());
  const auto own = static_cast<uint64_t>(GetBlockIdx());
  GlobalTensor<float> tokens = Floats(GetUserWorkspace(a.workspace), blocks * 8);
  {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 2 * 32);
    LocalTensor<float> token = buffer.Get<float>();
    for (int round = 1; round <= 2; ++round) {
      Duplicate(token, static_cast<float>(round), 8);
      PipeBarrier<PIPE_ALL>();
      DataCopy(tokens[own * 8], token, 8);
      CrossCoreSetFlag<0, PIPE_MTE3>(5);
      CrossCoreWaitFlag(5);
      DataCopy(token[8], tokens[(own + 1) % blocks * 8], 8);
      CrossCoreSetFlag<0, PIPE_MTE2>(6);
      PipeBarrier<PIPE_ALL>();
      ASSERT(token.GetValue(8) == static_cast<float>(round));
      CrossCoreWaitFlag<0>(6);
    }
  }
  AddOneQueued(a);
}

}  // namespace cases
