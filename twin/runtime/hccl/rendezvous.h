// How the ranks of one communicator find each other. On one host by abstract Unix sockets, which have no file and
// vanish with their process; the address carries user, job and rank: "twin-hccl/u<uid>/p<root pid>-<random>/r<rank>".
// Between hosts by TCP, with the directory of the rank that made the root information (directory.h).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "descriptor.h"
#include "directory.h"
#include "hccl/hccl_types.h"
#include "tcp.h"

namespace twin::hccl {
// Made by rank 0, carried to the others by the caller (torch's store).
struct RootCard {
  std::string job;  // "p<root pid>-<random>", which no other process can guess
  uid_t user;
  std::string host;    // boot and network namespace: abstract sockets reach no further
  Endpoint directory;  // empty when the job stays on one host

  static RootCard Make();
  // Throws Failure when `info` is no card of the twin, or there is no way to the host or user that made it.
  static RootCard Read(const HcclRootInfo& info);
  void Write(HcclRootInfo& info) const;
};

struct Greeting {
  uint32_t version;
  uint32_t rank;
  uint32_t ranks;
  int64_t process;
};

struct Arrival {
  Descriptor socket;
  Greeting greeting;
  std::string process;  // for error texts: "pid 42" or "pid 42 at 10.0.0.2"
};

// What rank 0 opens when it makes the root information, so that its peers can connect before it initialises.
struct RootSide {
  Descriptor listener;
  std::shared_ptr<Directory> directory;  // empty when the job stays on one host

  // Writes the directory's endpoint into `card`.
  static RootSide Open(RootCard& card);
};

// One rank's side.
class Rendezvous {
 public:
  // `root` is empty unless this process made the root information.
  Rendezvous(RootCard card, uint32_t rank, uint32_t ranks, RootSide root);

  // Connects to `peer` and greets it; nothing while the peer does not listen yet.
  std::optional<Arrival> TryConnect(uint32_t peer);
  // Takes one peer from the backlogs, if there is one. Connections of other users or jobs, and broken ones, are
  // dropped.
  std::optional<Arrival> TryAccept();
  // What becomes readable when a peer comes.
  std::vector<pollfd> Waits() const;
  // The list of ranks, if this rank keeps it or reads it, ends here.
  void CloseList() noexcept;

 private:
  std::optional<Arrival> TryUnix(uint32_t peer);
  std::optional<Arrival> TryTcp(const Member& member);
  std::optional<Arrival> Greet(Descriptor socket, std::string process);

  const RootCard card_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const Transport transport_;
  Descriptor local_;
  std::shared_ptr<Directory> directory_;
  std::optional<Membership> membership_;  // in a job of several hosts
  Descriptor remote_;
};
}  // namespace twin::hccl
