// How the ranks of one communicator find each other: abstract Unix sockets, which have no file and vanish with their
// process. The address carries user, job and rank: "twin-hccl/u<uid>/p<root pid>-<random>/r<rank>".
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "descriptor.h"
#include "hccl/hccl_types.h"

namespace twin::hccl {
// Made by rank 0, carried to the others by the caller (torch's store).
struct RootCard {
    std::string job;    // "p<root pid>-<random>"
    uid_t user;
    std::string host;   // boot and network namespace: abstract sockets reach no further

    static RootCard Make();
    // Throws Failure when `info` is no card of the twin, or from another host or user.
    static RootCard Read(const HcclRootInfo &info);
    void Write(HcclRootInfo &info) const;
};

struct Greeting {
    uint32_t version;
    uint32_t rank;
    uint32_t ranks;
};

struct Arrival {
    Descriptor socket;
    Greeting greeting;
    pid_t process;
};

// Listens for rank `rank`; the backlog holds every other rank, so that peers connect before this rank looks.
Descriptor Listen(const RootCard &card, uint32_t rank, uint32_t ranks);
// Connects to `peer` and greets it as `rank`; nothing while the peer does not listen yet.
std::optional<Arrival> TryConnect(const RootCard &card, uint32_t peer, uint32_t rank, uint32_t ranks);
// Takes one peer from the backlog, if there is one. Connections of other users and broken ones are dropped.
std::optional<Arrival> TryAccept(const Descriptor &listener);
}
