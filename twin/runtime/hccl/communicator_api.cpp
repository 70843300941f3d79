// HCCL functions that make, describe and destroy communicators.
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "entry.h"

namespace twin::hccl {
namespace {
// Rank 0 listens from HcclGetRootInfo on, so that its peers can connect in whatever order the ranks initialise.
class RootSides {
 public:
  static RootSides& Get() {
    static auto* sides = new RootSides;
    return *sides;
  }

  void Put(const std::string& job, RootSide side) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sides_.emplace(job, std::move(side));
  }

  RootSide Take(const std::string& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sides_.find(job);
    if (found == sides_.end()) {
      return {};
    }
    RootSide side = std::move(found->second);
    sides_.erase(found);
    return side;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, RootSide> sides_;
};

// More than a host can hold; keeps a garbled rank count from becoming a huge allocation.
constexpr uint32_t kMostRanks = 4096;

HcclRootInfo MakeRootInfo() {
  RootCard card = RootCard::Make();
  RootSide side = RootSide::Open(card);
  HcclRootInfo info;
  card.Write(info);
  RootSides::Get().Put(card.job, std::move(side));
  return info;
}

HcclComm Initialise(uint32_t ranks, const HcclRootInfo& info, uint32_t rank, const std::string& name) {
  if (ranks == 0 || ranks > kMostRanks || rank >= ranks) {
    throw Failure(HCCL_E_PARA, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                   " ranks; there can be 1 to " + std::to_string(kMostRanks));
  }
  const RootCard card = RootCard::Read(info);
  RootSide root = rank == 0 ? RootSides::Get().Take(card.job) : RootSide();
  const auto directory = root.directory;
  try {
    return MakeHandle(
        std::make_shared<Communicator>(card, name.empty() ? "twin-" + card.job : name, rank, ranks, std::move(root)));
  } catch (const std::exception&) {
    if (directory) {
      directory->Stop();  // the other ranks learn it from the connection's end
    }
    throw;
  }
}

// The first bytes of HcclCommConfig, as HcclCommConfigInit writes them.
struct ConfigHead {
  std::size_t size;
  uint32_t magic;
  uint32_t version;
  uint64_t reserved;
};

std::string NameFrom(const HcclCommConfig& config) {
  ConfigHead head;
  static_assert(sizeof head <= HCCL_COMM_CONFIG_INFO_BYTES);
  std::memcpy(&head, config.reserved, sizeof head);
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD) {
    throw Failure(HCCL_E_PARA, "config was not initialised by HcclCommConfigInit");
  }
  const std::size_t length = strnlen(config.hcclCommName, COMM_NAME_MAX_LENGTH);
  if (length == COMM_NAME_MAX_LENGTH) {
    throw Failure(HCCL_E_PARA, "the communicator name in config does not end");
  }
  return std::string(config.hcclCommName, length);
}
}  // namespace
}  // namespace twin::hccl

using namespace twin::hccl;

HCCL_EXPORT HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return Guard(__func__, [&] {
    RequirePointer(rootInfo, "rootInfo");
    *rootInfo = MakeRootInfo();
  });
}

HCCL_EXPORT HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                            HcclComm* comm) {
  return Guard(__func__, [&] {
    RequirePointer(rootInfo, "rootInfo");
    RequirePointer(comm, "comm");
    *comm = Initialise(nRanks, *rootInfo, rank, "");
  });
}

HCCL_EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                                  const HcclCommConfig* config, HcclComm* comm) {
  return Guard(__func__, [&] {
    RequirePointer(rootInfo, "rootInfo");
    RequirePointer(config, "config");
    RequirePointer(comm, "comm");
    *comm = Initialise(nRanks, *rootInfo, rank, NameFrom(*config));
  });
}

HCCL_EXPORT HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return Guard(__func__, [&] {
    RequirePointer(devices, "devices");
    RequirePointer(comms, "comms");
    if (std::set<int32_t>(devices, devices + ndev).size() != ndev) {
      throw Failure(HCCL_E_PARA, "a device is listed twice");
    }
    const HcclRootInfo info = MakeRootInfo();
    std::vector<HcclComm> made;
    try {
      for (uint32_t rank = 0; rank < ndev; ++rank) {
        made.push_back(Initialise(ndev, info, rank, ""));
      }
      if (made.empty()) {
        throw Failure(HCCL_E_PARA, "ndev is 0");
      }
    } catch (const std::exception&) {
      for (const HcclComm handle : made) {
        TakeHandle(handle)->Abandon();
      }
      if (const RootSide unused = RootSides::Get().Take(RootCard::Read(info).job); unused.directory) {
        unused.directory->Stop();
      }
      throw;
    }
    std::copy(made.begin(), made.end(), comms);
  });
}

HCCL_EXPORT HcclResult HcclCommDestroy(HcclComm comm) {
  return Guard(__func__, [&] { TakeHandle(comm)->Retire(); });
}

HCCL_EXPORT HcclResult HcclGetCommName(HcclComm commHandle, char* commName) {
  return Guard(__func__, [&] {
    RequirePointer(commName, "commName");
    const std::string& name = Find(commHandle)->Name();
    std::memcpy(commName, name.c_str(), name.size() + 1);  // both kinds of name are below COMM_NAME_MAX_LENGTH
  });
}

HCCL_EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return Guard(__func__, [&] {
    RequirePointer(asyncError, "asyncError");
    *asyncError = Find(comm)->AsyncError();
  });
}

// Buffer size, deterministic, communicator name.
HCCL_EXPORT uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_COMM_NAME + 1; }

// Results are deterministic anyway: every reduction runs in rank order.
HCCL_EXPORT HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  return Guard(__func__, [&] {
    if (config != HCCL_DETERMINISTIC || configValue.value < 0 || configValue.value > 1) {
      throw Failure(HCCL_E_PARA, "only HCCL_DETERMINISTIC with 0 or 1 is known, not option " + std::to_string(config) +
                                     " with " + std::to_string(configValue.value));
    }
  });
}
