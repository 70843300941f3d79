// Matmul as a vector core of a mix kernel sees it: requests to the cube, in order; results visible after a wait.
#pragma once
#include "ascendc/matmul_config.h"
#include "ascendc/matmul_operand.h"
#include "ascendc/matmul_result.h"
#include "ascendc/matmul_tiling.h"

namespace AscendC {

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>>
class Matmul {
  using AT = typename A_TYPE::T;
  using BT = typename B_TYPE::T;
  using CT = typename C_TYPE::T;
  using BiasT = typename BIAS_TYPE::T;
  static_assert(std::is_same<AT, BT>::value, "E-30: A and B have one type");
  static_assert(kOneOf<CT, float, half, bfloat16_t>, "E-30: C is float, half or bfloat16_t");
  template <class TYPE>
  static constexpr bool kNz = TYPE::format == CubeFormat::NZ;
  using Result = twin_detail::MatmulResult<CT, kNz<C_TYPE>>;
  static_assert(C_TYPE::format == CubeFormat::ND || kNz<C_TYPE>, "C is ND or NZ on this twin");
  static_assert(A_TYPE::format == CubeFormat::ND || kNz<A_TYPE>, "A is ND or NZ on this twin");
  static_assert(B_TYPE::format == CubeFormat::ND || kNz<B_TYPE>, "B is ND or NZ on this twin");
  static_assert(A_TYPE::pos == TPosition::GM || A_TYPE::pos == TPosition::VECOUT, "A comes from GM or VECOUT");
  static_assert(B_TYPE::pos == TPosition::GM || B_TYPE::pos == TPosition::VECOUT, "B comes from GM or VECOUT");
  static_assert(C_TYPE::pos == TPosition::GM || C_TYPE::pos == TPosition::VECIN, "C goes to GM or VECIN");
  static_assert(!MM_CB::any, "this twin has no callbacks");
  static_assert(!MM_CFG.enableMixDualMaster, "this twin's cube serves requests");

 public:
  void Init(const tiling::TCubeTiling* tiling, TPipe* = nullptr) {
    auto& core = twin::Core::Current();
    core.CubeUse(id_, "Matmul::Init");
    core.CubeFinish(id_);
    if (tiling == nullptr) {
      core.Trap("E-32", "Init without a tiling");
    }
    tiling_ = *tiling;
    twin_detail::CheckTiling(tiling_, sizeof(AT), sizeof(BT), MM_CFG.multiLoads);
    hasTiling_ = true;
    m_ = tiling_.singleCoreM;
    n_ = tiling_.singleCoreN;
    k_ = tiling_.singleCoreK;
    SetPitches(tiling_.M, tiling_.N, tiling_.Ka, tiling_.Kb, 0);
    core.CubeEnd(id_);
  }
  void SetOrgShape(int orgM, int orgN, int orgK) { SetOrgShape(orgM, orgN, orgK, orgK); }
  void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0) {
    auto& core = Use("Matmul::SetOrgShape");
    if (a_.set || b_.set) {
      core.Trap("E-32", "SetOrgShape after SetTensorA or SetTensorB");
    }
    if (orgM <= 0 || orgN <= 0 || orgKa <= 0 || orgKb <= 0 || orgKc < 0) {
      core.Trap("E-32", "SetOrgShape(%d, %d, %d, %d, %d)", orgM, orgN, orgKa, orgKb, orgKc);
    }
    SetPitches(orgM, orgN, orgKa, orgKb, orgKc);
  }
  void SetSingleShape(int singleM, int singleN, int singleK) {
    Use("Matmul::SetSingleShape");
    SetSize("M", m_, singleM, tiling_.singleCoreM);
    SetSize("N", n_, singleN, tiling_.singleCoreN);
    SetSize("K", k_, singleK, tiling_.singleCoreK);
  }
  void SetTail(int tailM = -1, int tailN = -1, int tailK = -1) { SetSingleShape(tailM, tailN, tailK); }

  void SetTensorA(const GlobalTensor<AT>& gm, bool isTransposeA = false) {
    static_assert(A_TYPE::pos == TPosition::GM, "the type of A names another position");
    Use("Matmul::SetTensorA");
    a_.Set(gm, Transposed<A_TYPE>(isTransposeA, "A"));
  }
  void SetTensorA(const LocalTensor<AT>& local, bool isTransposeA = false) {
    static_assert(A_TYPE::pos == TPosition::VECOUT, "the type of A names another position");
    Use("Matmul::SetTensorA");
    a_.Set(local, Transposed<A_TYPE>(isTransposeA, "A"));
  }
  void SetTensorB(const GlobalTensor<BT>& gm, bool isTransposeB = false) {
    static_assert(B_TYPE::pos == TPosition::GM, "the type of B names another position");
    Use("Matmul::SetTensorB");
    b_.Set(gm, Transposed<B_TYPE>(isTransposeB, "B"));
  }
  void SetTensorB(const LocalTensor<BT>& local, bool isTransposeB = false) {
    static_assert(B_TYPE::pos == TPosition::VECOUT, "the type of B names another position");
    Use("Matmul::SetTensorB");
    b_.Set(local, Transposed<B_TYPE>(isTransposeB, "B"));
  }
  void SetBias(const GlobalTensor<BiasT>& gm) {
    UseBias();
    bias_.Set(gm, false);
  }
  void SetBias(const LocalTensor<BiasT>& local) {
    static_assert(BIAS_TYPE::pos == TPosition::VECOUT, "the type of the bias names another position");
    UseBias();
    bias_.Set(local, false);
  }
  void DisableBias() { hasBias_ = false; }
  void ClearBias() { DisableBias(); }
  void SetLocalWorkspace(const LocalTensor<uint8_t>&) {}
  // Where Iterate<false> leaves its tiles.
  template <class T>
  void SetWorkspace(GlobalTensor<T>& gm) {
    if constexpr (std::is_same<T, CT>::value) {
      workspace_ = gm;
    } else {
      workspace_.SetGlobalBuffer(reinterpret_cast<__gm__ CT*>(const_cast<__gm__ T*>(gm.GetPhyAddr())));
    }
    hasWorkspace_ = true;
  }
  template <class T>
  void SetWorkspace(const __gm__ T* gm, int size) {
    workspace_.SetGlobalBuffer(reinterpret_cast<__gm__ CT*>(const_cast<__gm__ T*>(gm)),
                               static_cast<uint64_t>(size) * sizeof(T) / sizeof(CT));
    hasWorkspace_ = true;
  }
  void SetHF32(bool enable, int32_t = 0) {
    if (enable) {
      twin::Core::Current().Trap("E-32", "this twin has no reduced fp32 mode");
    }
  }

  // Tile by tile. With sync = false all tiles are computed at once into the workspace, where GetTensorC<false> finds
  // one after the other.
  template <bool sync = true>
  bool Iterate(bool enPartialSum = false) {
    auto& core = Use("Matmul::Iterate");
    core.CubeFinish(id_);
    RequireOperands();
    const int64_t tiles = Tiles();
    if (enPartialSum && (!sync || tiles != 1)) {
      core.Trap("E-32", "a partial sum needs one tile and Iterate<true>, there are %lld tiles",
                static_cast<long long>(tiles));
    }
    if (!sync) {
      return IterateAhead(tiles);
    }
    taken_ = -1;
    if (!enPartialSum && tile_ + 1 == tiles) {
      tile_ = -1;
      a_.set = b_.set = false;
      return false;
    }
    const bool first = tile_ < 0;
    Place(enPartialSum ? 0 : tile_ + 1);
    float* scratch = TileScratch();
    Send();
    core.CubeIssue(id_, "Matmul::Iterate", false);
    Product(tileRow_, tileRows_, tileColumn_, tileColumns_, enPartialSum && !first, scratch);
    return true;
  }
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<CT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false) {
    auto& core = Use("Matmul::GetTensorC");
    Take<sync>();
    core.CubeIssue(id_, "Matmul::GetTensorC", false);
    WriteTile(gm, enAtomic, enSequentialWrite);
    core.CubeFinish(id_);
  }
  template <bool sync = true>
  void GetTensorC(const LocalTensor<CT>& local, uint8_t enAtomic = 0, bool = false) {
    Use("Matmul::GetTensorC");
    Take<sync>();
    WriteTile<sync>(local, enAtomic);
  }
  // To both places.
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<CT>& gm, const LocalTensor<CT>& local, uint8_t enAtomic = 0,
                  bool enSequentialWrite = false) {
    GetTensorC<sync>(gm, enAtomic, enSequentialWrite);
    WriteTile<sync>(local, enAtomic);
  }
  // The next tile where it lies in the workspace, as the whole of baseM x baseN.
  template <bool sync = true>
  GlobalTensor<CT> GetTensorC(uint8_t = 0, bool = false) {
    static_assert(!sync, "the tile in the workspace is that of GetTensorC<false>");
    static_assert(C_TYPE::pos == TPosition::VECIN, "the type of C names another position");
    Use("Matmul::GetTensorC");
    return NextTile();
  }

  template <bool sync = true>
  void IterateAll(const GlobalTensor<CT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false,
                  bool waitIterateAll = false, bool = false) {
    static_assert(C_TYPE::pos == TPosition::GM, "the type of C names another position");
    auto& core = Use("Matmul::IterateAll");
    if (sync) {
      core.CubeFinish(id_);
    }
    if (enSequentialWrite) {
      core.Trap("E-32", "this twin writes the whole C at its place: enSequentialWrite belongs to GetTensorC");
    }
    RequireOperands();
    Send();
    core.CubeIssue(id_, "Matmul::IterateAll", !sync && waitIterateAll);
    Product(0, static_cast<uint32_t>(m_), 0, static_cast<uint32_t>(n_), false, Scratch());
    Result::Write(gm, kNz<C_TYPE> ? static_cast<uint64_t>(orgM_) : cPitch_, static_cast<uint32_t>(m_),
                  static_cast<uint32_t>(n_), enAtomic);
    a_.set = b_.set = false;
    if (sync) {
      core.CubeFinish(id_);
    }
  }
  void IterateAll(const LocalTensor<CT>& local, uint8_t enAtomic = 0) {
    static_assert(C_TYPE::pos == TPosition::VECIN, "the type of C names another position");
    auto& core = Use("Matmul::IterateAll");
    core.CubeFinish(id_);
    RequireOperands();
    Send();
    core.CubeIssue(id_, "Matmul::IterateAll", false);
    Product(0, static_cast<uint32_t>(m_), 0, static_cast<uint32_t>(n_), false, Scratch());
    core.CubeFinish(id_);
    Result::WriteLocal(local, static_cast<uint64_t>(n_), static_cast<uint32_t>(m_), static_cast<uint32_t>(n_), enAtomic,
                       true);
    a_.set = b_.set = false;
  }
  void WaitIterateAll() { twin::Core::Current().CubeWait(id_); }
  void End() {
    twin::Core::Current().CubeEnd(id_);
    a_.set = b_.set = false;
    tile_ = taken_ = -1;
  }

  void Register(const tiling::TCubeTiling* tiling) {
    id_ = twin::Core::Current().AddCubeObject();
    if (tiling != nullptr) {
      Init(tiling);
    }
  }

 private:
  static uint32_t Tiles(int32_t size, int32_t base) { return static_cast<uint32_t>((size + base - 1) / base); }
  static uint32_t Least(int64_t a, int64_t b) { return static_cast<uint32_t>(a < b ? a : b); }

  twin::Core& Use(const char* call) {
    auto& core = twin::Core::Current();
    core.CubeUse(id_, call);
    if (!hasTiling_) {
      core.Trap("E-32", "no tiling: give it to REGIST_MATMUL_OBJ or call Init");
    }
    return core;
  }
  void SetPitches(int32_t orgM, int32_t orgN, int32_t orgKa, int32_t orgKb, int32_t orgKc) {
    orgM_ = orgM;
    orgN_ = orgN;
    orgKa_ = orgKa;
    orgKb_ = orgKb;
    cPitch_ = static_cast<uint64_t>(orgKc != 0 ? orgKc : orgN);
  }
  void SetSize(const char* name, int32_t& size, int32_t value, int32_t limit) {
    if (value == -1) {
      return;
    }
    if (value <= 0 || value > limit) {
      twin::Core::Current().Trap("E-32", "single %s is %d, the tiling's is %d", name, value, limit);
    }
    size = value;
  }
  template <class TYPE>
  bool Transposed(bool asked, const char* name) {
    // For two-byte types the type allows what the call asks; for others both must say the same.
    if (sizeof(typename TYPE::T) == 2 ? asked && !TYPE::isTrans : asked != TYPE::isTrans) {
      twin::Core::Current().Trap("E-32", "%s: the call says transposed %d, the MatmulType %d", name, asked,
                                 TYPE::isTrans);
    }
    return asked;
  }
  void RequireOperands() {
    auto& core = twin::Core::Current();
    if (!a_.set || !b_.set) {
      core.Trap("E-32", "SetTensorA or SetTensorB is missing");
    }
    if (tiling_.isBias != 0 && !hasBias_) {
      core.Trap("E-32", "the tiling has isBias 1, SetBias is missing");
    }
    RequirePitch<A_TYPE>("A", a_.inGm, a_.transposed ? orgM_ : orgKa_, a_.transposed ? m_ : k_);
    RequirePitch<B_TYPE>("B", b_.inGm, b_.transposed ? orgKb_ : orgN_, b_.transposed ? k_ : n_);
    if (C_TYPE::pos == TPosition::GM) {
      RequirePitch<C_TYPE>("C", true, kNz<C_TYPE> ? orgM_ : static_cast<int64_t>(cPitch_), kNz<C_TYPE> ? m_ : n_);
    }
  }
  template <class TYPE>
  void RequirePitch(const char* matrix, bool inGm, int64_t pitch, int32_t width) {
    auto& core = twin::Core::Current();
    if (inGm && pitch < width) {
      core.Trap("E-32", "rows of %s are %lld elements apart and %d long: SetOrgShape", matrix,
                static_cast<long long>(pitch), width);
    }
    if (inGm && pitch > 65535 && !MM_CFG.intrinsicsLimit && !kNz<TYPE>) {
      core.Trap("E-32", "rows of %s are %lld elements apart: intrinsicsLimit must be true", matrix,
                static_cast<long long>(pitch));
    }
  }
  void UseBias() {
    static_assert(kOneOf<BiasT, float, half>, "E-30: a bias is float or half");
    if (Use("Matmul::SetBias"); tiling_.isBias == 0) {
      twin::Core::Current().Trap("E-32", "SetBias, but the tiling has isBias 0");
    }
    hasBias_ = true;
  }
  int64_t Tiles() const { return static_cast<int64_t>(Tiles(m_, tiling_.baseM)) * Tiles(n_, tiling_.baseN); }
  void Place(int64_t tile) {
    tile_ = tile;
    const auto index = static_cast<uint32_t>(tile);
    const uint32_t mTiles = Tiles(m_, tiling_.baseM), nTiles = Tiles(n_, tiling_.baseN);
    tileRow_ = (tiling_.iterateOrder == 0 ? index % mTiles : index / nTiles) * tiling_.baseM;
    tileColumn_ = (tiling_.iterateOrder == 0 ? index / mTiles : index % nTiles) * tiling_.baseN;
    tileRows_ = Least(tiling_.baseM, m_ - tileRow_);
    tileColumns_ = Least(tiling_.baseN, n_ - tileColumn_);
  }
  float* TileScratch() { return twin::Core::Current().CubeScratch(static_cast<uint64_t>(tileRows_) * tileColumns_); }
  bool IterateAhead(int64_t tiles) {
    auto& core = twin::Core::Current();
    if (!hasWorkspace_) {
      core.Trap("E-32", "Iterate<false> leaves its tiles in a workspace: SetWorkspace");
    }
    Send();
    core.CubeIssue(id_, "Matmul::Iterate<false>", false);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      Place(tile);
      Product(tileRow_, tileRows_, tileColumn_, tileColumns_, false, TileScratch());
      WriteTile(workspace_[static_cast<uint64_t>(tile) * TileSize()], 0, true);
    }
    tile_ = -1;
    taken_ = 0;
    a_.set = b_.set = false;
    return true;
  }
  uint64_t TileSize() const { return static_cast<uint64_t>(tiling_.baseM) * static_cast<uint64_t>(tiling_.baseN); }
  GlobalTensor<CT> NextTile() {
    auto& core = twin::Core::Current();
    if (taken_ < 0 || taken_ == Tiles()) {
      core.Trap("E-32", taken_ < 0 ? "GetTensorC<false> without Iterate<false>"
                                   : "GetTensorC<false>: all tiles of Iterate<false> were taken");
    }
    core.CubeFinish(id_);
    Place(taken_);
    return workspace_[static_cast<uint64_t>(taken_++) * TileSize()];
  }
  // The tile that GetTensorC is about, in the cube's scratch.
  template <bool sync>
  void Take() {
    auto& core = twin::Core::Current();
    if constexpr (sync) {
      if (tile_ < 0 || taken_ >= 0) {
        core.Trap("E-32", taken_ < 0 ? "GetTensorC without Iterate" : "GetTensorC<true> after Iterate<false>");
      }
    } else {
      const GlobalTensor<CT> tile = NextTile();
      core.Issue(PIPE_MTE2, "Matmul, tile in the workspace");
      Result::Read(tile, static_cast<uint64_t>(kNz<C_TYPE> ? tiling_.baseM : tiling_.baseN), tileRows_, tileColumns_,
                   TileScratch());
      core.KnowFinished(PIPE_S, PIPE_MTE2);  // the next Iterate<false> may write there
    }
  }
  float* Scratch() { return twin::Core::Current().CubeScratch(static_cast<uint64_t>(m_) * static_cast<uint64_t>(n_)); }

  // How A and B lie: of the whole matrices in GM, of what is multiplied in the unified buffer.
  twin_detail::StoredShape ShapeOfA() const {
    const int32_t rows = a_.inGm ? orgM_ : m_, columns = a_.inGm ? orgKa_ : k_;
    return a_.transposed ? twin_detail::StoredShape{columns, rows} : twin_detail::StoredShape{rows, columns};
  }
  twin_detail::StoredShape ShapeOfB() const {
    const int32_t rows = b_.inGm ? orgKb_ : k_, columns = b_.inGm ? orgN_ : n_;
    return b_.transposed ? twin_detail::StoredShape{columns, rows} : twin_detail::StoredShape{rows, columns};
  }
  void Send() {
    a_.template Send<kNz<A_TYPE>>(ShapeOfA());
    b_.template Send<kNz<B_TYPE>>(ShapeOfB());
    if (hasBias_) {
      bias_.template Send<false>({1, n_});
    }
  }
  void Product(uint32_t row, uint32_t rows, uint32_t column, uint32_t columns, bool accumulate, float* c) {
    const auto k = static_cast<uint32_t>(k_);
    const auto a = a_.transposed ? a_.template Part<kNz<A_TYPE>>(0, row, k, rows, ShapeOfA())
                                 : a_.template Part<kNz<A_TYPE>>(row, 0, rows, k, ShapeOfA());
    const auto b = b_.transposed ? b_.template Part<kNz<B_TYPE>>(column, 0, columns, k, ShapeOfB())
                                 : b_.template Part<kNz<B_TYPE>>(0, column, k, columns, ShapeOfB());
    twin::Multiply(a, b, rows, columns, k, accumulate, c);
    if (hasBias_ && !accumulate) {
      const auto part = bias_.template Part<false>(0, column, 1, columns, {1, n_});
      const auto* bias = static_cast<const BiasT*>(part.data);
      for (uint64_t i = 0; i < static_cast<uint64_t>(rows) * columns; ++i) {
        c[i] += twin_detail::ToAccumulator(bias[i % columns]);
      }
    }
  }

  // `carry`: by way of GM, where a tile of Iterate<false> is already.
  template <bool carry>
  void WriteTile(const LocalTensor<CT>& local, uint8_t enAtomic) {
    static_assert(C_TYPE::pos == TPosition::VECIN, "the type of C names another position");
    auto& core = twin::Core::Current();
    if (kNz<C_TYPE> && tileRows_ != static_cast<uint32_t>(tiling_.baseM)) {
      core.Trap("E-32", "C in NZ in VECIN: a tile of %u rows, baseM is %d; how it lies is not known", tileRows_,
                tiling_.baseM);
    }
    core.CubeFinish(id_);
    Result::WriteLocal(local, static_cast<uint64_t>(tiling_.baseN), tileRows_, tileColumns_, enAtomic, carry);
  }
  // At its place in C, or as the whole of `gm`.
  void WriteTile(const GlobalTensor<CT>& gm, uint8_t enAtomic, bool sequential) {
    uint64_t apart = sequential ? static_cast<uint64_t>(tiling_.baseN) : cPitch_;
    uint64_t at = tileRow_ * cPitch_ + tileColumn_;
    if (kNz<C_TYPE>) {
      apart = static_cast<uint64_t>(sequential ? tiling_.baseM : orgM_);
      at = tileColumn_ * Result::Padded(apart) + tileRow_ * Result::kNzColumns;
    }
    Result::Write(gm[sequential ? 0 : at], apart, tileRows_, tileColumns_, enAtomic);
  }

  int id_ = -1;
  bool hasTiling_ = false;
  tiling::TCubeTiling tiling_;
  int32_t orgM_ = 0;
  int32_t orgN_ = 0;
  int32_t orgKa_ = 0;
  int32_t orgKb_ = 0;
  uint64_t cPitch_ = 0;
  int32_t m_ = 0;
  int32_t n_ = 0;
  int32_t k_ = 0;
  twin_detail::MatmulOperand<AT> a_;
  twin_detail::MatmulOperand<BT> b_;
  twin_detail::MatmulOperand<BiasT> bias_;
  bool hasBias_ = false;
  GlobalTensor<CT> workspace_;
  bool hasWorkspace_ = false;
  int64_t taken_ = -1;  // tiles of Iterate<false>
  int64_t tile_ = -1;
  uint32_t tileRow_ = 0;
  uint32_t tileColumn_ = 0;
  uint32_t tileRows_ = 0;
  uint32_t tileColumns_ = 0;
};

}  // namespace AscendC
