#include "tcp.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>

#include "failure.h"

namespace twin::hccl {
namespace {
constexpr int kIdleBeforeProbe = 10;  // seconds
constexpr int kProbeInterval = 5;
constexpr int kProbes = 3;
constexpr unsigned kUnacknowledgedMs = 30000;

std::string Reason(int error) { return std::generic_category().message(error); }

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::make_optional<std::string>(value);
}

long Number(const char* name) { return std::strtol(Variable(name).value_or("0").c_str(), nullptr, 10); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (const int code = getaddrinfo(endpoint.address.c_str(), port.c_str(), &hints, &found); code != 0) {
    throw Failure(HCCL_E_PARA, endpoint.address + " is not a numeric address: " + gai_strerror(code));
  }
  return {found, freeaddrinfo};
}

Descriptor NewSocket(int family) {
  Descriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) {
    throw Failure(HCCL_E_SYSCALL, "socket: " + Reason(errno));
  }
  return made;
}

// `ask` is getsockname or getpeername.
Endpoint NameOf(const Descriptor& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* address = reinterpret_cast<sockaddr*>(&name);
  if (ask(socket.Number(), address, &size) != 0 || getnameinfo(address, size, host.data(), host.size(), port.data(),
                                                               port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    throw Failure(HCCL_E_SYSCALL, "the address of a socket: " + Reason(errno));
  }
  return {host.data(), static_cast<uint16_t>(std::strtoul(port.data(), nullptr, 10))};
}

void Set(const Descriptor& socket, int level, int option, int value) {
  static_cast<void>(setsockopt(socket.Number(), level, option, &value, sizeof value));
}
}  // namespace

Transport TransportFromEnvironment() {
  const std::string value = Variable("TWIN_HCCL_TRANSPORT").value_or("auto");
  if (value == "auto") {
    return Transport::Auto;
  }
  if (value == "tcp") {
    return Transport::Tcp;
  }
  if (value == "unix") {
    return Transport::Unix;
  }
  throw Failure(HCCL_E_PARA, "TWIN_HCCL_TRANSPORT=" + value + " is not one of auto, tcp and unix");
}

bool SpansHosts() {
  const bool named = Variable("HCCL_IF_IP") || Variable("HCCL_SOCKET_IFNAME");
  const bool moreNodes = Number("GROUP_WORLD_SIZE") > 1;
  const bool moreRanks = Number("LOCAL_WORLD_SIZE") > 0 && Number("WORLD_SIZE") > Number("LOCAL_WORLD_SIZE");
  return named || moreNodes || moreRanks;
}

Descriptor ListenTcp(const std::string& address, int backlog, Endpoint* bound) {
  const Addresses found = Resolve({address, 0});
  Descriptor listener = NewSocket(found->ai_family);
  if (bind(listener.Number(), found->ai_addr, found->ai_addrlen) != 0) {
    throw Failure(HCCL_E_TCP_CONNECT, "this host cannot listen at " + address + ": " + Reason(errno) +
                                          "; name an address of this host with HCCL_IF_IP, or an interface with "
                                          "HCCL_SOCKET_IFNAME");
  }
  if (listen(listener.Number(), backlog) != 0) {
    throw Failure(HCCL_E_SYSCALL, "listen: " + Reason(errno));
  }
  *bound = NameOf(listener, getsockname);
  return listener;
}

std::optional<Descriptor> ConnectTcp(const Endpoint& to, std::chrono::milliseconds patience) {
  const Addresses found = Resolve(to);
  Descriptor socket = NewSocket(found->ai_family);
  int error = 0;
  if (connect(socket.Number(), found->ai_addr, found->ai_addrlen) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    pollfd ready{socket.Number(), POLLOUT, 0};
    if (poll(&ready, 1, static_cast<int>(patience.count())) != 1) {
      return std::nullopt;
    }
    socklen_t size = sizeof error;
    static_cast<void>(getsockopt(socket.Number(), SOL_SOCKET, SO_ERROR, &error, &size));
  }
  if (error == ECONNREFUSED || error == EAGAIN || error == EINTR || error == ETIMEDOUT) {
    return std::nullopt;
  }
  if (error != 0) {
    throw Failure(HCCL_E_TCP_CONNECT, "no connection to " + to.Text() + ": " + Reason(error) +
                                          "; HCCL_IF_IP or HCCL_SOCKET_IFNAME on that host names the interface "
                                          "that the other hosts reach");
  }
  TuneTcp(socket);
  return socket;
}

std::string AddressOf(const Descriptor& socket) { return NameOf(socket, getsockname).address; }

std::string PeerAddressOf(const Descriptor& socket) { return NameOf(socket, getpeername).address; }

void TuneTcp(const Descriptor& socket) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleBeforeProbe);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeInterval);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kUnacknowledgedMs));
}
}  // namespace twin::hccl
