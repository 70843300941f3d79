// run_flags MODE PAIRS CHUNKS: the first vector core of each pair passes chunks of 64 KiB on to the second one, by
// flags between them. Prints the bytes that the emulated L2 lets through: read, written. Exit code 0 when the second
// cores have stored what the first ones were given, 1 when the kernel trapped, 2 else.
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "ascendc/launch.h"
#include "kernels.h"
#include "launch_work.h"
#include "line_memory.h"

namespace {

using namespace cases;

constexpr uint32_t CHUNK = 64 * 1024 / sizeof(float);

template <uint8_t mode>
void PassOn(void* const* a) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  const auto* tiling = static_cast<const Tiling*>(a[3]);
  const uint64_t floats = static_cast<uint64_t>(tiling->elements) * tiling->blocks;
  const uint64_t start = static_cast<uint64_t>(GetBlockIdx() / 2) * tiling->elements;
  const GlobalTensor<float> given = Floats(static_cast<uint8_t*>(a[0]), floats)[start];
  const GlobalTensor<float> taken = Floats(static_cast<uint8_t*>(a[1]), floats)[start];
  const GlobalTensor<float> between = Floats(GetUserWorkspace(static_cast<uint8_t*>(a[2])), floats)[start];
  const bool first = GetSubBlockIdx() == 0;
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, CHUNK * sizeof(float));
  LocalTensor<float> t = buffer.Get<float>();
  const auto move = [&t](const GlobalTensor<float>& from, const GlobalTensor<float>& to) {
    PipeBarrier<PIPE_ALL>();
    DataCopy(t, from, CHUNK);
    PipeBarrier<PIPE_ALL>();
    DataCopy(to, t, CHUNK);
  };
  for (uint32_t at = 0; at < tiling->elements; at += CHUNK) {
    if (first) {
      move(given[at], between[at]);
    }
    CrossCoreSetFlag<mode, PIPE_MTE3>(5);
    CrossCoreWaitFlag(5);
    if (!first) {
      move(between[at], taken[at]);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: run_flags MODE PAIRS CHUNKS\n");
    return 3;
  }
  const auto number = [argv](int at) { return static_cast<uint32_t>(std::strtoul(argv[at], nullptr, 10)); };
  const Tiling tiling{number(3) * CHUNK, number(2)};
  const std::size_t floats = static_cast<std::size_t>(tiling.elements) * tiling.blocks;
  Memory<float> x(floats);
  Memory<float> y(floats);
  Memory<unsigned char> workspace(twin::kSystemWorkspaceBytes + floats * sizeof(float), twin::kPoison);
  std::iota(x.begin(), x.end(), 1.0f);
  void* arguments[] = {x.data(), y.data(), workspace.data(), const_cast<Tiling*>(&tiling)};
  const twin::GmExtent extents[] = {
      {x.data(), floats * sizeof(float), "x", false},
      {y.data(), floats * sizeof(float), "y", true},
      {workspace.data(), workspace.size(), "workspace", true, true},
      {&tiling, sizeof(tiling), "tiling data", false},
  };
  twin::Launch launch{};
  launch.name = "PassOn";
  launch.entry = number(1) == 0 ? PassOn<0> : PassOn<1>;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = 4;
  launch.blockDim = tiling.blocks;
  launch.cores = 2 * tiling.blocks;
  launch.vectorsPerBlock = 2;
  launch.scheduleMode = 1;
  launch.workspace = workspace.data();
  launch.workspaceBytes = workspace.size();
  launch.tiling = &tiling;
  launch.tilingBytes = sizeof(tiling);
  char error[1024];
  const int code = twin::Run(launch, error, sizeof(error));
  if (code != 0) {
    std::printf("%d %s\n", code, error);
    return 1;
  }
  std::printf("%llu %llu\n", static_cast<unsigned long long>(twin::launchWork.hbmRead),
              static_cast<unsigned long long>(twin::launchWork.hbmWritten));
  return x == y ? 0 : 2;
}
