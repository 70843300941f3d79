#include "rendezvous.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "failure.h"
#include "link.h"

namespace twin::hccl {
namespace {
constexpr uint32_t kVersion = 2;
constexpr char kMagic[] = "twin-hccl root information";
constexpr int kGreetingPatienceMs = 1000;
constexpr int kSocketBuffer = 1 << 20;
constexpr std::chrono::milliseconds kConnectPatience{1000};
// More than a host can hold; how many ranks there are is not known yet when the root information is made.
constexpr uint32_t kMostRanks = 4096;

// As it lies in HcclRootInfo.
struct RawCard {
  char magic[sizeof kMagic];
  uint32_t version;
  uint32_t user;
  uint32_t port;  // 0: no directory
  char job[64];
  char host[128];
  char address[64];
};
static_assert(sizeof(RawCard) <= HCCL_ROOT_INFO_BYTES);

struct RawGreeting {
  FrameHeader header;
  Greeting greeting;
  char job[64];
};

std::string Host() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> space{};
  const bool known = readlink("/proc/self/ns/net", space.data(), space.size() - 1) > 0;
  return boot + "/" + (known ? space.data() : "");
}

template <std::size_t Size>
void Copy(char (&to)[Size], const std::string& from) {
  std::memset(to, 0, Size);
  from.copy(to, Size - 1);
}

template <std::size_t Size>
std::string Text(const char (&from)[Size]) {
  return std::string(from, strnlen(from, Size));
}

[[noreturn]] void ThrowSystem(const std::string& action, int error) {
  throw Failure(HCCL_E_SYSCALL, action + ": " + std::generic_category().message(error));
}

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;

  Address(const RootCard& card, uint32_t rank) {
    const std::string name = "twin-hccl/u" + std::to_string(geteuid()) + "/" + card.job + "/r" + std::to_string(rank);
    value.sun_family = AF_UNIX;  // a name that starts with a zero byte is abstract
    name.copy(value.sun_path + 1, sizeof value.sun_path - 1);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* Get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

Descriptor NewSocket() {
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) {
    ThrowSystem("socket", errno);
  }
  return made;
}

void EnlargeBuffer(const Descriptor& socket) {
  // The kernel caps it at net.core.wmem_max; a smaller buffer only means more rounds.
  static_cast<void>(setsockopt(socket.Number(), SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer));
}

std::string ProcessText(int64_t process, const std::string& address) {
  return "pid " + std::to_string(process) + (address.empty() ? "" : " at " + address);
}

// The peer greets at once after it connects.
std::optional<RawGreeting> ReadGreeting(const Descriptor& socket) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(kGreetingPatienceMs);
  RawGreeting greeting{};
  for (std::size_t have = 0; have < sizeof greeting;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd ready{socket.Number(), POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) != 1) {
      return std::nullopt;
    }
    const ssize_t got = recv(socket.Number(), reinterpret_cast<char*>(&greeting) + have, sizeof greeting - have, 0);
    if (got <= 0) {
      return std::nullopt;
    }
    have += static_cast<std::size_t>(got);
  }
  if (greeting.header.kind != FrameKind::Hello || greeting.greeting.version != kVersion) {
    return std::nullopt;
  }
  return greeting;
}

Descriptor ListenUnix(const RootCard& card, uint32_t rank, uint32_t ranks) {
  Descriptor listener = NewSocket();
  const Address address(card, rank);
  if (bind(listener.Number(), address.Get(), address.size) != 0) {
    if (errno == EADDRINUSE) {
      throw Failure(HCCL_E_PARA, "rank " + std::to_string(rank) + " of this communicator exists already");
    }
    ThrowSystem("bind", errno);
  }
  if (listen(listener.Number(), static_cast<int>(ranks)) != 0) {
    ThrowSystem("listen", errno);
  }
  return listener;
}

std::optional<ucred> Credentials(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.Number(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return peer;
}
}  // namespace

RootCard RootCard::Make() {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    ThrowSystem("getrandom", errno);
  }
  std::string token;
  for (const unsigned char byte : random) {
    constexpr char digits[] = "0123456789abcdef";
    token += {digits[byte >> 4], digits[byte & 15]};
  }
  return {"p" + std::to_string(getpid()) + "-" + token, geteuid(), Host(), {}};
}

RootCard RootCard::Read(const HcclRootInfo& info) {
  RawCard raw{};
  std::memcpy(&raw, info.internal, sizeof raw);
  if (std::memcmp(raw.magic, kMagic, sizeof kMagic) != 0 || raw.version != kVersion) {
    throw Failure(HCCL_E_PARA, "the root information was not made by this version of the twin's HcclGetRootInfo");
  }
  RootCard card{Text(raw.job), raw.user, Text(raw.host), {Text(raw.address), static_cast<uint16_t>(raw.port)}};
  if (card.host != Host() && !card.directory) {
    throw Failure(HCCL_E_NOT_SUPPORT,
                  "without TCP the twin's collectives join processes of one host and network "
                  "namespace; rank 0 runs on " +
                      card.host + ", this rank on " + Host() +
                      "; start the job with torchrun, or set HCCL_IF_IP or "
                      "HCCL_SOCKET_IFNAME on every host");
  }
  if (card.host == Host() && card.user != geteuid()) {
    throw Failure(HCCL_E_NOT_SUPPORT, "rank 0 runs as user " + std::to_string(card.user) + ", this rank as " +
                                          std::to_string(geteuid()) + "; all ranks must be of one user");
  }
  return card;
}

void RootCard::Write(HcclRootInfo& info) const {
  RawCard raw{};
  std::memcpy(raw.magic, kMagic, sizeof kMagic);
  raw.version = kVersion;
  raw.user = user;
  Copy(raw.job, job);
  Copy(raw.host, host);
  Copy(raw.address, directory.address);
  raw.port = directory.port;
  std::memset(&info, 0, sizeof info);
  std::memcpy(info.internal, &raw, sizeof raw);
}

RootSide RootSide::Open(RootCard& card) {
  RootSide side{ListenUnix(card, 0, kMostRanks), nullptr};
  const Transport transport = TransportFromEnvironment();
  if (transport == Transport::Tcp || (transport == Transport::Auto && SpansHosts())) {
    side.directory = Directory::Start(card.job, OwnAddress());
    card.directory = side.directory->Where();
  }
  return side;
}

Rendezvous::Rendezvous(RootCard card, uint32_t rank, uint32_t ranks, RootSide root)
    : card_(std::move(card)),
      rank_(rank),
      ranks_(ranks),
      transport_(TransportFromEnvironment()),
      local_(root.listener ? std::move(root.listener) : ListenUnix(card_, rank, ranks)),
      directory_(std::move(root.directory)) {
  if (card_.directory) {
    membership_.emplace(card_.directory, card_.job, ranks_);
    Endpoint own;
    remote_ = ListenTcp(membership_->OwnAddress(), static_cast<int>(ranks), &own);
    membership_->Enter({rank_, getpid(), Host(), own});
  }
}

void Rendezvous::CloseList() noexcept {
  membership_.reset();
  if (directory_) {
    directory_->Stop();  // the ranks that still look for this one learn that it failed
  }
}

std::vector<pollfd> Rendezvous::Waits() const {
  std::vector<pollfd> waits = {{local_.Number(), POLLIN, 0}};
  if (remote_) {
    waits.push_back({remote_.Number(), POLLIN, 0});
  }
  return waits;
}

std::optional<Arrival> Rendezvous::TryConnect(uint32_t peer) {
  if (!membership_) {
    return TryUnix(peer);
  }
  const auto member = membership_->Find(peer);
  if (!member) {
    return std::nullopt;
  }
  return member->host == Host() && transport_ != Transport::Tcp ? TryUnix(peer) : TryTcp(*member);
}

std::optional<Arrival> Rendezvous::TryUnix(uint32_t peer) {
  Descriptor socket = NewSocket();
  const Address address(card_, peer);
  if (connect(socket.Number(), address.Get(), address.size) != 0) {
    if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) {
      return std::nullopt;
    }
    ThrowSystem("connect to rank " + std::to_string(peer), errno);
  }
  const auto credentials = Credentials(socket);
  if (!credentials || credentials->uid != geteuid()) {
    throw Failure(HCCL_E_PARA, "the socket of rank " + std::to_string(peer) + " belongs to another user");
  }
  return Greet(std::move(socket), ProcessText(credentials->pid, ""));
}

std::optional<Arrival> Rendezvous::TryTcp(const Member& member) {
  auto socket = ConnectTcp(member.endpoint, kConnectPatience);
  if (!socket) {
    return std::nullopt;
  }
  return Greet(std::move(*socket), ProcessText(member.process, member.endpoint.address));
}

std::optional<Arrival> Rendezvous::Greet(Descriptor socket, std::string process) {
  EnlargeBuffer(socket);
  RawGreeting greeting{
      {FrameKind::Hello, 0, sizeof(RawGreeting) - sizeof(FrameHeader)}, {kVersion, rank_, ranks_, getpid()}, {}};
  Copy(greeting.job, card_.job);
  if (send(socket.Number(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
    return std::nullopt;  // the peer closed again; the next attempt tells
  }
  return Arrival{std::move(socket), greeting.greeting, std::move(process)};
}

std::optional<Arrival> Rendezvous::TryAccept() {
  for (const Descriptor* listener : {&local_, &remote_}) {
    if (!*listener) {
      continue;
    }
    Descriptor socket(accept4(listener->Number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) {
        continue;
      }
      ThrowSystem("accept", errno);
    }
    const bool isLocal = listener == &local_;
    const auto credentials = isLocal ? Credentials(socket) : std::nullopt;
    if (isLocal && (!credentials || credentials->uid != geteuid())) {
      continue;
    }
    const auto greeting = ReadGreeting(socket);
    if (!greeting || Text(greeting->job) != card_.job) {
      continue;
    }
    EnlargeBuffer(socket);
    std::string process = ProcessText(greeting->greeting.process, isLocal ? "" : PeerAddressOf(socket));
    if (!isLocal) {
      TuneTcp(socket);
    }
    return Arrival{std::move(socket), greeting->greeting, std::move(process)};
  }
  return std::nullopt;
}
}  // namespace twin::hccl
