// run_norms FUNCTION TYPE ROWS COLUMNS COUNTED WORK SCRATCH BREAK FILE: one call of LayerNormGrad, LayerNormGradBeta,
// WelfordUpdate or WelfordFinalize. TYPE: of the rows. WORK: bytes that the host's tiling is told, SCRATCH: bytes that
// the call is given; -1 is what the host's function says at most, -2 at least, and for SCRATCH -3 leaves it to the
// call. Of Welford's functions ROWS are the parts so far, the last of them of COUNTED elements. FILE holds the operands
// behind each other, of kOperand bytes each; standard output gets the two results, or the trap's report.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ascendc/launch.h"
#include "kernel_operator.h"
#include "tiling/tiling_api.h"

namespace {

using namespace AscendC;

constexpr uint32_t kOperand = 8192;
constexpr int kOperands = 5, kResults = 2;
constexpr int64_t kMost = -1, kLeast = -2, kFound = -3;

enum Break {
  kNone,
  kShifted,        // a result is the first operand, a block further
  kSameResults,    // one tensor for both
  kScratchInRows,  // scratch inside the first operand
  kNoRoom,         // buffers up to the end, so that no scratch is left behind them
  kStoreSource,    // an operand is stored, though the call might reuse it
  kStorePadding,   // what is behind the elements that count is stored
  kOtherFormat,    // rows in NZ
  kOtherParts,     // parts that are none of one row
};

struct Work {
  std::string function;
  uint32_t rows = 0, columns = 0, counted = 0;
  int64_t scratch = 0;
  uint32_t scratchBytes = 0;
  int breaks = kNone;
  AscendC::tiling::LayerNormGradTiling grad;
  AscendC::tiling::LayerNormGradBetaTiling beta;
};
Work work;
constexpr WelfordUpdateConfig kInPlace = {true};

template <typename T>
struct Tensors {
  template <typename U = T>
  LocalTensor<U> In(int i) const {
    return in[i].template ReinterpretCast<U>();
  }
  template <typename U = T>
  LocalTensor<U> Out(int i) const {
    return out[i].template ReinterpretCast<U>();
  }
  LocalTensor<T> in[kOperands], out[kResults];
  LocalTensor<uint8_t> scratch;
};

template <typename T, typename... Scratch>
void Call(const Tensors<T>& t, Scratch... scratch) {
  const std::string& f = work.function;
  if (f == "LayerNormGrad" || f == "LayerNormGradInPlace") {
    const auto epsilon = static_cast<T>(1e-3f);
    LayerNormGradShapeInfo info;
    if (work.breaks == kOtherFormat) {
      info.dataFormat = DataFormat::NZ;
    }
    if constexpr (std::is_same<T, float>::value) {
      if (work.breaks == kStoreSource) {
        LayerNormGrad<T, true>(t.Out(0), t.Out(1), t.In(0), t.In(1), t.In(2), t.In(3), t.In(4), scratch..., epsilon,
                               work.grad, info);
        return;
      }
    }
    LayerNormGrad<T>(t.Out(0), t.Out(1), t.In(0), t.In(1), t.In(2), t.In(3), t.In(4), scratch..., epsilon, work.grad,
                     info);
  } else if (f == "LayerNormGradBeta") {
    if constexpr (std::is_same<T, float>::value) {
      if (work.breaks == kStoreSource) {
        LayerNormGradBeta<T, true>(t.Out(0), t.Out(1), t.In(1), t.In(0), scratch..., work.beta);
        return;
      }
    }
    LayerNormGradBeta<T>(t.Out(0), t.Out(1), t.In(1), t.In(0), scratch..., work.beta);
  } else if (f == "WelfordUpdate" || f == "WelfordUpdateInPlace") {
    const WelfordUpdateParam para = {work.breaks == kOtherParts ? 2u : 1u, work.columns, work.counted,
                                     1.0f / static_cast<float>(work.rows)};
    const auto mean = t.template In<float>(1), variance = t.template In<float>(2);
    if (f == "WelfordUpdateInPlace") {
      WelfordUpdate<T, float, false, kInPlace>(mean, variance, mean, variance, t.In(0), scratch..., para);
      return;
    }
    if constexpr (std::is_same<T, float>::value) {
      if (work.breaks == kStoreSource) {
        WelfordUpdate<T, float, true>(t.Out(0), t.Out(1), mean, variance, t.In(0), scratch..., para);
        return;
      }
    }
    WelfordUpdate<T, float>(t.template Out<float>(0), t.template Out<float>(1), mean, variance, t.In(0), scratch...,
                            para);
  } else {
    const uint32_t before = work.counted < work.columns ? work.rows - 1 : work.rows;
    const uint32_t tail = work.columns - work.counted;
    const auto all = static_cast<float>(before * work.columns + (before < work.rows ? work.counted : 0));
    const WelfordFinalizePara para = {before,
                                      work.columns,
                                      work.rows,
                                      work.breaks == kOtherParts ? work.counted + 1 : work.counted,
                                      before,
                                      tail,
                                      1.0f / static_cast<float>(work.columns),
                                      1.0f / all};
    const auto out = t.template Out<float>(0), outVariance = t.template Out<float>(1);
    const auto mean = t.template In<float>(0), variance = t.template In<float>(1);
    if (f == "WelfordFinalizeByCounts") {
      WelfordFinalize(out, outVariance, mean, variance, t.template In<int32_t>(2), scratch..., para);
    } else {
      WelfordFinalize(out, outVariance, mean, variance, scratch..., para);
    }
  }
}

bool Is(const char* name) { return work.function.compare(0, std::string(name).size(), name) == 0; }

template <typename T>
GlobalTensor<T> Global(void* address) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer(static_cast<T*>(address), kOperand / sizeof(T));
  return gm;
}

// `rows` of `columns` elements, of which the first `kept` are stored.
template <typename T>
void Store(void* to, const LocalTensor<T>& tensor, uint32_t rows, uint32_t columns, uint32_t kept) {
  for (uint32_t row = 0; row < rows; ++row) {
    DataCopyPad(Global<T>(to)[row * columns], tensor[row * columns],
                DataCopyExtParams(1, kept * static_cast<uint32_t>(sizeof(T)), 0, 0, 0));
  }
}

template <typename T>
void Run(void* const* arguments) {
  TPipe pipe;
  TBuf<> buffers[kOperands + kResults], scratch, filler;
  Tensors<T> t;
  for (int i = 0; i < kOperands + kResults; ++i) {
    pipe.InitBuffer(buffers[i], kOperand);
    (i < kOperands ? t.in[i] : t.out[i - kOperands]) = buffers[i].template Get<T>();
  }
  pipe.InitBuffer(scratch, 65536);
  t.scratch = scratch.Get<uint8_t>();
  t.scratch.SetSize(work.scratchBytes);
  if (work.breaks == kNoRoom) {
    pipe.InitBuffer(filler, 196608 - (kOperands + kResults) * kOperand - 65536 - 32);
  }
  for (int i = 0; i < kOperands; ++i) {
    DataCopy(t.in[i], Global<T>(arguments[i]), kOperand / sizeof(T));
  }
  PipeBarrier<PIPE_ALL>();
  t.out[0] = work.function == "LayerNormGradInPlace" ? t.in[0]
             : work.breaks == kShifted               ? t.in[0][32 / sizeof(T)]
                                                     : t.out[0];
  t.out[1] = work.function == "LayerNormGradInPlace" ? t.in[1] : work.breaks == kSameResults ? t.out[0] : t.out[1];
  t.scratch = work.breaks == kScratchInRows ? t.in[0].template ReinterpretCast<uint8_t>() : t.scratch;
  work.scratch == kFound ? Call<T>(t) : Call<T>(t, t.scratch);
  PipeBarrier<PIPE_ALL>();
  const uint32_t kept = work.breaks == kStorePadding ? work.columns : work.counted;
  for (int i = 0; i < kResults; ++i) {
    void* to = arguments[kOperands + i];
    if (work.breaks == kStoreSource) {
      Store(to, t.in[0], 1, work.columns, work.counted);
    } else if (Is("LayerNormGrad")) {
      Store(to, t.out[i], work.function == "LayerNormGradBeta" ? 1 : work.rows, work.columns, kept);
    } else if (Is("WelfordUpdate")) {
      const bool inPlace = work.function == "WelfordUpdateInPlace";
      Store(to, inPlace ? t.template In<float>(1 + i) : t.template Out<float>(i), 1, work.columns, work.columns);
    } else {
      Store(to, t.template Out<float>(i), 1, 1, work.breaks == kStorePadding ? 2 : 1);
    }
  }
}

void EnterFloat(void* const* arguments) { Run<float>(arguments); }
void EnterHalf(void* const* arguments) { Run<half>(arguments); }

void MakeTiling(int64_t given, uint32_t typeSize) {
  const ge::Shape rows({1, work.rows, work.columns, work.counted});
  uint32_t most = 0, least = 0;
  const auto bytes = [&](int64_t asked) {
    return asked == kMost ? most : asked == kLeast ? least : static_cast<uint32_t>(asked);
  };
  if (work.function == "LayerNormGradBeta") {
    GetLayerNormGradBetaMaxMinTmpSize(rows, typeSize, false, most, least);
    GetLayerNormGradBetaNDTilingInfo(rows, bytes(given), typeSize, false, work.beta);
  } else if (Is("LayerNormGrad")) {
    GetLayerNormGradMaxMinTmpSize(rows, typeSize, false, most, least);
    GetLayerNormGradNDTilingInfo(rows, bytes(given), typeSize, false, work.grad);
  } else if (Is("WelfordUpdate")) {
    GetWelfordUpdateMaxMinTmpSize(ge::Shape({1, work.columns}), typeSize, 4, false, false, most, least);
  } else {
    GetWelfordFinalizeMaxMinTmpSize(ge::Shape(std::vector<int64_t>{work.columns}), 4, false, most, least);
  }
  work.scratchBytes = work.scratch == kFound ? 0 : bytes(work.scratch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(stderr, "usage: run_norms FUNCTION TYPE ROWS COLUMNS COUNTED WORK SCRATCH BREAK FILE\n");
    return 3;
  }
  const auto number = [argv](int i) { return std::strtol(argv[i], nullptr, 10); };
  const bool isHalf = std::string(argv[2]) == "half";
  work.function = argv[1];
  work.rows = static_cast<uint32_t>(number(3));
  work.columns = static_cast<uint32_t>(number(4));
  work.counted = static_cast<uint32_t>(number(5));
  work.scratch = number(7);
  work.breaks = static_cast<int>(number(8));
  MakeTiling(number(6), isHalf ? 2 : 4);
  std::vector<char> memory((kOperands + kResults) * kOperand);
  std::ifstream(argv[9], std::ios::binary).read(memory.data(), kOperands * kOperand);
  void* arguments[kOperands + kResults];
  twin::GmExtent extents[kOperands + kResults] = {};
  for (int i = 0; i < kOperands + kResults; ++i) {
    arguments[i] = memory.data() + static_cast<std::size_t>(i) * kOperand;
    extents[i] = {arguments[i], kOperand, i < kOperands ? "operand" : "result", i >= kOperands};
  }
  twin::Launch launch{};
  launch.name = argv[1];
  launch.entry = isHalf ? EnterHalf : EnterFloat;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = kOperands + kResults;
  launch.blockDim = 1;
  launch.cores = 1;
  char error[1024];
  const int code = twin::Run(launch, error, sizeof(error));
  if (code != 0) {
    std::printf("%d %s\n", code, error);
    return 1;
  }
  std::fwrite(memory.data() + kOperands * kOperand, 1, kResults * kOperand, stdout);
  return 0;
}
