// What Matmul writes: C or a tile of it, to GM or to the unified buffer.
#pragma once
#include <algorithm>
#include <cmath>

#include "ascendc/pipe.h"
#include "ascendc/tensor.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
T FromAccumulator(float value) {
  if constexpr (std::is_same<T, bfloat16_t>::value) {
    return ToBfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
float ToAccumulator(T value) {
  if constexpr (std::is_same<T, bfloat16_t>::value) {
    return ToFloat(value);
  } else {
    return static_cast<float>(value);
  }
}

// Outputs and workspace start as a pattern (launch_plan.cpp).
template <typename CT>
bool Untouched(const CT* row, uint32_t count) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  for (uint64_t i = 0; i < count * sizeof(CT); ++i) {
    if (bytes[i] != 0xA5) {
      return false;
    }
  }
  return true;
}

// Writes a row of results, or adds it, or keeps the larger or the smaller (enAtomic 0 to 3).
template <typename CT>
void Combine(const float* from, CT* to, uint32_t count, uint8_t enAtomic) {
  switch (enAtomic) {
    case 0:
      for (uint32_t i = 0; i < count; ++i) {
        to[i] = FromAccumulator<CT>(from[i]);
      }
      break;
    case 1:
      for (uint32_t i = 0; i < count; ++i) {
        const auto rounded = ToAccumulator(FromAccumulator<CT>(from[i]));
        to[i] = FromAccumulator<CT>(ToAccumulator(to[i]) + rounded);
      }
      break;
    default:
      for (uint32_t i = 0; i < count; ++i) {
        const float old = ToAccumulator(to[i]);
        const float value = ToAccumulator(FromAccumulator<CT>(from[i]));
        to[i] = FromAccumulator<CT>((enAtomic == 2) == (value > old) ? value : old);
      }
      break;
  }
}

// `rows` x `columns` floats, dense in the cube's scratch, as C lies: row by row, or in groups of 16 columns (NZ), as
// L0C holds results of any type.
template <typename CT, bool nz>
class MatmulResult {
 public:
  static constexpr uint32_t kNzColumns = 16;
  static uint64_t Padded(uint64_t rows) { return (rows + 15) / 16 * 16; }

  // `apart`: elements from row to row; in NZ the rows of C.
  static void Write(const GlobalTensor<CT>& gm, uint64_t apart, uint32_t rows, uint32_t columns, uint8_t enAtomic) {
    if (enAtomic > 3) {
      twin::Core::Current().Trap("E-32", "enAtomic %u is none of 0 to 3", enAtomic);
    }
    nz ? WriteNz(gm, apart, rows, columns, enAtomic) : WriteNd(gm, apart, rows, columns, enAtomic);
  }
  // What Write has left.
  static void Read(const GlobalTensor<CT>& gm, uint64_t apart, uint32_t rows, uint32_t columns, float* to) {
    const uint32_t width = nz ? kNzColumns : columns;
    const uint64_t stretches = nz ? (columns + width - 1) / width : rows;
    const uint64_t elements = nz ? static_cast<uint64_t>(rows) * width : columns;
    const uint64_t pitch = nz ? Padded(apart) * width : apart;
    gm.Check(0, ((stretches - 1) * pitch + elements) * sizeof(CT));
    const auto* from = reinterpret_cast<const CT*>(
        twin::Core::Current().GmReadRows(gm.GetPhyAddr(), stretches, elements * sizeof(CT), pitch * sizeof(CT)));
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < columns; ++column) {
        const uint64_t at = nz ? column / width * pitch + row * width + column % width : row * pitch + column;
        to[static_cast<uint64_t>(row) * columns + column] = ToAccumulator(from[at]);
      }
    }
  }
  // `pitch`: elements from row to row in ND. `carry`: by way of GM.
  static void WriteLocal(const LocalTensor<CT>& local, uint64_t pitch, uint32_t rows, uint32_t columns,
                         uint8_t enAtomic, bool carry) {
    auto& core = twin::Core::Current();
    if (nz ? rows % 16 != 0 : columns * sizeof(CT) % twin::kUbBlock != 0) {
      nz ? core.Trap("E-32", "C in NZ in VECIN of %u rows: they are whole 16", rows)
         : core.Trap("E-01", "rows of %u elements in ND do not fill 32-byte blocks: ND_ALIGN", columns);
    }
    if (enAtomic != 0) {
      core.Trap("E-32", "enAtomic %u with C in VECIN: what lies in GM is added to", enAtomic);
    }
    const uint32_t width = nz ? kNzColumns : columns;
    const uint64_t stored = (columns + width - 1) / width * width * sizeof(CT);  // of a row
    for (const bool write : {true, false}) {
      if (carry) {
        core.CubeCarries(local.Range(), 0, rows, stored, nz ? stored : pitch * sizeof(CT), write);
      }
    }
    core.Issue(PIPE_MTE2, "Matmul, C in VECIN");
    if (core.Lenient()) {
      core.KnowFinished(PIPE_MTE2, PIPE_V);
      core.KnowFinished(PIPE_MTE2, PIPE_MTE3);
    }
    const float* from = core.CubeScratch(0);
    for (uint32_t column = 0; column < columns; column += width) {
      const uint32_t count = std::min(width, columns - column);
      for (uint32_t row = 0; row < rows; ++row) {
        const uint64_t place = nz ? static_cast<uint64_t>(column) * rows + row * width : row * pitch;
        auto* to = reinterpret_cast<CT*>(core.UbWrite(local.Range(), place * sizeof(CT), width * sizeof(CT)));
        Combine(from + static_cast<uint64_t>(row) * columns + column, to, count, 0);
        core.Undefine(local.Range(), place * sizeof(CT), width * sizeof(CT));
        core.Define(local.Range(), place * sizeof(CT), count * sizeof(CT));
      }
    }
    const auto ready = GetTPipePtr()->FetchEventID(HardEvent::MTE2_V);
    core.SetFlag(static_cast<int>(HardEvent::MTE2_V), PIPE_MTE2, PIPE_V, ready);
    core.WaitFlag(static_cast<int>(HardEvent::MTE2_V), PIPE_MTE2, PIPE_V, ready);
  }

 private:
  // One row, or a part of one.
  static void WriteRow(const float* from, CT* to, uint32_t columns, uint8_t enAtomic) {
    auto& core = twin::Core::Current();
    if (enAtomic != 0 && core.FullChecks() && Untouched(to, columns)) {
      core.Trap("E-21", "atomic access to GM %p, which nothing has written", static_cast<const void*>(to));
    }
    Combine(from, to, columns, enAtomic);
  }
  static void WriteNd(const GlobalTensor<CT>& gm, uint64_t pitch, uint32_t rows, uint32_t columns, uint8_t enAtomic) {
    auto& core = twin::Core::Current();
    gm.Check(0, ((rows - 1) * pitch + columns) * sizeof(CT));
    auto* first = const_cast<__gm__ CT*>(gm.GetPhyAddr());
    auto* to =
        reinterpret_cast<CT*>(core.GmWriteRows(first, rows, columns * sizeof(CT), pitch * sizeof(CT), enAtomic != 0));
    const float* from = core.CubeScratch(0);
    for (uint32_t row = 0; row < rows; ++row) {
      WriteRow(from + static_cast<uint64_t>(row) * columns, to + row * pitch, columns, enAtomic);
    }
  }
  // What is behind the last column in its group is not to be relied on: NaN, so that it is seen.
  static void WriteNz(const GlobalTensor<CT>& gm, uint64_t stored, uint32_t rows, uint32_t columns, uint8_t enAtomic) {
    auto& core = twin::Core::Current();
    const uint32_t groups = (columns + kNzColumns - 1) / kNzColumns;
    const uint64_t group = Padded(stored) * kNzColumns, elements = static_cast<uint64_t>(rows) * kNzColumns;
    gm.Check(0, ((groups - 1) * group + elements) * sizeof(CT));
    auto* first = const_cast<__gm__ CT*>(gm.GetPhyAddr());
    auto* to = reinterpret_cast<CT*>(
        core.GmWriteRows(first, groups, elements * sizeof(CT), group * sizeof(CT), enAtomic != 0));
    const float* from = core.CubeScratch(0);
    for (uint32_t column = 0; column < columns; column += kNzColumns) {
      const uint32_t count = std::min(kNzColumns, columns - column);
      for (uint32_t row = 0; row < rows; ++row) {
        CT* at = to + column / kNzColumns * group + static_cast<uint64_t>(row) * kNzColumns;
        WriteRow(from + static_cast<uint64_t>(row) * columns + column, at, count, enAtomic);
        std::fill(at + count, at + kNzColumns, FromAccumulator<CT>(NAN));
      }
    }
  }
};

}  // namespace twin_detail

}  // namespace AscendC
