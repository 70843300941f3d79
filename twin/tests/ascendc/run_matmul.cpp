// run_matmul KERNEL M N K CORES BREAK FIELD VALUE [COUNTS]: one product on simulated cores, compared with a product in
// double. Exit code 0 when it agrees, 1 when it trapped, 2 for a wrong result. FIELD names a field of the tiling to
// overwrite. COUNTS, of any text: the bytes read and written and, with TWIN_COUNTS_L2, those that it lets through.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ascendc/launch.h"
#include "launch_work.h"
#include "line_memory.h"
#include "matmul_tile_kernels.h"
#include "tiling/tiling_api.h"

namespace {

template <void (*kernel)(const cases::Arguments&)>
void Enter(void* const* a) {
  kernel({static_cast<uint8_t*>(a[0]), static_cast<uint8_t*>(a[1]), static_cast<uint8_t*>(a[2]),
          static_cast<uint8_t*>(a[3]), static_cast<uint8_t*>(a[4])});
}

struct Case {
  void (*entry)(void* const*);
  int bytes;
  bool bfloat;
  bool transA;
  bool transB;
  bool nz = false;    // a and b lie in NZ
  bool nzC = false;   // so does the result, in groups of 16 columns
  bool bias = false;  // the first row of b is added to each row
};

using cases::Hand;
using cases::HandedTiles;
using cases::WholeProduct;
constexpr CubeFormat NZ = CubeFormat::NZ;
const std::map<std::string, Case> kCases = {
    {"float", {Enter<WholeProduct<float, false, false>>, 4, false, false, false}},
    {"float-ta", {Enter<WholeProduct<float, true, false>>, 4, false, true, false}},
    {"float-tb", {Enter<WholeProduct<float, false, true>>, 4, false, false, true}},
    {"half", {Enter<WholeProduct<half, false, false>>, 2, false, false, false}},
    {"half-ta", {Enter<WholeProduct<half, true, false>>, 2, false, true, false}},
    {"half-tb", {Enter<WholeProduct<half, false, true>>, 2, false, false, true}},
    {"bfloat16-tatb", {Enter<WholeProduct<bfloat16_t, true, true>>, 2, true, true, true}},
    {"float-nz", {Enter<WholeProduct<float, false, false, NZ>>, 4, false, false, false, true}},
    {"half-nz", {Enter<WholeProduct<half, false, false, NZ>>, 2, false, false, false, true}},
    {"half-nz-tatb", {Enter<WholeProduct<half, true, true, NZ>>, 2, false, true, true, true}},
    {"bfloat16-nz-ta", {Enter<WholeProduct<bfloat16_t, true, false, NZ>>, 2, true, true, false, true}},
    {"float-to-nz",
     {Enter<WholeProduct<float, false, false, CubeFormat::ND, NZ>>, 4, false, false, false, false, true}},
    {"half-nz-to-nz", {Enter<WholeProduct<half, false, false, NZ, NZ>>, 2, false, false, false, true, true}},
    {"tiled-to-nz", {Enter<cases::TiledProduct<float, NZ>>, 4, false, false, false, false, true}},
    {"local-nz", {Enter<cases::LocalNzProduct<false>>, 4, false, false, false}},
    {"local-nz-tiles", {Enter<cases::LocalNzProduct<true>>, 4, false, false, false}},
    {"tiled", {Enter<cases::TiledProduct<float>>, 4, false, false, false}},
    {"tiled-half", {Enter<cases::TiledProduct<half>>, 2, false, false, false}},
    {"ahead", {Enter<cases::AheadProductEntry>, 4, false, false, false}},
    {"local", {Enter<cases::LocalProduct>, 4, false, false, false}},
    {"vecout", {Enter<cases::LocalOperands<float, false, false>>, 4, false, false, false}},
    {"vecout-half-ta", {Enter<cases::LocalOperands<half, true, false>>, 2, false, true, false}},
    {"vecout-bfloat16-tb", {Enter<cases::LocalOperands<bfloat16_t, false, true>>, 2, true, false, true}},
    {"vecout-nz", {Enter<cases::LocalOperands<float, false, false, NZ>>, 4, false, false, false, true}},
    {"vecout-nz-tb", {Enter<cases::LocalOperands<float, false, true, NZ>>, 4, false, false, true, true}},
    {"vecout-nz-half-tatb", {Enter<cases::LocalOperands<half, true, true, NZ>>, 2, false, true, true, true}},
    {"vecout-nz-bfloat16-ta", {Enter<cases::LocalOperands<bfloat16_t, true, false, NZ>>, 2, true, true, false, true}},
    {"bias", {Enter<cases::BiasedProduct<AscendC::TPosition::GM>>, 4, false, false, false, false, false, true}},
    {"bias-vecout",
     {Enter<cases::BiasedProduct<AscendC::TPosition::VECOUT>>, 4, false, false, false, false, false, true}},
    {"bias-tiles",
     {Enter<cases::BiasedProduct<AscendC::TPosition::GM, true>>, 4, false, false, false, false, false, true}},
    {"bias-vecout-tiles",
     {Enter<cases::BiasedProduct<AscendC::TPosition::VECOUT, true>>, 4, false, false, false, false, false, true}},
    {"both", {Enter<HandedTiles<Hand::BOTH>>, 4, false, false, false}},
    {"both-nz", {Enter<HandedTiles<Hand::BOTH, NZ>>, 4, false, false, false}},
    {"ahead-gm", {Enter<HandedTiles<Hand::AHEAD_GM>>, 4, false, false, false}},
    {"ahead-ub", {Enter<HandedTiles<Hand::AHEAD_UB>>, 4, false, false, false}},
    {"ahead-ub-nz", {Enter<HandedTiles<Hand::AHEAD_UB, NZ>>, 4, false, false, false}},
    {"ahead-both", {Enter<HandedTiles<Hand::AHEAD_BOTH>>, 4, false, false, false}},
    {"ahead-read", {Enter<HandedTiles<Hand::AHEAD_READ>>, 4, false, false, false}},
    {"ahead-read-nz", {Enter<HandedTiles<Hand::AHEAD_READ, NZ>>, 4, false, false, false}},
    {"two-open", {Enter<cases::TwoOpenObjects>, 4, false, false, false}},
    {"no-task-type", {Enter<cases::WithoutTaskType>, 4, false, false, false}},
    {"vector-cores", {Enter<cases::OnVectorCores>, 4, false, false, false}},
};

// A matrix with gaps between its rows, as stored and in double.
struct Matrix {
  Matrix(uint32_t rowsIn, uint32_t columns, uint32_t pitchIn, const Case& c, uint32_t seed)
      : rows(rowsIn), pitch(pitchIn) {
    width = c.nz ? 32 / c.bytes : pitch;
    height = c.nz ? (rows + 15) / 16 * 16 : rows;
    bytes.resize(static_cast<std::size_t>(height) * ((pitch + width - 1) / width * width) * c.bytes, 0x5A);
    values.resize(static_cast<std::size_t>(rows) * pitch);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < columns; ++column) {
        seed = seed * 1664525u + 1013904223u;
        Store(c, row, column, static_cast<float>(static_cast<int32_t>(seed >> 8) % 2001 - 1000) / 1000.0f);
      }
    }
  }
  void Store(const Case& c, uint32_t row, uint32_t column, float value) {
    // ND is one group of all columns.
    const std::size_t at = (static_cast<std::size_t>(column / width) * height + row) * width + column % width;
    double& kept = values[static_cast<std::size_t>(row) * pitch + column];
    if (c.bytes == 4) {
      std::memcpy(&bytes[at * 4], &value, 4);
      kept = value;
    } else if (c.bfloat) {
      const bfloat16_t narrow = AscendC::ToBfloat16(value);
      std::memcpy(&bytes[at * 2], &narrow, 2);
      kept = AscendC::ToFloat(narrow);
    } else {
      const half narrow = static_cast<half>(value);
      std::memcpy(&bytes[at * 2], &narrow, 2);
      kept = static_cast<float>(narrow);
    }
  }
  double At(uint32_t row, uint32_t column) const { return values[static_cast<std::size_t>(row) * pitch + column]; }

  uint32_t rows;
  uint32_t pitch;
  uint32_t width;   // of a group of columns
  uint32_t height;  // rows of a group
  Memory<unsigned char> bytes;
  std::vector<double> values;
};

int32_t* Field(AscendC::tiling::TCubeTiling& t, const std::string& name) {
  const std::map<std::string, int32_t*> fields = {{"usedCoreNum", &t.usedCoreNum},
                                                  {"baseM", &t.baseM},
                                                  {"baseN", &t.baseN},
                                                  {"baseK", &t.baseK},
                                                  {"singleCoreM", &t.singleCoreM},
                                                  {"singleCoreK", &t.singleCoreK},
                                                  {"depthA1", &t.depthA1},
                                                  {"depthB1", &t.depthB1},
                                                  {"stepM", &t.stepM},
                                                  {"dbL0A", &t.dbL0A},
                                                  {"dbL0C", &t.dbL0C},
                                                  {"isBias", &t.isBias},
                                                  {"iterateOrder", &t.iterateOrder}};
  return fields.at(name);
}

}  // namespace

int main(int argc, char** argv) {
  if ((argc != 9 && argc != 10) || kCases.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: run_matmul KERNEL M N K CORES BREAK FIELD VALUE [COUNTS]\n");
    return 3;
  }
  const Case& c = kCases.at(argv[1]);
  const auto number = [argv](int i) { return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
  cases::ProductTiling t{};
  t.m = number(2);
  t.n = number(3);
  t.k = number(4);
  t.pitchA = (c.transA ? t.m : t.k) + (c.nz ? 0 : 5);
  t.pitchB = (c.transB ? t.k : t.n) + (c.nz ? 0 : 3);
  t.pitchC = t.n + 7;
  t.breaks = number(6);
  const uint32_t blocks = number(5);

  fe::PlatFormInfos info;
  info.cubeCores = blocks;
  info.vectorCores = 2 * blocks;
  const platform_ascendc::PlatformAscendC platform(&info);
  matmul_tiling::MatmulApiTiling api(platform);
  using matmul_tiling::CubeFormat;
  using matmul_tiling::DataType;
  using matmul_tiling::TPosition;
  const auto type = c.bytes == 4 ? DataType::DT_FLOAT : c.bfloat ? DataType::DT_BFLOAT16 : DataType::DT_FLOAT16;
  const auto format = c.nz ? CubeFormat::NZ : CubeFormat::ND;
  api.SetAType(TPosition::GM, format, type, c.transA);
  api.SetBType(TPosition::GM, format, type, c.transB);
  api.SetCType(TPosition::GM, c.nzC ? CubeFormat::NZ : CubeFormat::ND, DataType::DT_FLOAT);
  api.SetBias(c.bias);
  api.SetShape(static_cast<int32_t>(cases::BLOCK_ROWS), static_cast<int32_t>(t.n), static_cast<int32_t>(t.k));
  if (api.GetTiling(t.mm) != 0) {
    std::printf("no tiling\n");
    return 3;
  }
  if (*argv[7] != '\0') {
    *Field(t.mm, argv[7]) = static_cast<int32_t>(std::strtol(argv[8], nullptr, 10));
  }

  const Matrix a(c.transA ? t.k : t.m, c.transA ? t.m : t.k, t.pitchA, c, 1);
  const Matrix b(c.transB ? t.n : t.k, c.transB ? t.k : t.n, t.pitchB, c, 2);
  const std::size_t stored = (t.m + 15) / 16 * 16;
  const uint32_t columns = c.nzC ? (t.n + 15) / 16 * 16 : t.pitchC;
  Memory<float> result((c.nzC ? stored : t.m) * columns, -7.0f);
  Memory<unsigned char> workspace(twin::kSystemWorkspaceBytes + 8ull * cases::BLOCK_ROWS * (t.n + 512) * 2 * blocks,
                                  twin::kPoison);
  void* arguments[] = {const_cast<unsigned char*>(a.bytes.data()), const_cast<unsigned char*>(b.bytes.data()),
                       result.data(), workspace.data(), &t};
  const twin::GmExtent extents[] = {
      {a.bytes.data(), a.bytes.size(), "a", false},
      {b.bytes.data(), b.bytes.size(), "b", false},
      {result.data(), result.size() * sizeof(float), "c", true},
      {workspace.data(), workspace.size(), "workspace", true, true},
      {&t, sizeof(t), "tiling data", false},
  };
  twin::Launch launch{};
  launch.name = argv[1];
  launch.entry = c.entry;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = 5;
  launch.blockDim = blocks;
  launch.cores = 2 * blocks;
  launch.vectorsPerBlock = launch.name == std::string("vector-cores") ? 1 : 2;
  launch.scheduleMode = 1;
  launch.workspace = workspace.data();
  launch.workspaceBytes = workspace.size();
  launch.tiling = &t;
  launch.tilingBytes = sizeof(t);
  char error[1024];
  const int code = twin::Run(launch, error, sizeof(error));
  if (code != 0) {
    std::printf("%d %s\n", code, error);
    return 1;
  }
  for (uint32_t i = 0; i < t.m; ++i) {
    for (uint32_t j = 0; j < columns; ++j) {
      double sum = c.bias && j < t.n ? b.At(0, j) : 0;
      for (uint32_t p = 0; j < t.n && p < t.k; ++p) {
        sum += (c.transA ? a.At(p, i) : a.At(i, p)) * (c.transB ? b.At(j, p) : b.At(p, j));
      }
      const double expected = j < t.n ? sum : -7.0;
      const std::size_t place = c.nzC ? j / 16 * stored * 16 + i * 16 + j % 16 : i * std::size_t{columns} + j;
      const double given = result[place];
      const bool right =
          c.nzC && j >= t.n ? std::isnan(given) : std::fabs(given - expected) <= 1e-6 * (10 + t.k);  // NaN: padding
      if (!right) {
        std::printf("wrong result at %u, %u: %g, expected %g\n", i, j, given, expected);
        return 2;
      }
    }
  }
  for (std::size_t i = t.m; c.nzC && i < stored; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      if (result[j / 16 * stored * 16 + i * 16 + j % 16] != -7.0f) {
        std::printf("written at %zu, %zu, behind the last row\n", i, j);
        return 2;
      }
    }
  }
  std::printf("ok\n");
  if (argc == 10) {
    const auto& work = twin::launchWork;
    for (const uint64_t bytes : {work.bytesRead, work.bytesWritten, work.hbmRead, work.hbmWritten}) {
      std::printf("%llu ", static_cast<unsigned long long>(bytes));
    }
  }
  return 0;
}
