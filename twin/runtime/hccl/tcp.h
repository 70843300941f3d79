// TCP sockets between ranks on several hosts, and which address of this host they use.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "descriptor.h"

namespace twin::hccl {
struct Endpoint {
  std::string address;  // numeric, IPv4 or IPv6
  uint16_t port = 0;

  explicit operator bool() const { return port != 0; }
  std::string Text() const { return address + ":" + std::to_string(port); }
};

enum class Transport {
  Auto,  // TCP where the job spans hosts, and only between them
  Tcp,   // TCP also between the ranks of one host
  Unix,  // one host only
};

// TWIN_HCCL_TRANSPORT; throws Failure for another value than auto, tcp and unix.
Transport TransportFromEnvironment();

// Whether this process belongs to a job of several hosts: the variables that torchrun sets say so, or HCCL_IF_IP or
// HCCL_SOCKET_IFNAME names the interface to use.
bool SpansHosts();

// HCCL_IF_IP, else an interface that HCCL_SOCKET_IFNAME allows; nothing when neither is set. Throws Failure when what
// is named is not there.
std::optional<std::string> ChosenAddress();
// The chosen address, else that of the first interface that is up and not the loopback, else the loopback's.
std::string OwnAddress();

// Listens at a free port of `address`, which `listener` gives back.
Descriptor ListenTcp(const std::string& address, int backlog, Endpoint* bound);
// Nothing while nobody listens there. Throws Failure when there is no way to it.
std::optional<Descriptor> ConnectTcp(const Endpoint& to, std::chrono::milliseconds patience);
// The address that this end of a connection has.
std::string AddressOf(const Descriptor& socket);
// That of the other end.
std::string PeerAddressOf(const Descriptor& socket);
// Small messages at once; a host that vanished is noticed.
void TuneTcp(const Descriptor& socket);
}  // namespace twin::hccl
