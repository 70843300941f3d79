// run_case NAME BLOCKS CORES ELEMENTS SCHEDULE_MODE [SEEDS]: runs one test kernel, once for each seed of "1,2,...";
// prints "ok" or the trap's report.
// Exit code 0 when it ran and y[i] == x[i] + 1 where the case promises it, 1 when it trapped, 2 for a wrong result.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ascendc/launch.h"
#include "correct.h"
#include "more_mutants.h"
#include "mutants.h"

namespace {

template <void (*kernel)(const cases::Arguments&)>
void Enter(void* const* a) {
  kernel({static_cast<uint8_t*>(a[0]), static_cast<uint8_t*>(a[1]), static_cast<uint8_t*>(a[2]),
          static_cast<uint8_t*>(a[3])});
}

struct Case {
  void (*entry)(void* const*);
  bool addsOne;
};

#define CORRECT(NAME)                   \
  {                                     \
    #NAME, { Enter<cases::NAME>, true } \
  }
#define BROKEN(NAME)                     \
  {                                      \
    #NAME, { Enter<cases::NAME>, false } \
  }

const std::map<std::string, Case> kCases = {
    CORRECT(AddOneQueued),
    CORRECT(AddOneFlags),
    CORRECT(AddOneScalar),
    CORRECT(AddNeighboursToken),
    CORRECT(AddOneAtomically),
    CORRECT(AddTokensByFlags),
    CORRECT(AddOneInChains),
    CORRECT(AddOneThroughCopy),
    CORRECT(AddOneBehindLoadAhead),
    CORRECT(AddOneGathered),
    CORRECT(AddOneByFiller),
    CORRECT(AddOnePreloaded),
    BROKEN(GatherBetweenElements),
    BROKEN(GatherPastTensor),
    BROKEN(GatherInPlace),
    BROKEN(GatherByUndefinedOffsets),
    BROKEN(MisalignedUb),
    BROKEN(TailLostByDataCopy),
    BROKEN(TooMuchUb),
    BROKEN(TooManyBuffers),
    BROKEN(TooManyLive),
    BROKEN(AllocWithoutFree),
    BROKEN(EnQueBeyondDepth),
    BROKEN(DeQueEmpty),
    BROKEN(FreeTwice),
    BROKEN(FreeInOtherQueue),
    BROKEN(EventIdOutOfRange),
    BROKEN(EventNotReleased),
    BROKEN(VectorBeforeLoad),
    BROKEN(StoreBeforeVector),
    BROKEN(LoadOverStore),
    BROKEN(ScalarBeforeVector),
    BROKEN(StoreBeforeScalar),
    BROKEN(FlagOfOtherPipes),
    BROKEN(WaitWithoutSet),
    BROKEN(SetTwice),
    BROKEN(SetLeftOver),
    BROKEN(TwoLoadsOneBuffer),
    BROKEN(TwoStoresOnePlace),
    BROKEN(BurstTooLong),
    BROKEN(TooMuchPadding),
    BROKEN(StoreOfUndefined),
    BROKEN(StoreOfFiller),
    BROKEN(BranchOnUndefined),
    BROKEN(ReadPastTensor),
    BROKEN(ReadPastStatedSize),
    BROKEN(WriteInput),
    BROKEN(ScalarWritesShareALine),
    BROKEN(StaleScalarRead),
    BROKEN(StalePreload),
    BROKEN(ReadOfPreloaded),
    BROKEN(PreloadPastTensor),
    BROKEN(OverlappingShares),
    BROKEN(ReadBeforeMeeting),
    BROKEN(MeetingBeforeStoreEnds),
    BROKEN(MeetingOfSome),
    BROKEN(MeetingWithoutMixType),
    BROKEN(MeetingOfBoth),
    BROKEN(Meeting),
    BROKEN(RepeatTooLarge),
    BROKEN(MaskTooLarge),
    BROKEN(VectorPastBuffer),
    BROKEN(ShiftedOverlap),
    BROKEN(OtherTilingClass),
    BROKEN(QueueTensorNotFreed),
    BROKEN(ScalarPastTensor),
    BROKEN(TwoPipes),
    BROKEN(AtomicOverPlainStore),
    BROKEN(AtomicOntoNothing),
    BROKEN(AtomicOfOtherType),
    BROKEN(AtomicOfTwoKinds),
    BROKEN(AtomicModeLeftOn),
    BROKEN(StrideZero),
    BROKEN(LanesMisaligned),
    BROKEN(RepeatReadsResult),
    BROKEN(LaneOfUndefined),
    BROKEN(LaneLeftOut),
    BROKEN(LanePastBuffer),
    BROKEN(LanesBeforeLoad),
    BROKEN(LanesOverStore),
    BROKEN(BlocksShifted),
    BROKEN(CastModeUnknown),
    BROKEN(CompareOfPart),
    BROKEN(CompareOfRepeats),
    BROKEN(CmpMaskIntoLittle),
    BROKEN(CmpMaskMisaligned),
    BROKEN(SelectByBitsNotCompared),
    BROKEN(SelectByNoAddress),
    BROKEN(TransPartlyInPlace),
    BROKEN(TransMisaligned),
    BROKEN(TransOutsideBuffers),
    BROKEN(TransOnceWithStride),
    BROKEN(TransReadsResult),
    BROKEN(SelectOverBuffers),
    BROKEN(FlagNotWaitedFor),
    BROKEN(FlagOfOtherPipe),
    BROKEN(FlagOfSyncAll),
    BROKEN(FlagOfSome),
    BROKEN(FlagSetTooOften),
    BROKEN(OutputQueueLoaded),
    BROKEN(EnQueOfBuffer),
    BROKEN(DivisionByZero),
    BROKEN(LargeLocalArray),
    BROKEN(PollingForEver),
    BROKEN(LoopWithoutCall),
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6 || argc > 7 || kCases.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: run_case NAME BLOCKS CORES ELEMENTS SCHEDULE_MODE [SEEDS]\n");
    return 3;
  }
  const auto& chosen = kCases.at(argv[1]);
  const auto blocks = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const cases::Tiling tiling{static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)), blocks};
  const std::size_t total = static_cast<std::size_t>(tiling.elements) * blocks;
  std::vector<float> x(total);
  for (std::size_t i = 0; i < total; ++i) {
    x[i] = static_cast<float>(i % 1000) * 0.5f;
  }
  std::vector<float> y(total);
  std::vector<uint64_t> workspace((twin::kSystemWorkspaceBytes + 64 * 1024) / 8);
  std::memset(workspace.data() + twin::kSystemWorkspaceBytes / 8, twin::kPoison, 64 * 1024);
  const std::size_t workspaceBytes = workspace.size() * 8;
  void* arguments[] = {x.data(), y.data(), workspace.data(), const_cast<cases::Tiling*>(&tiling)};
  const twin::GmExtent extents[] = {
      {x.data(), total * sizeof(float), "x", false},
      {y.data(), total * sizeof(float), "y", true},
      {workspace.data(), workspaceBytes, "workspace", true, true},
      {&tiling, sizeof(tiling), "tiling data", false},
  };
  twin::Launch launch{};
  launch.name = argv[1];
  launch.entry = chosen.entry;
  launch.arguments = arguments;
  launch.extents = extents;
  launch.extentCount = 4;
  launch.blockDim = blocks;
  launch.cores = static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10));
  launch.scheduleMode = static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10));
  launch.workspace = workspace.data();
  launch.workspaceBytes = workspaceBytes;
  launch.tiling = &tiling;
  launch.tilingBytes = sizeof(tiling);
  const std::string seeds = argc == 7 ? argv[6] : "";
  std::size_t at = 0;
  do {
    const std::size_t comma = std::min(seeds.find(',', at), seeds.size());
    if (!seeds.empty()) {
      setenv("TWIN_SEED", seeds.substr(at, comma - at).c_str(), 1);
    }
    at = comma + 1;
    std::fill(y.begin(), y.end(), -1.0f);
    char error[1024];
    const int code = twin::Run(launch, error, sizeof(error));
    if (code != 0) {
      std::printf("%d %s\n", code, error);
      return 1;
    }
    for (std::size_t i = 0; chosen.addsOne && i < total; ++i) {
      if (y[i] != x[i] + 1.0f) {
        std::printf("wrong result at %zu: %g\n", i, static_cast<double>(y[i]));
        return 2;
      }
    }
  } while (at < seeds.size());
  std::printf("ok\n");
  return 0;
}
