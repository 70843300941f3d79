// Where each rank of a job of several hosts listens. The rank that made the root information keeps the list; every
// rank, that one included, enters itself over TCP and is sent the others' entries as they come.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"
#include "tcp.h"

namespace twin::hccl {
struct Member {
  uint32_t rank = 0;
  int64_t process = 0;
  std::string host;  // boot and network namespace
  Endpoint endpoint;
};

// Serves the list from a thread of its own, since no rank is sure to be inside a call when another one asks. The
// thread ends when every rank has been told of every other, when it is told to, or with the process.
class Directory {
 public:
  // `job` is the secret of the communicator's root information: who does not know it is turned away.
  static std::shared_ptr<Directory> Start(const std::string& job, const std::string& address);

  const Endpoint& Where() const { return where_; }
  void Stop() noexcept;

 private:
  Directory() = default;

  Endpoint where_;
  Descriptor stop_;  // eventfd
};

// One rank's view of the list.
class Membership {
 public:
  // Connects to the directory; Enter() puts this rank on the list.
  Membership(const Endpoint& directory, std::string job, uint32_t ranks);

  // This host's address on the way to the directory.
  std::string OwnAddress() const;
  void Enter(const Member& self);
  // Nothing while that rank has not entered. Throws Failure once the directory is gone and cannot tell.
  std::optional<Member> Find(uint32_t rank);

 private:
  void Read();

  const Endpoint directory_;
  const std::string job_;
  const uint32_t ranks_;
  Descriptor socket_;
  std::vector<char> received_;
  std::vector<std::optional<Member>> members_;
};
}  // namespace twin::hccl
