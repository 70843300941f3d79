// c[m, n] = a[m, k] b[k, n], a block of rows of c per vector core: correct kernels, and broken versions of them.
#pragma once
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

namespace cases {

using namespace AscendC;

constexpr uint32_t BLOCK_ROWS = 32;  // of c per product

struct ProductTiling {
  tiling::TCubeTiling mm;
  uint32_t m;
  uint32_t n;
  uint32_t k;
  uint32_t pitchA;
  uint32_t pitchB;
  uint32_t pitchC;
  uint32_t breaks;  // which rule a broken kernel breaks
};

struct Arguments {
  GM_ADDR a;
  GM_ADDR b;
  GM_ADDR c;
  GM_ADDR workspace;
  GM_ADDR tiling;
};

enum Break : uint32_t {
  NOTHING,
  NO_WAIT,
  NO_END,
  NO_REGISTER,
  LATE_REGISTER,
  FIVE_OBJECTS,
  WRONG_SINGLE,
  PITCH_LATE,
  NARROW_PITCH,
  WIDE_PITCH,
  NO_B,
  WRONG_TRANSPOSE,
  WAIT_TWICE,
  WAIT_WITHOUT_ASKING,
  LOAD_BEFORE_WAIT,
  SLOT_STILL_LOADED,
  INPUT_STILL_STORED,
  NO_ITERATE,
  BIAS_WITHOUT_TILING,
  PAST_TENSOR,
  UNDEFINED_OPERAND,
  ATOMIC_UNKNOWN,
  ATOMIC_ON_NOTHING,
  ATOMIC_IN_VECIN,
  OPERANDS_OVERWRITTEN,  // after the first tile, which no rule forbids
  NO_WORKSPACE,
  TILE_TOO_MANY,
  SYNC_AFTER_ASYNC,
  READ_BEFORE_TAKEN,
  WORKSPACE_STILL_READ,
  UNWRITTEN_OPERAND,
  PARTLY_UNWRITTEN_OPERAND
};

template <typename T>
GlobalTensor<T> Tensor(GM_ADDR address, uint64_t count) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<T*>(address), count);
  return tensor;
}

template <typename T, bool transA, bool transB, CubeFormat FORMAT = CubeFormat::ND, CubeFormat RESULT = CubeFormat::ND>
struct Product {
  using A = MatmulType<TPosition::GM, FORMAT, T, transA>;
  using B = MatmulType<TPosition::GM, FORMAT, T, transB>;
  using C = MatmulType<TPosition::GM, RESULT, float>;
  matmul::Matmul<A, B, C> mm;
  GlobalTensor<T> a;
  GlobalTensor<T> b;
  GlobalTensor<float> c;
  ProductTiling t;
  uint32_t resultPitch = 0;

  void Open(const Arguments& arguments, const ProductTiling& tiling) {
    t = tiling;
    resultPitch = t.pitchC;
    a = Tensor<T>(arguments.a, Stored(transA ? t.k : t.m, t.pitchA));
    b = Tensor<T>(arguments.b, Stored(transB ? t.n : t.k, t.pitchB));
    const bool nz = RESULT == CubeFormat::NZ;
    c = Tensor<float>(arguments.c, nz ? Padded(t.m) * Padded(t.n) : static_cast<uint64_t>(t.m) * t.pitchC);
  }
  // Where a row of the result starts: in NZ its first 16 columns.
  uint64_t RowAt(uint32_t row) const { return static_cast<uint64_t>(row) * (RESULT == CubeFormat::NZ ? 16 : t.pitchC); }
  // Rows from `row` on: everything but the result's place.
  void Prepare(uint32_t row) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    mm.SetOrgShape(static_cast<int>(transA ? t.pitchA : t.m), static_cast<int>(transB ? t.n : t.pitchB),
                   static_cast<int>(transA ? t.k : t.pitchA), static_cast<int>(transB ? t.pitchB : t.k),
                   static_cast<int>(resultPitch));
    mm.SetSingleShape(static_cast<int>(rows), static_cast<int>(t.n), static_cast<int>(t.k));
    // In NZ a group of columns has 32 bytes of each row, and the next one lies behind all its rows.
    const uint64_t nz = transA ? static_cast<uint64_t>(row) * Padded(t.k) : static_cast<uint64_t>(row) * 32 / sizeof(T);
    const uint64_t nd = transA ? row : static_cast<uint64_t>(row) * t.pitchA;
    mm.SetTensorA(a[FORMAT == CubeFormat::NZ ? nz : nd], transA);
    mm.SetTensorB(b, transB);
  }
  static uint64_t Padded(uint64_t rows) { return (rows + 15) / 16 * 16; }
  static uint64_t Stored(uint64_t rows, uint64_t columns) {
    const uint64_t width = 32 / sizeof(T);
    return FORMAT == CubeFormat::NZ ? (columns + width - 1) / width * width * Padded(rows) : rows * columns;
  }
  uint32_t First() const { return static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; }
  uint32_t Step() const { return static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS; }
};

#define UNTYPED_PRODUCT_ENTRY(arguments)  \
  REGISTER_TILING_DEFAULT(ProductTiling); \
  GET_TILING_DATA(t, arguments.tiling);   \
  TPipe pipe

#define PRODUCT_ENTRY(arguments)                     \
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); \
  UNTYPED_PRODUCT_ENTRY(arguments)

template <typename T, bool transA, bool transB, CubeFormat FORMAT = CubeFormat::ND, CubeFormat RESULT = CubeFormat::ND>
void MultiplyRows(const Arguments& arguments, ProductTiling& t, TPipe& pipe) {
  Product<T, transA, transB, FORMAT, RESULT> p;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), p.mm, &t.mm);
  p.Open(arguments, t);
  for (uint32_t row = p.First(); row < t.m; row += p.Step()) {
    p.Prepare(row);
    p.mm.IterateAll(p.c[p.RowAt(row)]);
    p.mm.End();
  }
}

template <typename T, bool transA, bool transB, CubeFormat FORMAT = CubeFormat::ND, CubeFormat RESULT = CubeFormat::ND>
void WholeProduct(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  MultiplyRows<T, transA, transB, FORMAT, RESULT>(arguments, t, pipe);
}

// No type is declared: the Matmul object says that the kernel is of both kinds of core.
inline void WithoutTaskType(const Arguments& arguments) {
  UNTYPED_PRODUCT_ENTRY(arguments);
  MultiplyRows<float, false, false>(arguments, t, pipe);
}

// The same tile by tile, k in two halves: the second is added in GM.
template <typename T, CubeFormat RESULT = CubeFormat::ND>
void TiledProduct(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  Product<T, false, false, CubeFormat::ND, RESULT> p;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), p.mm, &t.mm);
  p.Open(arguments, t);
  const uint32_t half = t.k / 2;
  for (uint32_t row = p.First(); row < t.m; row += p.Step()) {
    for (uint32_t from = 0; from < t.k; from += half == 0 ? t.k : (from == 0 ? half : t.k - half)) {
      p.Prepare(row);
      p.mm.SetTail(-1, -1, static_cast<int>(half == 0 ? t.k : (from == 0 ? half : t.k - half)));
      p.mm.SetTensorA(p.a[static_cast<uint64_t>(row) * t.pitchA + from]);
      p.mm.SetTensorB(p.b[static_cast<uint64_t>(from) * t.pitchB]);
      while (p.mm.Iterate()) {
        p.mm.GetTensorC(p.c[p.RowAt(row)], from == 0 ? 0 : 1);
      }
      p.mm.End();
    }
  }
}

// Asynchronous: the product of a block runs while the vector core copies the block before it from a slot of the
// workspace to c. Two objects and two slots take turns.
class AheadProduct {
 public:
  void Run(const Arguments& arguments) {
    PRODUCT_ENTRY(arguments);
    broken_ = static_cast<Break>(t.breaks);
    TBuf<TPosition::VECCALC> buffer;
    if (broken_ == LATE_REGISTER) {
      pipe.InitBuffer(buffer, 32);
    }
    if (broken_ != NO_REGISTER) {
      REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), p_[0].mm, &t.mm, p_[1].mm, (TCubeTiling*)nullptr);
      p_[1].mm.Init(&t.mm);
    }
    if (broken_ == FIVE_OBJECTS) {
      Product<float, false, false> more[3];
      REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), more[0].mm, &t.mm, more[1].mm, &t.mm, more[2].mm, &t.mm);
    }
    p_[0].Open(arguments, t);
    p_[1].Open(arguments, t);
    p_[0].resultPitch = p_[1].resultPitch = t.n;
    const uint64_t cores = static_cast<uint64_t>(GetBlockNum() * GetSubBlockNum());
    slotElements_ = static_cast<uint64_t>(BLOCK_ROWS) * t.n;
    slots_ = Tensor<float>(GetUserWorkspace(arguments.workspace),
                           2 * slotElements_ * cores)[2 * slotElements_ * static_cast<uint64_t>(GetBlockIdx())];
    pipe.InitBuffer(buffer, BLOCK_ROWS * t.n * static_cast<uint32_t>(sizeof(float)));
    block_ = buffer.Get<float>();
    uint32_t i = 0;
    for (uint32_t row = p_[0].First(); row < t.m; row += p_[0].Step(), ++i) {
      Issue(row, i % 2);
      if (i > 0) {
        Finish(row - p_[0].Step(), (i + 1) % 2);
      }
    }
    if (i > 0) {
      Finish(p_[0].First() + (i - 1) * p_[0].Step(), (i + 1) % 2);
    }
  }

 private:
  void Issue(uint32_t row, uint32_t turn) {
    auto& p = p_[turn];
    p.Prepare(row);
    const int n = static_cast<int>(p.t.n);
    const int k = static_cast<int>(p.t.k);
    uint8_t atomic = 0;
    switch (broken_) {
      case PITCH_LATE:
        p.mm.SetOrgShape(n, n, k, k);
        break;
      case NARROW_PITCH:
        p.mm.End();
        p.mm.SetOrgShape(n, n, k - 1, k);
        SetBoth(p);
        break;
      case WIDE_PITCH:
        p.mm.End();
        p.mm.SetOrgShape(n, n, 65536, k);
        SetBoth(p);
        break;
      case NO_B:
        p.mm.End();
        p.mm.SetTensorA(p.a);
        break;
      case WRONG_TRANSPOSE:
        p.mm.SetTensorB(p.b, true);
        break;
      case WRONG_SINGLE:
        p.mm.SetSingleShape(static_cast<int>(BLOCK_ROWS) + 1, -1, -1);
        break;
      case BIAS_WITHOUT_TILING:
        p.mm.SetBias(p.c);
        break;
      case NO_ITERATE:
        p.mm.GetTensorC(Slot(turn));
        break;
      case PAST_TENSOR:
        p.mm.SetTensorB(p.b[p.t.pitchB]);
        break;
      case ATOMIC_UNKNOWN:
        atomic = 4;
        break;
      case ATOMIC_ON_NOTHING:
        atomic = 1;
        break;
      case UNWRITTEN_OPERAND:
        p.mm.SetTensorA(Slot(1 - turn));
        p.mm.SetSingleShape(1, -1, -1);
        break;
      case PARTLY_UNWRITTEN_OPERAND:
        // All of the row but its last 8 elements.
        Duplicate(block_, 1.0f, static_cast<int32_t>(p.t.k));
        Wait<HardEvent::V_MTE3>();
        DataCopyPad(Slot(1 - turn), block_, Rows(1, p.t.k - 8, p.t.k));
        Wait<HardEvent::MTE3_S>();
        p.mm.SetTensorA(Slot(1 - turn));
        p.mm.SetSingleShape(1, -1, -1);
        Wait<HardEvent::MTE3_V>();
        Wait<HardEvent::V_MTE2>();
        break;
      case INPUT_STILL_STORED:
        // A is a row that this core's own store may not have written yet.
        Duplicate(block_, 1.0f, static_cast<int32_t>(p.t.k));
        Wait<HardEvent::V_MTE3>();
        DataCopyPad(Slot(1 - turn), block_, Rows(1, p.t.k, p.t.k));
        p.mm.SetTensorA(Slot(1 - turn));
        p.mm.SetSingleShape(1, -1, -1);
        Wait<HardEvent::MTE3_V>();
        Wait<HardEvent::V_MTE2>();
        break;
      default:
        break;
    }
    p.mm.IterateAll<false>(Slot(turn), atomic, false, broken_ != WAIT_WITHOUT_ASKING);
  }
  void Finish(uint32_t row, uint32_t turn) {
    auto& p = p_[turn];
    const uint32_t rows = p.t.m - row < BLOCK_ROWS ? p.t.m - row : BLOCK_ROWS;
    if (broken_ == LOAD_BEFORE_WAIT) {
      Load(rows, turn);
    }
    if (broken_ != NO_WAIT) {
      p.mm.WaitIterateAll();
    }
    if (broken_ == WAIT_TWICE) {
      p.mm.WaitIterateAll();
    }
    if (broken_ != NO_END) {
      p.mm.End();
    }
    if (broken_ != LOAD_BEFORE_WAIT) {
      Load(rows, turn);
    }
    Wait<HardEvent::MTE2_MTE3>();
    DataCopyPad(p.c[static_cast<uint64_t>(row) * p.t.pitchC], block_, Rows(rows, p.t.n, p.t.pitchC));
    Wait<HardEvent::MTE3_MTE2>();
    if (broken_ != SLOT_STILL_LOADED) {
      Wait<HardEvent::MTE2_S>();
    }
  }
  void SetBoth(Product<float, false, false>& p) {
    p.mm.SetTensorA(p.a);
    p.mm.SetTensorB(p.b);
  }
  void Load(uint32_t rows, uint32_t turn) {
    DataCopyPad(block_, Slot(turn), DataCopyExtParams(1, rows * p_[turn].t.n * 4, 0, 0, 0),
                DataCopyPadExtParams<float>(false, 0, 0, 0));
  }
  template <HardEvent event>
  static void Wait() {
    const auto id = GetTPipePtr()->FetchEventID(event);
    SetFlag<event>(id);
    WaitFlag<event>(id);
  }
  GlobalTensor<float> Slot(uint32_t turn) { return slots_[slotElements_ * turn]; }
  // n is a multiple of 8 here, so rows lie dense in the unified buffer.
  static DataCopyExtParams Rows(uint32_t rows, uint32_t count, uint32_t pitch) {
    return DataCopyExtParams(static_cast<uint16_t>(rows), count * 4, 0, (pitch - count) * 4, 0);
  }

  Break broken_ = NOTHING;
  Product<float, false, false> p_[2];
  GlobalTensor<float> slots_;
  uint64_t slotElements_ = 0;
  LocalTensor<float> block_;
};

inline void AheadProductEntry(const Arguments& arguments) {
  AheadProduct kernel;
  kernel.Run(arguments);
}

// One object is left open while another is used.
inline void TwoOpenObjects(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  Product<float, false, false> p;
  Product<float, false, false> other;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), p.mm, &t.mm, other.mm, &t.mm);
  p.Open(arguments, t);
  other.Open(arguments, t);
  p.Prepare(0);
  p.mm.IterateAll(p.c);
  other.Prepare(0);
}

inline void OnVectorCores(const Arguments& arguments) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  UNTYPED_PRODUCT_ENTRY(arguments);
  Product<float, false, false> p;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), p.mm, &t.mm);
}

}  // namespace cases
