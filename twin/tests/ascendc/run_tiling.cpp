// Tilings of products over a grid of shapes and types keep the rules of the cube, and parts cover the whole. Prints
// "ok".
#include <cstdio>
#include <cstdlib>

#include "tiling/tiling_api.h"

namespace {

using matmul_tiling::CubeFormat;
using matmul_tiling::DataType;
using matmul_tiling::TPosition;

void Require(bool holds, const char* what, int32_t m, int32_t n, int32_t k, int cores) {
  if (!holds) {
    std::printf("%s: m %d, n %d, k %d, cores %d\n", what, m, n, k, cores);
    std::exit(1);
  }
}

void Describe(matmul_tiling::MatmulApiTiling& api, DataType type, int32_t m, int32_t n, int32_t k) {
  api.SetAType(TPosition::GM, CubeFormat::ND, type);
  api.SetBType(TPosition::GM, CubeFormat::ND, type, true);
  api.SetCType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT);
  api.SetShape(m, n, k);
  api.SetOrgShape(m, n, k);
  api.SetBufferSpace(-1, -1, -1);
}

void Check(const AscendC::tiling::TCubeTiling& t, int bytes, int32_t m, int32_t n, int32_t k, int cores) {
  const int64_t a = 1ll * t.baseM * t.baseK * bytes;
  const int64_t b = 1ll * t.baseN * t.baseK * bytes;
  Require(t.baseM % 16 == 0 && t.baseN % 16 == 0 && t.baseK % (32 / bytes) == 0, "granularity", m, n, k, cores);
  Require(a * t.dbL0A <= 65536 && b * t.dbL0B <= 65536, "L0A, L0B", m, n, k, cores);
  Require(4ll * t.baseM * t.baseN * t.dbL0C <= 131072, "L0C", m, n, k, cores);
  Require(a * t.depthA1 + b * t.depthB1 <= 524288 - 128, "L1", m, n, k, cores);
  Require(t.depthA1 % (t.stepM * t.stepKa) == 0 && t.depthB1 % (t.stepN * t.stepKb) == 0, "depth", m, n, k, cores);
  Require(t.stepM == 1 && t.stepN == 1 && t.singleCoreK == k, "steps", m, n, k, cores);
  const int64_t parts = 1ll * ((m + t.singleCoreM - 1) / t.singleCoreM) * ((n + t.singleCoreN - 1) / t.singleCoreN);
  Require(parts == t.usedCoreNum && parts <= cores, "parts", m, n, k, cores);
}

}  // namespace

int main() {
  fe::PlatFormInfos info;
  const platform_ascendc::PlatformAscendC platform(&info);
  const int32_t sizes[] = {1, 15, 16, 17, 100, 128, 257, 512, 4096};
  for (const auto type : {DataType::DT_FLOAT, DataType::DT_FLOAT16, DataType::DT_BFLOAT16}) {
    const int bytes = type == DataType::DT_FLOAT ? 4 : 2;
    for (const int32_t m : sizes) {
      for (const int32_t n : sizes) {
        for (const int32_t k : sizes) {
          matmul_tiling::MatmulApiTiling one(platform);
          Describe(one, type, m, n, k);
          AscendC::tiling::TCubeTiling t;
          Require(one.GetTiling(t) == 0, "GetTiling", m, n, k, 1);
          Require(t.singleCoreM == m && t.singleCoreN == n, "one core", m, n, k, 1);
          Check(t, bytes, m, n, k, 1);
          optiling::TCubeTiling macros;
          Require(one.GetTiling(macros) == 0 && macros.get_baseM() == t.baseM && macros.get_Kb() == t.Kb, "macro form",
                  m, n, k, 1);
          for (const int cores : {2, 20, 48}) {
            matmul_tiling::MultiCoreMatmulTiling several(platform);
            Describe(several, type, m, n, k);
            several.SetDim(cores);
            Require(several.GetTiling(t) == 0, "GetTiling", m, n, k, cores);
            Check(t, bytes, m, n, k, cores);
          }
        }
      }
    }
  }
  matmul_tiling::MatmulApiTiling incomplete(platform);
  AscendC::tiling::TCubeTiling t;
  Require(incomplete.GetTiling(t) == -1, "a tiling of nothing", 0, 0, 0, 1);
  Describe(incomplete, DataType::DT_FLOAT16, 64, 64, 64);
  incomplete.SetFixSplit(24, 16, 16);
  Require(incomplete.GetTiling(t) == -1, "a base block off the grid", 64, 64, 64, 1);
  incomplete.SetFixSplit(128, 128, 512);
  Require(incomplete.GetTiling(t) == -1, "a base block above L0", 64, 64, 64, 1);
  Require(incomplete.SetAType(TPosition::GM, CubeFormat::NZ, DataType::DT_FLOAT16) == 0, "NZ", 0, 0, 0, 1);
  Require(incomplete.SetAType(TPosition::GM, CubeFormat::ZZ, DataType::DT_FLOAT16) == -1, "ZZ", 0, 0, 0, 1);
  std::printf("ok\n");
  return 0;
}
