// run_calls FILE: runs single instructions. FILE holds records of text lines; the results go to standard output.
// A record: instruction, type, form (count, mask, bits, counter), 12 integers, a scalar, and the bytes of dst, src0,
// src1 in hexadecimal digits. A result: the bytes of dst, or "! " and the trap's report.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ascendc/launch.h"
#include "kernel_operator.h"

namespace {

using namespace AscendC;

constexpr uint32_t kBytes = 4096;

struct Call {
  std::string name;
  std::string type;
  std::string form;
  int64_t count = 0;
  uint64_t bits[2] = {};
  int64_t repeat = 0;
  int64_t dst[2] = {};  // block and repeat stride
  int64_t left[2] = {};
  int64_t right[2] = {};
  int64_t extra = 0;
  double scalar = 0;
};
Call call;

UnaryRepeatParams Unary() {
  return {static_cast<uint16_t>(call.dst[0]), static_cast<uint16_t>(call.left[0]), static_cast<uint8_t>(call.dst[1]),
          static_cast<uint8_t>(call.left[1])};
}
BinaryRepeatParams Binary() {
  return {static_cast<uint8_t>(call.dst[0]), static_cast<uint8_t>(call.left[0]), static_cast<uint8_t>(call.right[0]),
          static_cast<uint8_t>(call.dst[1]), static_cast<uint8_t>(call.left[1]), static_cast<uint8_t>(call.right[1])};
}

// `f(mask)` for the forms with a mask; the count form is the caller's.
template <typename T, typename Count, typename Masked, typename Counter>
void Formed(Count count, Masked masked, Counter counter) {
  if (call.form == "count") {
    count(static_cast<int32_t>(call.count));
  } else if (call.form == "mask") {
    masked(static_cast<uint64_t>(call.count));
  } else if (call.form == "bits") {
    masked(static_cast<const uint64_t*>(call.bits));
  } else {
    SetMaskCount();
    SetVectorMask<T, MaskMode::COUNTER>(0, static_cast<uint64_t>(call.count));
    counter();
    SetMaskNorm();
    ResetMask();
  }
}

#define UNARY(NAME)                                                                                          \
  if (call.name == #NAME) {                                                                                  \
    Formed<T>([&](int32_t n) { NAME(d, a, n); }, [&](auto mask) { NAME(d, a, mask, call.repeat, Unary()); }, \
              [&] { NAME<T, false>(d, a, MASK_PLACEHOLDER, 1, Unary()); });                                  \
  }
#define SCALAR(NAME)                                                                                               \
  if (call.name == #NAME) {                                                                                        \
    const T s = static_cast<T>(call.scalar);                                                                       \
    Formed<T>([&](int32_t n) { NAME(d, a, s, n); }, [&](auto mask) { NAME(d, a, s, mask, call.repeat, Unary()); }, \
              [&] { NAME<T, false>(d, a, s, MASK_PLACEHOLDER, 1, Unary()); });                                     \
  }
#define BINARY(NAME)                                                                                                \
  if (call.name == #NAME) {                                                                                         \
    Formed<T>([&](int32_t n) { NAME(d, a, b, n); }, [&](auto mask) { NAME(d, a, b, mask, call.repeat, Binary()); }, \
              [&] { NAME<T, false>(d, a, b, MASK_PLACEHOLDER, 1, Binary()); });                                     \
  }

template <typename T>
void Elementwise(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<T>& b) {
  BINARY(Add)
  BINARY(Sub)
  BINARY(Mul)
  BINARY(Max)
  BINARY(Min)
  SCALAR(Adds)
  SCALAR(Muls)
  SCALAR(Maxs)
  SCALAR(Mins)
  UNARY(Relu)
  if (call.name == "Duplicate") {
    const T s = static_cast<T>(call.scalar);
    Formed<T>([&](int32_t n) { Duplicate(d, s, n); },
              [&](auto mask) {
                Duplicate(d, s, mask, call.repeat, static_cast<uint16_t>(call.dst[0]),
                          static_cast<uint8_t>(call.dst[1]));
              },
              [] {});
  }
  if (call.name == "CreateVecIndex") {
    LocalTensor<T> to = d;
    Formed<T>([&](int32_t n) { CreateVecIndex(to, static_cast<T>(call.scalar), static_cast<uint32_t>(n)); },
              [&](auto mask) {
                CreateVecIndex(to, static_cast<T>(call.scalar), mask, call.repeat, static_cast<uint16_t>(call.dst[0]),
                               static_cast<uint8_t>(call.dst[1]));
              },
              [] {});
  }
  if (call.name == "Copy") {
    const CopyRepeatParams p(static_cast<uint16_t>(call.dst[0]), static_cast<uint16_t>(call.left[0]),
                             static_cast<uint16_t>(call.dst[1]), static_cast<uint16_t>(call.left[1]));
    Formed<T>([](int32_t) {}, [&](auto mask) { Copy(d, a, mask, call.repeat, p); },
              [&] { Copy<T, false>(d, a, MASK_PLACEHOLDER, 1, p); });
  }
  if (call.name == "Brcb") {
    Brcb(d, a, static_cast<uint8_t>(call.repeat),
         {static_cast<uint16_t>(call.dst[0]), static_cast<uint16_t>(call.dst[1])});
  }
  if (call.name == "ArithProgression") {
    ArithProgression(d, static_cast<T>(call.scalar), static_cast<T>(call.extra), static_cast<int32_t>(call.count));
  }
  if (call.name == "GatherMask") {
    uint64_t kept = 0;
    const GatherMaskParams p(static_cast<uint8_t>(call.left[0]), static_cast<uint16_t>(call.repeat),
                             static_cast<uint16_t>(call.left[1]), static_cast<uint8_t>(call.right[1]));
    if (call.extra != 0) {
      GatherMask(d, a, static_cast<uint8_t>(call.extra), call.count != 0, static_cast<uint32_t>(call.count), p, kept);
    } else {
      using Bits = typename std::conditional<sizeof(T) == 2, uint16_t, uint32_t>::type;
      GatherMask(d, a, b.template ReinterpretCast<Bits>(), false, 0, p, kept);
    }
  }
}

template <typename T>
void Floating(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& tmp) {
  BINARY(Div)
  UNARY(Abs)
  UNARY(Exp)
  UNARY(Ln)
  UNARY(Sqrt)
  UNARY(Rsqrt)
  UNARY(Reciprocal)
  SCALAR(LeakyRelu)
  if (call.name == "Axpy") {
    const T s = static_cast<T>(call.scalar);
    Formed<T>([&](int32_t n) { Axpy(d, a, s, n); }, [&](auto mask) { Axpy(d, a, s, mask, call.repeat, Unary()); },
              [&] { Axpy<T, T, false>(d, a, s, MASK_PLACEHOLDER, 1, Unary()); });
  }
  if (call.name == "MulAddDst") {
    Formed<T>([&](int32_t n) { MulAddDst(d, a, b, n); },
              [&](auto mask) { MulAddDst(d, a, b, mask, call.repeat, Binary()); },
              [&] { MulAddDst<T, T, false>(d, a, b, MASK_PLACEHOLDER, 1, Binary()); });
  }
  BINARY(FusedMulAdd)
  const auto mask = static_cast<int32_t>(call.count);
  const auto dstRep = static_cast<int32_t>(call.dst[1]);
  const auto blk = static_cast<int32_t>(call.left[0]);
  const auto rep = static_cast<int32_t>(call.left[1]);
  const auto order = static_cast<ReduceOrder>(call.extra);
  const bool whole = call.form == "count";
  const bool byBits = call.form == "bits";
#define REDUCE(NAME, ...)                                               \
  if (call.name == #NAME) {                                             \
    whole    ? NAME(d, a, tmp, mask __VA_ARGS__)                        \
    : byBits ? NAME(d, a, tmp, call.bits, call.repeat, rep __VA_ARGS__) \
             : NAME(d, a, tmp, mask, call.repeat, rep __VA_ARGS__);     \
  }
  REDUCE(ReduceSum)
  REDUCE(ReduceMax, , call.extra != 0)
  REDUCE(ReduceMin, , call.extra != 0)
#define WHOLE(NAME, ...)                                                      \
  if (call.name == #NAME) {                                                   \
    byBits ? NAME(d, a, call.bits, call.repeat, dstRep, blk, rep __VA_ARGS__) \
           : NAME(d, a, mask, call.repeat, dstRep, blk, rep __VA_ARGS__);     \
  }
  WHOLE(WholeReduceSum)
  WHOLE(WholeReduceMax, , order)
  WHOLE(WholeReduceMin, , order)
#define BLOCKS(NAME)                                                                                                 \
  if (call.name == #NAME) {                                                                                          \
    byBits ? NAME(d, a, call.repeat, call.bits, dstRep, blk, rep) : NAME(d, a, call.repeat, mask, dstRep, blk, rep); \
  }
  BLOCKS(BlockReduceSum)
  BLOCKS(BlockReduceMax)
  BLOCKS(BlockReduceMin)
  BLOCKS(PairReduceSum)
  const auto mode = static_cast<CMPMODE>(call.extra);
  if (call.name == "Compare") {
    const auto bits = d.template ReinterpretCast<uint8_t>();
    whole ? Compare(bits, a, b, mode, static_cast<uint32_t>(call.count))
          : Compare(bits, a, b, mode, call.bits, call.repeat, Binary());
  }
  if (call.name == "CompareScalar") {
    const auto bits = d.template ReinterpretCast<uint8_t>();
    const T s = static_cast<T>(call.scalar);
    whole ? CompareScalar(bits, a, s, mode, static_cast<uint32_t>(call.count))
          : CompareScalar(bits, a, s, mode, call.bits, call.repeat, Unary());
  }
  // The bits are those of src1, or of scratch that holds a copy of src1 where both tensors are chosen from.
  if (call.name == "Select") {
    const auto selected = static_cast<SELMODE>(call.extra);
    const auto bits = b.template ReinterpretCast<uint8_t>();
    const T s = static_cast<T>(call.scalar);
    if (selected == SELMODE::VSEL_TENSOR_SCALAR_MODE) {
      whole ? Select(d, bits, a, s, selected, static_cast<uint32_t>(call.count))
            : Select(d, bits, a, s, selected, call.bits, call.repeat, Binary());
    } else {
      whole ? Select(d, bits, a, b, selected, static_cast<uint32_t>(call.count))
            : Select(d, bits, a, b, selected, call.bits, call.repeat, Binary());
    }
  }
}

// The mask's register, by the form of the call; then f().
template <typename T, typename F>
void WithMask(F f) {
  if (call.form == "counter") {
    SetMaskCount();
    SetVectorMask<T, MaskMode::COUNTER>(0, static_cast<uint64_t>(call.count));
  } else if (call.form == "bits") {
    SetVectorMask<T>(call.bits[1], call.bits[0]);
  } else {
    SetVectorMask<T>(static_cast<int32_t>(call.count));
  }
  f();
  SetMaskNorm();
  ResetMask();
}

template <typename T>
void ByRegister(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& tmp) {
  const auto repeat = static_cast<uint8_t>(call.repeat);
  // The register begins as the first bytes of dst, and ends there.
  if (call.name == "CompareRegister") {
    const auto mode = static_cast<CMPMODE>(call.extra);
    SetCmpMask(d);
    Formed<T>([](int32_t) {}, [&](auto mask) { Compare(a, b, mode, mask, Binary()); },
              [&] { Compare<T, false>(a, b, mode, MASK_PLACEHOLDER, Binary()); });
    GetCmpMask(tmp);
    Copy(d.template ReinterpretCast<uint16_t>(), tmp.template ReinterpretCast<uint16_t>(), static_cast<uint64_t>(8), 1,
         CopyRepeatParams(1, 1, 8, 8));
  }
  // The bits are those of src1, as for Select.
  if (call.name == "SelectRegister") {
    const auto bits = b.template ReinterpretCast<uint8_t>();
    if (call.extra == 0) {
      SetCmpMask(bits);
      WithMask<T>([&] { Select<T, SELMODE::VSEL_CMPMASK_SPR>(d, a, b, repeat, Binary()); });
    } else if (call.extra == 1) {
      Duplicate(tmp, static_cast<T>(call.scalar), static_cast<int32_t>(16 / sizeof(T)));
      SetCmpMask(tmp);
      WithMask<T>([&] { Select<T, uint8_t>(d, bits, a, repeat, Binary()); });
    } else {
      const auto address = tmp.template ReinterpretCast<uint32_t>();
      address.SetValue(0, static_cast<uint32_t>(bits.GetPhyAddr()));
      SetFlag<HardEvent::S_V>(EVENT_ID1);
      WaitFlag<HardEvent::S_V>(EVENT_ID1);
      SetCmpMask(address);
      WithMask<T>([&] { Select<T, SELMODE::VSEL_TENSOR_TENSOR_MODE>(d, a, b, repeat, Binary()); });
    }
  }
}

// Blocks that lie dst[0] and left[0] blocks apart; `scalar` says how their addresses are given, `extra` which halves of
// blocks are meant.
template <typename T>
void Transposes(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<uint64_t>& tmp) {
  const TransDataTo5HDParams p((call.extra & 1) != 0, (call.extra & 2) != 0, static_cast<uint8_t>(call.repeat),
                               static_cast<uint16_t>(call.dst[1]), static_cast<uint16_t>(call.left[1]));
  const auto block = [](const LocalTensor<T>& of, int64_t apart, int i) {
    return of[static_cast<uint32_t>(i * apart * 32 / static_cast<int64_t>(sizeof(T)))];
  };
  LocalTensor<T> to[NCHW_CONV_ADDR_LIST_SIZE], from[NCHW_CONV_ADDR_LIST_SIZE];
  uint64_t toAddress[NCHW_CONV_ADDR_LIST_SIZE], fromAddress[NCHW_CONV_ADDR_LIST_SIZE];
  for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
    to[i] = block(d, call.dst[0], i);
    from[i] = block(a, call.left[0], i);
    toAddress[i] = to[i].GetPhyAddr();
    fromAddress[i] = from[i].GetPhyAddr();
    tmp.SetValue(static_cast<uint32_t>(i), toAddress[i]);
    tmp.SetValue(static_cast<uint32_t>(NCHW_CONV_ADDR_LIST_SIZE + i), fromAddress[i]);
  }
  SetFlag<HardEvent::S_V>(EVENT_ID1);
  WaitFlag<HardEvent::S_V>(EVENT_ID1);
  if (call.scalar == 0) {
    TransDataTo5HD<T>(toAddress, fromAddress, p);
  } else if (call.scalar == 1) {
    const LocalTensor<T>(&toList)[NCHW_CONV_ADDR_LIST_SIZE] = to;
    const LocalTensor<T>(&fromList)[NCHW_CONV_ADDR_LIST_SIZE] = from;
    TransDataTo5HD<T>(toList, fromList, p);
  } else {
    TransDataTo5HD<T>(tmp, tmp[NCHW_CONV_ADDR_LIST_SIZE], p);
  }
}

// Four lists of records, a quarter of src0 each; the strides are their lengths, `count` is validBit, and the scalar
// asks for suspension. The four counts follow the records, where `extra` says.
template <typename T>
void Merges(const LocalTensor<T>& d, const LocalTensor<T>& a) {
  const uint16_t lengths[] = {static_cast<uint16_t>(call.dst[0]), static_cast<uint16_t>(call.dst[1]),
                              static_cast<uint16_t>(call.left[0]), static_cast<uint16_t>(call.left[1])};
  const MrgSort4Info info(lengths, call.scalar != 0, static_cast<uint16_t>(call.count),
                          static_cast<uint16_t>(call.repeat));
  const uint32_t apart = call.repeat > 1 ? GetSortLen<T>(lengths[0]) : kBytes / 4 / sizeof(T);
  MrgSort(d, MrgSortSrcList<T>(a, a[apart], a[2 * apart], a[3 * apart]), info);
  uint16_t taken[4];
  GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
  const auto counts = d.template ReinterpretCast<uint32_t>()[static_cast<uint32_t>(call.extra)];
  SetFlag<HardEvent::S_V>(EVENT_ID1);
  WaitFlag<HardEvent::S_V>(EVENT_ID1);
  for (uint32_t list = 0; list < 4; ++list) {
    Duplicate(counts[list * 8], static_cast<uint32_t>(taken[list]), 8);
  }
}

template <typename T>
void Sorts(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<T>& b, LocalTensor<T> tmp) {
  const auto index = b.template ReinterpretCast<uint32_t>();
  const auto repeat = static_cast<int32_t>(call.repeat);
  if (call.name == "Sort32") {
    Sort32(d, a, index, repeat);
  }
  if (call.name == "MrgSort") {
    Merges(d, a);
  }
  if (call.name == "Sort") {
    LocalTensor<T> keys;
    Concat(keys, a, tmp, repeat * 2);
    call.extra != 0 ? Sort<T, true>(d, keys, index, tmp, repeat) : Sort<T, false>(d, keys, index, tmp, repeat);
  }
  if (call.name == "Extract") {
    Extract(d, d[kBytes / 2 / sizeof(T)].template ReinterpretCast<uint32_t>(), a, repeat);
  }
  if (call.name == "Gatherb") {
    Gatherb(d, a, index, static_cast<uint8_t>(call.repeat),
            {static_cast<uint16_t>(call.dst[0]), static_cast<uint16_t>(call.dst[1])});
  }
}

template <typename T>
void Shifts(const LocalTensor<T>& d, const LocalTensor<T>& a, const LocalTensor<T>&) {
  SCALAR(ShiftLeft)
  SCALAR(ShiftRight)
}

template <typename D, typename S>
void Casts(const LocalTensor<D>& d, const LocalTensor<S>& a) {
  const auto mode = static_cast<RoundMode>(call.extra);
  Formed<S>([&](int32_t n) { Cast(d, a, mode, static_cast<uint32_t>(n)); },
            [&](auto mask) { Cast(d, a, mode, mask, call.repeat, Unary()); },
            [&] { Cast<D, S, false>(d, a, mode, MASK_PLACEHOLDER, 1, Unary()); });
}

struct Buffers {
  TBuf<> dst, left, right, scratch;
  template <typename D, typename S>
  void Cast() {
    Casts(dst.Get<D>(), left.Get<S>());
  }
};

void Kernel(void* const* arguments) {
  TPipe pipe;
  Buffers b;
  TBuf<>* all[] = {&b.dst, &b.left, &b.right};
  const auto id = EVENT_ID0;
  for (int i = 0; i < 3; ++i) {
    pipe.InitBuffer(*all[i], kBytes);
    GlobalTensor<uint8_t> gm;
    gm.SetGlobalBuffer(static_cast<uint8_t*>(arguments[i]), kBytes);
    DataCopy(all[i]->Get<uint8_t>(), gm, kBytes);
  }
  pipe.InitBuffer(b.scratch, kBytes);
  SetFlag<HardEvent::MTE2_V>(id);
  WaitFlag<HardEvent::MTE2_V>(id);
  if (call.name == "TransDataTo5HD") {
    const auto addresses = b.scratch.Get<uint64_t>();
    call.type == "float"  ? Transposes(b.dst.Get<float>(), b.left.Get<float>(), addresses)
    : call.type == "half" ? Transposes(b.dst.Get<half>(), b.left.Get<half>(), addresses)
                          : Transposes(b.dst.Get<int8_t>(), b.left.Get<int8_t>(), addresses);
  } else if (call.type == "float") {
    Elementwise(b.dst.Get<float>(), b.left.Get<float>(), b.right.Get<float>());
    Floating(b.dst.Get<float>(), b.left.Get<float>(), b.right.Get<float>(), b.scratch.Get<float>());
    Sorts(b.dst.Get<float>(), b.left.Get<float>(), b.right.Get<float>(), b.scratch.Get<float>());
    ByRegister(b.dst.Get<float>(), b.left.Get<float>(), b.right.Get<float>(), b.scratch.Get<float>());
  } else if (call.type == "half") {
    Elementwise(b.dst.Get<half>(), b.left.Get<half>(), b.right.Get<half>());
    Floating(b.dst.Get<half>(), b.left.Get<half>(), b.right.Get<half>(), b.scratch.Get<half>());
    Sorts(b.dst.Get<half>(), b.left.Get<half>(), b.right.Get<half>(), b.scratch.Get<half>());
    ByRegister(b.dst.Get<half>(), b.left.Get<half>(), b.right.Get<half>(), b.scratch.Get<half>());
    if (call.name == "Transpose") {
      Transpose(b.dst.Get<half>(), b.left.Get<half>());
    }
  } else if (call.type == "int32") {
    Elementwise(b.dst.Get<int32_t>(), b.left.Get<int32_t>(), b.right.Get<int32_t>());
    Shifts(b.dst.Get<int32_t>(), b.left.Get<int32_t>(), b.right.Get<int32_t>());
  } else if (call.type == "float>half") {
    b.Cast<half, float>();
  } else if (call.type == "float>bfloat16") {
    b.Cast<bfloat16_t, float>();
  } else if (call.type == "float>int32") {
    b.Cast<int32_t, float>();
  } else if (call.type == "float>float") {
    b.Cast<float, float>();
  } else if (call.type == "half>float") {
    b.Cast<float, half>();
  } else if (call.type == "int32>float") {
    b.Cast<float, int32_t>();
  } else if (call.type == "half>int8") {
    b.Cast<int8_t, half>();
  }
  SetFlag<HardEvent::V_MTE3>(id);
  WaitFlag<HardEvent::V_MTE3>(id);
  GlobalTensor<uint8_t> out;
  out.SetGlobalBuffer(static_cast<uint8_t*>(arguments[3]), kBytes);
  DataCopy(out, b.dst.Get<uint8_t>(), kBytes);
}

std::vector<uint8_t> Bytes(const std::string& digits) {
  std::vector<uint8_t> bytes(kBytes);
  for (std::size_t i = 0; i < digits.size() / 2 && i < kBytes; ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

void Run(std::vector<std::vector<uint8_t>> inputs) {
  std::vector<uint8_t> out(kBytes);
  void* arguments[] = {inputs[0].data(), inputs[1].data(), inputs[2].data(), out.data()};
  const twin::GmExtent extents[] = {{arguments[0], kBytes, "dst", false},
                                    {arguments[1], kBytes, "src0", false},
                                    {arguments[2], kBytes, "src1", false},
                                    {arguments[3], kBytes, "out", true}};
  twin::Launch launch{};
  launch.name = call.name.c_str();
  launch.entry = Kernel;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = 4;
  launch.blockDim = 1;
  launch.cores = 1;
  char error[1024];
  if (twin::Run(launch, error, sizeof(error)) != 0) {
    std::printf("! %s\n", error);
    return;
  }
  for (const uint8_t byte : out) {
    std::printf("%02x", byte);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string digits[3];
    words >> call.name >> call.type >> call.form >> call.count >> call.bits[0] >> call.bits[1] >> call.repeat;
    words >> call.dst[0] >> call.dst[1] >> call.left[0] >> call.left[1] >> call.right[0] >> call.right[1];
    words >> call.extra >> call.scalar >> digits[0] >> digits[1] >> digits[2];
    Run({Bytes(digits[0]), Bytes(digits[1]), Bytes(digits[2])});
  }
  return 0;
}
