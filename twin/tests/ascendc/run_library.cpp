// run_library FUNCTION TYPES ROWS COLUMNS COUNTED WORK SCRATCH BREAK FILE: one call of a library function that has a
// tiling. TYPES: of the rows and of their sums. WORK: bytes that the host's tiling is told, SCRATCH: bytes that the
// call is given; -1 is what the host's function says at most, -2 at least, and for SCRATCH -3 leaves it to the call.
// FILE holds four operands behind each other, of kOperand bytes each; standard output gets as many results, or the
// trap's report.
#include <algorithm>
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

constexpr uint32_t kOperand = 16384;
constexpr int kOperands = 4;
constexpr int64_t kMost = -1, kLeast = -2, kFound = -3;

enum Break {
  kNone,
  kShifted,        // the destination is the source, a block further
  kSumsAreMaxima,  // one tensor for both
  kSumsInRows,     // sums inside the destination
  kScratchInRows,  // scratch inside the source
  kNoRoom,         // buffers up to the end, so that no scratch is left behind them
  kStoreSource,    // the source is stored, though the call might reuse it
  kStorePadding,   // what is behind the elements that count is stored
  kBasicBlock,     // told to be a basic block
  kOtherShape,     // more columns than the tiling's, and not to be checked against it; of a norm fewer
  kMoreRows,       // than the tiling's
  kOtherNorm,      // a tiling that is told of the norm with variances
};

struct Work {
  std::string function;
  bool nz = false;  // a name that ends with Nz: the same, of rows in NZ
  std::string types;
  uint32_t rows = 0, columns = 0, counted = 0;
  int64_t scratch = 0;
  uint32_t scratchBytes = 0;
  int breaks = kNone;
  AscendC::tiling::SoftMaxTiling softmax;
  AscendC::tiling::LayerNormTiling layernorm;
  AscendC::tiling::LayerNormSeparateTiling separate;
  AscendC::tiling::RmsNormTiling rmsnorm;
};
Work work;
constexpr SoftmaxConfig kUnchecked = {false, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};
constexpr LayerNormConfig kNoBeta = {true, false, false}, kNoGamma = {false, true, false},
                          kNeither = {true, true, false};

template <typename T, typename B>
struct Operands {
  LocalTensor<T> x, y;          // rows
  LocalTensor<B> sums, maxima;  // a block a row, or a value
  LocalTensor<B> inSums, inMaxima;
  LocalTensor<T> factors;
  LocalTensor<uint8_t> scratch;
};

template <bool nz, typename T, typename B, typename... Scratch>
void SoftmaxIn(const Operands<T, B>& o, Scratch... scratch) {
  SoftMaxShapeInfo shape = {work.rows, work.columns, work.rows, work.counted};
  const std::string& f = work.function;
  if (work.breaks == kOtherShape) {
    shape.srcK += 16;
    SoftMax<T, false, false, nz, kUnchecked>(o.y, o.sums, o.maxima, o.x, scratch..., work.softmax, shape);
  } else if (work.breaks == kBasicBlock) {
    SoftMax<T, false, true, nz>(o.y, o.sums, o.maxima, o.x, scratch..., work.softmax, shape);
  } else if (work.breaks == kStoreSource) {
    SoftMax<T, true, false, nz>(o.y, o.sums, o.maxima, o.x, scratch..., work.softmax, shape);
  } else if (f == "SoftMax") {
    SoftMax<T, false, false, nz>(o.y, o.sums, o.maxima, o.x, scratch..., work.softmax, shape);
  } else if (f == "SoftMaxAlone") {
    SoftMax<T>(o.y, o.x, scratch..., work.softmax, shape);
  } else if (f == "SoftMaxByTiling") {  // the tiling's shape
    SoftMax<T>(o.y, o.sums, o.maxima, o.x, scratch..., work.softmax);
  } else if (f == "SimpleSoftMax") {
    SimpleSoftMax<T, false, false, nz>(o.y, o.inSums, o.inMaxima, o.x, scratch..., work.softmax, shape);
  } else if (f == "SoftmaxFlash" || f == "SoftmaxFlashUpdate") {
    SoftmaxFlash<T>(o.y, o.sums, o.maxima, o.x, o.factors, o.inSums, o.inMaxima, scratch..., work.softmax,
                    f == "SoftmaxFlashUpdate", shape);
  } else if (f == "SoftmaxFlashV2") {
    SoftmaxFlashV2<T, false, false, false, nz>(o.y, o.sums, o.maxima, o.x, o.factors, o.inSums, o.inMaxima, scratch...,
                                               work.softmax, shape);
  } else if (f == "SoftmaxFlashV2Update") {
    SoftmaxFlashV2<T, true, false, false, nz>(o.y, o.sums, o.maxima, o.x, o.factors, o.inSums, o.inMaxima, scratch...,
                                              work.softmax, shape);
  }
}

template <typename T, typename B, typename... Scratch>
void Softmax(const Operands<T, B>& o, Scratch... scratch) {
  work.nz ? SoftmaxIn<true>(o, scratch...) : SoftmaxIn<false>(o, scratch...);
}

// gamma and beta are in the places of the sums and maxima that softmax is given.
template <typename T, typename... Scratch>
void Norm(const Operands<T, T>& o, Scratch... scratch) {
  work.breaks == kStoreSource ? LayerNorm<T, true>(o.y, o.sums, o.maxima, o.x, o.inSums, o.inMaxima, scratch...,
                                                   static_cast<T>(1e-3f), work.layernorm)
                              : LayerNorm<T>(o.y, o.sums, o.maxima, o.x, o.inSums, o.inMaxima, scratch...,
                                             static_cast<T>(1e-3f), work.layernorm);
}

// The same with means and 1 / deviations, which are float; what is not used has no buffer.
template <typename T, typename U, typename... Scratch>
void NormByDeviation(const Operands<T, U>& o, Scratch... scratch) {
  const LayerNormPara para = {work.rows + (work.breaks == kMoreRows ? 1 : 0),
                              work.counted - (work.breaks == kOtherShape ? 1 : 0), work.columns};
  const auto means = o.sums.template ReinterpretCast<float>(), deviations = o.maxima.template ReinterpretCast<float>();
  const LocalTensor<U> none;
  const std::string& f = work.function;
  if (f == "LayerNormRstdNoBeta") {
    LayerNorm<U, T, false, kNoBeta>(o.y, means, deviations, o.x, o.inSums, none, 1e-3f, scratch..., para,
                                    work.separate);
  } else if (f == "LayerNormRstdNoGamma") {
    LayerNorm<U, T, false, kNoGamma>(o.y, means, deviations, o.x, none, o.inMaxima, 1e-3f, scratch..., para,
                                     work.separate);
  } else if (f == "LayerNormRstdAlone") {
    LayerNorm<U, T, false, kNeither>(o.y, means, deviations, o.x, none, none, 1e-3f, scratch..., para, work.separate);
  } else {
    LayerNorm<U, T>(o.y, means, deviations, o.x, o.inSums, o.inMaxima, 1e-3f, scratch..., para, work.separate);
  }
}

// The gradient of the rows is in the place of the sums that softmax is given.
template <bool nz, typename T, typename... Scratch>
void GradientIn(const Operands<T, T>& o, Scratch... scratch) {
  SoftMaxShapeInfo shape = {work.rows, work.columns, work.rows, work.counted};
  if (work.function == "SoftmaxGradFront") {
    SoftmaxGradFront<T, false, nz>(o.sums, o.inSums, o.x, scratch..., work.softmax, shape);
  } else if (work.function == "SoftmaxGradIsFront") {
    SoftmaxGrad<T, false, false, nz>(o.sums, o.inSums, o.x, scratch..., work.softmax, true, shape);
  } else if (work.breaks == kBasicBlock) {
    SoftmaxGrad<T, false, true, nz>(o.y, o.inSums, o.x, scratch..., work.softmax, false, shape);
  } else if (work.breaks == kStoreSource) {
    SoftmaxGrad<T, true, false, nz>(o.y, o.inSums, o.x, scratch..., work.softmax, false, shape);
  } else {
    SoftmaxGrad<T, false, false, nz>(o.y, o.inSums, o.x, scratch..., work.softmax, false, shape);
  }
}

template <typename T, typename... Scratch>
void Gradient(const Operands<T, T>& o, Scratch... scratch) {
  work.nz ? GradientIn<true>(o, scratch...) : GradientIn<false>(o, scratch...);
}

// gamma is in the place of the sums that softmax is given.
template <typename T, typename... Scratch>
void MeanSquare(const Operands<T, T>& o, Scratch... scratch) {
  const auto epsilon = static_cast<T>(1e-3f);
  work.breaks == kBasicBlock ? RmsNorm<T, true>(o.y, o.x, o.inSums, scratch..., epsilon, work.rmsnorm)
                             : RmsNorm<T>(o.y, o.x, o.inSums, scratch..., epsilon, work.rmsnorm);
}

bool Is(const char* name) { return work.function.compare(0, std::string(name).size(), name) == 0; }
bool IsFront() { return Is("SoftmaxGrad") && work.function != "SoftmaxGrad"; }

template <typename T>
GlobalTensor<T> Global(void* address) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer(static_cast<T*>(address), kOperand / sizeof(T));
  return gm;
}

template <typename T, typename B>
void Run(void* const* arguments) {
  TPipe pipe;
  TBuf<> buffers[8], filler;
  for (auto& buffer : buffers) {
    pipe.InitBuffer(buffer, kOperand);
  }
  Operands<T, B> o;
  o.x = buffers[0].Get<T>();
  o.inSums = buffers[1].Get<B>();
  o.inMaxima = buffers[2].Get<B>();
  o.y = buffers[3].Get<T>();
  o.sums = buffers[4].Get<B>();
  o.maxima = buffers[5].Get<B>();
  o.factors = buffers[6].Get<T>();
  o.scratch = buffers[7].Get<uint8_t>();
  o.scratch.SetSize(work.scratchBytes);
  if (work.breaks == kNoRoom) {
    pipe.InitBuffer(filler, 196608 - 8 * kOperand - 32);
  }
  for (int i = 0; i < 3; ++i) {
    DataCopy(buffers[i].Get<T>(), Global<T>(arguments[i]), kOperand / sizeof(T));
  }
  PipeBarrier<PIPE_ALL>();
  constexpr uint32_t block = 32 / sizeof(T);
  const bool norm = Is("LayerNorm") || Is("RmsNorm"), rstd = Is("LayerNormRstd"), gradient = Is("SoftmaxGrad");
  const bool front = IsFront();
  o.y = work.function.find("InPlace") != std::string::npos ? o.x : work.breaks == kShifted ? o.x[block] : o.y;
  o.sums = work.breaks == kSumsAreMaxima ? o.maxima
           : work.breaks == kSumsInRows  ? (front ? o.x : o.y)[block].template ReinterpretCast<B>()
                                         : o.sums;
  o.scratch = work.breaks == kScratchInRows ? o.x.template ReinterpretCast<uint8_t>() : o.scratch;
  if (rstd) {
    work.scratch == kFound ? NormByDeviation(o) : NormByDeviation(o, o.scratch);
  }
  if constexpr (std::is_same<T, B>::value) {
    if (rstd) {
    } else if (Is("LayerNorm")) {
      work.scratch == kFound ? Norm<T>(o) : Norm<T>(o, o.scratch);
    } else if (norm) {
      work.scratch == kFound ? MeanSquare<T>(o) : MeanSquare<T>(o, o.scratch);
    } else if (gradient) {
      work.scratch == kFound ? Gradient<T>(o) : Gradient<T>(o, o.scratch);
    }
  }
  if (!norm && !gradient) {
    work.scratch == kFound ? Softmax(o) : Softmax(o, o.scratch);
  }
  PipeBarrier<PIPE_ALL>();
  const uint32_t kept = work.breaks == kStorePadding ? work.columns : work.counted;
  const auto store = [&](int result, const LocalTensor<T>& rows) {
    const uint32_t width = work.nz ? 16 : work.columns;
    for (uint32_t column = 0; column < kept; column += width) {
      const auto bytes = static_cast<uint32_t>(std::min(width, kept - column) * sizeof(T));
      for (uint32_t row = 0; row < work.rows; ++row) {
        const uint32_t at = column * work.rows + row * width;
        DataCopyPad(Global<T>(arguments[4 + result])[at], rows[at], DataCopyExtParams(1, bytes, 0, 0, 0));
      }
    }
  };
  if (!front) {
    store(0, work.breaks == kStoreSource ? o.x : o.y);
  }
  const bool values = norm;
  const auto blocks = [&](int result, const auto& tensor) {
    using E = typename std::decay<decltype(tensor)>::type::PrimType;
    const auto bytes = static_cast<uint32_t>(work.rows * (values ? sizeof(E) : 32));
    DataCopyPad(Global<E>(arguments[4 + result]), tensor, DataCopyExtParams(1, bytes, 0, 0, 0));
  };
  if (front) {
    blocks(1, o.sums);
  } else if (rstd) {
    blocks(1, o.sums.template ReinterpretCast<float>());
    blocks(2, o.maxima.template ReinterpretCast<float>());
  } else if (!gradient && !Is("SoftMaxAlone") && !Is("SimpleSoftMax") && !Is("RmsNorm")) {
    blocks(1, o.sums);
    blocks(2, o.maxima);
  }
  if (work.function.find("Update") != std::string::npos) {
    blocks(3, o.factors);
  }
}

void Enter(void* const* arguments) {
  work.types == "float,float"  ? Run<float, float>(arguments)
  : work.types == "half,float" ? Run<half, float>(arguments)
                               : Run<half, half>(arguments);
}

void MakeTiling(int64_t given) {
  const uint32_t blockSize = work.types == "half,half" ? 2 : 4;
  const bool norm = Is("LayerNorm"), meanSquare = Is("RmsNorm"), gradient = Is("SoftmaxGrad");
  const bool front = IsFront();
  const ge::Shape rms({1, work.rows, work.columns}), counted({1, work.rows, work.counted});
  const ge::Shape shape(norm ? std::vector<int64_t>{1, work.rows, work.columns, work.counted}
                             : std::vector<int64_t>{work.rows, work.columns});
  uint32_t most = GetSoftMaxMaxTmpSize(shape, blockSize, false), least = GetSoftMaxMinTmpSize(shape, blockSize, false);
  const ge::Shape separate({work.rows, work.counted});
  const uint32_t typeSize = work.types.compare(0, 4, "half") == 0 ? 2 : 4;
  const bool rstd = Is("LayerNormRstd");
  if (rstd) {
    GetLayerNormMaxMinTmpSize(separate, typeSize, false, true, false, most, least);
  } else if (norm) {
    GetLayerNormMaxMinTmpSize(shape, blockSize, false, most, least);
  } else if (meanSquare) {
    GetRmsNormMaxMinTmpSize(rms, blockSize, most, least);
  } else if (gradient) {
    most = GetSoftMaxGradMaxTmpSize(shape, blockSize, front, false);
    least = GetSoftMaxGradMinTmpSize(shape, blockSize, front, false);
  }
  const auto bytes = [&](int64_t asked) {
    return asked == kMost ? most : asked == kLeast ? least : static_cast<uint32_t>(asked);
  };
  if (rstd) {
    GetLayerNormNDTilingInfo(separate, bytes(given), typeSize, false, work.breaks != kOtherNorm, work.separate);
  } else if (norm) {
    GetLayerNormNDTilingInfo(shape, bytes(given), blockSize, false, work.layernorm);
  } else if (meanSquare) {
    GetRmsNormTilingInfo(rms, counted, bytes(given), blockSize, work.rmsnorm);
  } else if (gradient) {
    SoftMaxGradTilingFunc(shape, blockSize, bytes(given), work.softmax, front);
  } else {
    SoftMaxTilingFunc(shape, blockSize, bytes(given), work.softmax);
  }
  work.scratchBytes = work.scratch == kFound ? 0 : bytes(work.scratch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(stderr, "usage: run_library FUNCTION TYPES ROWS COLUMNS COUNTED WORK SCRATCH BREAK FILE\n");
    return 3;
  }
  const auto number = [argv](int i) { return std::strtol(argv[i], nullptr, 10); };
  work.function = argv[1];
  work.nz = work.function.size() > 2 && work.function.compare(work.function.size() - 2, 2, "Nz") == 0;
  work.function.resize(work.function.size() - (work.nz ? 2 : 0));
  work.types = argv[2];
  work.rows = static_cast<uint32_t>(number(3));
  work.columns = static_cast<uint32_t>(number(4));
  work.counted = static_cast<uint32_t>(number(5));
  work.scratch = number(7);
  work.breaks = static_cast<int>(number(8));
  MakeTiling(number(6));
  std::vector<char> memory(2 * kOperands * kOperand);
  std::ifstream(argv[9], std::ios::binary).read(memory.data(), kOperands * kOperand);
  void* arguments[2 * kOperands];
  twin::GmExtent extents[2 * kOperands] = {};
  for (int i = 0; i < 2 * kOperands; ++i) {
    arguments[i] = memory.data() + static_cast<std::size_t>(i) * kOperand;
    extents[i] = {arguments[i], kOperand, i < kOperands ? "operand" : "result", i >= kOperands};
  }
  twin::Launch launch{};
  launch.name = argv[1];
  launch.entry = Enter;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = 2 * kOperands;
  launch.blockDim = 1;
  launch.cores = 1;
  char error[1024];
  const int code = twin::Run(launch, error, sizeof(error));
  if (code != 0) {
    std::printf("%d %s\n", code, error);
    return 1;
  }
  std::fwrite(memory.data() + kOperands * kOperand, 1, kOperands * kOperand, stdout);
  return 0;
}
