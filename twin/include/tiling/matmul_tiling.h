// MatmulApiTiling and MultiCoreMatmulTiling.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
class TCubeTiling;
}

namespace matmul_tiling {

enum class TPosition : int32_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  MAX
};
enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 8 };
enum class DataType : int32_t {
  DT_UNDEFINED = -1,
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_BF16 = 27,
  DT_INT4 = 29,
  DT_BFLOAT16 = 33
};
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class MatrixMadType : int32_t { NORMAL = 0, HF32 = 1 };

class MatmulApiTiling {
 public:
  explicit MatmulApiTiling(const platform_ascendc::PlatformAscendC&) {}
  virtual ~MatmulApiTiling() = default;

  int32_t SetAType(TPosition position, CubeFormat format, DataType type, bool = false) {
    return SetType(position, format, type, a_);
  }
  int32_t SetBType(TPosition position, CubeFormat format, DataType type, bool = false) {
    return SetType(position, format, type, b_);
  }
  int32_t SetCType(TPosition position, CubeFormat format, DataType type) { return SetType(position, format, type, c_); }
  int32_t SetBiasType(TPosition position, CubeFormat format, DataType type) {
    return SetType(position, format, type, bias_);
  }
  int32_t SetShape(int32_t m, int32_t n, int32_t k) {
    shape_ = {m, n, k};
    return m > 0 && n > 0 && k > 0 ? 0 : -1;
  }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) { return SetOrgShape(m, n, k, k); }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb) {
    org_ = {m, n, ka};
    orgKb_ = kb;
    return m > 0 && n > 0 && ka > 0 && kb > 0 ? 0 : -1;
  }
  int32_t SetFixSplit(int32_t baseM = -1, int32_t baseN = -1, int32_t baseK = -1) {
    fixed_ = {baseM, baseN, baseK};
    return 0;
  }
  int32_t SetBufferSpace(int32_t l1 = -1, int32_t l0c = -1, int32_t = -1, int32_t = -1) {
    l1_ = l1 < 0 ? kL1Bytes : std::min<int64_t>(l1, kL1Bytes);
    l0c_ = l0c < 0 ? kL0CBytes : std::min<int64_t>(l0c, kL0CBytes);
    return 0;
  }
  int32_t EnableBias(bool enable = false) {
    hasBias_ = enable;
    return 0;
  }
  int32_t SetBias(bool enable = false) { return EnableBias(enable); }
  int32_t SetTraverse(MatrixTraverse traverse) {
    firstN_ = traverse == MatrixTraverse::FIRSTN;
    return 0;
  }
  int32_t SetMadType(MatrixMadType type) { return type == MatrixMadType::NORMAL ? 0 : -1; }

  // -1 when the description is incomplete or no blocks fit.
  int64_t GetTiling(AscendC::tiling::TCubeTiling& t) {
    if (a_ <= 0 || b_ != a_ || c_ <= 0 || shape_.m <= 0 || shape_.n <= 0 || shape_.k <= 0) {
      return -1;
    }
    const Sizes single = SingleCore();
    const int32_t unitK = 32 / a_;
    const int32_t baseM = fixed_.m > 0 ? fixed_.m : std::min(128, RoundUp(single.m, 16));
    const int32_t widest = static_cast<int32_t>(l0c_ / (4 * std::max(baseM, 1))) / 16 * 16;
    const int32_t baseN = fixed_.n > 0 ? fixed_.n : std::min({256, widest, RoundUp(single.n, 16)});
    const int64_t deepest = kL0Bytes / 2 / a_ / std::max({baseM, baseN, 1}) / unitK * unitK;
    const int32_t baseK =
        fixed_.k > 0 ? fixed_.k : static_cast<int32_t>(std::min<int64_t>(deepest, RoundUp(single.k, unitK)));
    const bool doubles = 2ll * baseM * baseK * a_ <= kL0Bytes && 2ll * baseK * baseN * a_ <= kL0Bytes;
    if (baseM <= 0 || baseN <= 0 || baseK <= 0 || baseM % 16 != 0 || baseN % 16 != 0 || baseK % unitK != 0 ||
        baseM > RoundUp(single.m, 16) || 1ll * baseM * baseK * a_ > kL0Bytes || 1ll * baseK * baseN * a_ > kL0Bytes ||
        4ll * baseM * baseN > l0c_) {
      return -1;
    }
    t = AscendC::tiling::TCubeTiling{};
    t.usedCoreNum = UsedCores(single);
    t.M = org_.m > 0 ? org_.m : shape_.m;
    t.N = org_.n > 0 ? org_.n : shape_.n;
    t.Ka = org_.k > 0 ? org_.k : shape_.k;
    t.Kb = orgKb_ > 0 ? orgKb_ : t.Ka;
    t.singleCoreM = single.m;
    t.singleCoreN = single.n;
    t.singleCoreK = single.k;
    t.baseM = baseM;
    t.baseN = baseN;
    t.baseK = baseK;
    t.stepM = t.stepN = 1;
    t.dbL0A = t.dbL0B = doubles ? 2 : 1;
    t.dbL0C = 1;
    t.isBias = hasBias_ ? 1 : 0;
    t.iterateOrder = firstN_ ? 1 : 0;
    const int64_t panel = (1ll * baseM + baseN) * baseK * a_ * 2;
    const int64_t panels = std::max<int64_t>(1, (l1_ - (hasBias_ ? baseN * 4 : 0)) / panel);
    t.stepKa = t.stepKb = static_cast<int32_t>(std::min<int64_t>(panels, RoundUp(single.k, baseK) / baseK));
    t.depthA1 = t.depthB1 = 2 * t.stepKa;
    baseM_ = baseM;
    baseN_ = baseN;
    baseK_ = baseK;
    single_ = single;
    return 0;
  }
  int64_t GetTiling(optiling::TCubeTiling& tiling);

  int32_t GetBaseM() const { return baseM_; }
  int32_t GetBaseN() const { return baseN_; }
  int32_t GetBaseK() const { return baseK_; }
  int32_t GetSingleShape(int32_t& m, int32_t& n, int32_t& k) const {
    m = single_.m;
    n = single_.n;
    k = single_.k;
    return 0;
  }

 protected:
  static constexpr int64_t kL0Bytes = 65536;
  static constexpr int64_t kL0CBytes = 131072;
  static constexpr int64_t kL1Bytes = 524288 - 128;

  struct Sizes {
    Sizes() = default;
    Sizes(int32_t mIn, int32_t nIn, int32_t kIn) : m(mIn), n(nIn), k(kIn) {}
    int32_t m = -1;
    int32_t n = -1;
    int32_t k = -1;
  };

  virtual Sizes SingleCore() const { return shape_; }
  virtual int32_t UsedCores(const Sizes&) const { return 1; }
  static int32_t RoundUp(int32_t value, int32_t unit) { return (value + unit - 1) / unit * unit; }
  static int32_t Parts(int32_t value, int32_t part) { return (value + part - 1) / part; }

  int32_t SetType(TPosition position, CubeFormat format, DataType type, int32_t& bytes) {
    const bool known = position == TPosition::GM || position == TPosition::VECIN || position == TPosition::VECOUT;
    const bool twoBytes = type == DataType::DT_FLOAT16 || type == DataType::DT_BF16 || type == DataType::DT_BFLOAT16;
    const bool laid = format == CubeFormat::ND || format == CubeFormat::NZ;
    bytes = !known || !laid ? -1 : type == DataType::DT_FLOAT ? 4 : twoBytes ? 2 : -1;
    return bytes > 0 ? 0 : -1;
  }

  Sizes shape_;
  Sizes org_;
  Sizes fixed_;
  Sizes single_;
  int32_t orgKb_ = -1;
  int32_t a_ = 0;
  int32_t b_ = 0;
  int32_t c_ = 0;
  int32_t bias_ = 0;
  int32_t baseM_ = 0;
  int32_t baseN_ = 0;
  int32_t baseK_ = 0;
  int64_t l1_ = kL1Bytes;
  int64_t l0c_ = kL0CBytes;
  bool hasBias_ = false;
  bool firstN_ = false;
};

// One problem split over several cores, each with a part of M and N.
class MultiCoreMatmulTiling : public MatmulApiTiling {
 public:
  using MatmulApiTiling::MatmulApiTiling;

  int32_t SetDim(int32_t cores) {
    cores_ = cores;
    return cores > 0 ? 0 : -1;
  }
  int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    asked_ = {m, n, k};
    return k == -1 || k == shape_.k ? 0 : -1;
  }
  int32_t GetCoreNum(int32_t& cores, int32_t& mParts, int32_t& nParts) const {
    mParts = Parts(shape_.m, single_.m);
    nParts = Parts(shape_.n, single_.n);
    cores = mParts * nParts;
    return 0;
  }

 private:
  // The split with the smallest part that lies on the 16-element grid.
  Sizes SingleCore() const override {
    Sizes best = shape_;
    for (int32_t mParts = 1; mParts <= cores_; ++mParts) {
      Sizes part = shape_;
      part.m = std::min(shape_.m, RoundUp(Parts(shape_.m, mParts), 16));
      part.n = std::min(shape_.n, RoundUp(Parts(shape_.n, cores_ / mParts), 16));
      part.m = asked_.m > 0 ? asked_.m : part.m;
      part.n = asked_.n > 0 ? asked_.n : part.n;
      if (1ll * part.m * part.n < 1ll * best.m * best.n) {
        best = part;
      }
    }
    return best;
  }
  int32_t UsedCores(const Sizes& single) const override {
    return Parts(shape_.m, single.m) * Parts(shape_.n, single.n);
  }

  int32_t cores_ = 1;
  Sizes asked_;
};

}  // namespace matmul_tiling
