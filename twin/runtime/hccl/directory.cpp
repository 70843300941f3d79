#include "directory.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "failure.h"
#include "twin/block_signals.h"

namespace twin::hccl {
namespace {
constexpr uint32_t kMagic = 0x74776e31;  // also tells the format
constexpr int kBacklog = 4096;
constexpr uint32_t kMostRanks = 4096;
constexpr std::chrono::seconds kConnectPatience{10};
constexpr std::chrono::milliseconds kRetry{50};

// As it goes over the wire, in both directions.
struct Entry {
  uint32_t magic = kMagic;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  uint32_t port = 0;
  int64_t process = 0;
  char job[64] = {};
  char host[128] = {};
  char address[64] = {};
};

template <std::size_t Size>
void Copy(char (&to)[Size], const std::string& from) {
  from.copy(to, Size - 1);
}

template <std::size_t Size>
std::string Text(const char (&from)[Size]) {
  return std::string(from, strnlen(from, Size));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

struct Client {
  Descriptor socket;
  std::vector<char> in;
  std::vector<char> out;
  bool entered = false;
  bool lost = false;
};

// The state of the serving thread.
class Service {
 public:
  Service(std::string job, Descriptor listener) : job_(std::move(job)), listener_(std::move(listener)) {}

  void Run(int stop) {
    while (!Done()) {
      std::vector<pollfd> waits = {{stop, POLLIN, 0}, {listener_.Number(), POLLIN, 0}};
      for (const Client& client : clients_) {
        const int writes = client.out.empty() ? 0 : POLLOUT;
        waits.push_back({client.socket.Number(), static_cast<short>(POLLIN | writes), 0});
      }
      if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
        return;
      }
      if (waits[0].revents != 0) {
        return;
      }
      Accept();
      for (Client& client : clients_) {
        Take(client);
        Give(client);
      }
      clients_.remove_if([](const Client& client) { return client.lost; });
    }
  }

 private:
  bool Done() const {
    if (ranks_ == 0 || entries_.size() < ranks_) {
      return false;
    }
    for (const Client& client : clients_) {
      if (!client.out.empty()) {
        return false;
      }
    }
    return true;
  }

  void Accept() {
    while (true) {
      Descriptor socket(accept4(listener_.Number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        return;
      }
      TuneTcp(socket);
      clients_.push_back({std::move(socket), {}, {}, false, false});
    }
  }

  void Take(Client& client) {
    Entry entry;
    char bytes[sizeof(Entry)];
    const ssize_t count = recv(client.socket.Number(), bytes, sizeof bytes - client.in.size(), MSG_DONTWAIT);
    if (count < 0 && WouldBlock(errno)) {
      return;
    }
    if (count <= 0 || client.entered) {
      client.lost = true;
      return;
    }
    client.in.insert(client.in.end(), bytes, bytes + count);
    if (client.in.size() < sizeof entry) {
      return;
    }
    std::memcpy(&entry, client.in.data(), sizeof entry);
    client.in.clear();
    Register(client, entry);
  }

  void Register(Client& client, const Entry& entry) {
    const bool sound = entry.magic == kMagic && Text(entry.job) == job_ && entry.ranks <= kMostRanks &&
                       entry.rank < entry.ranks && (ranks_ == 0 || entry.ranks == ranks_);
    if (!sound || !taken_.insert(entry.rank).second) {
      client.lost = true;  // the rank sees the connection end and says so
      return;
    }
    ranks_ = entry.ranks;
    client.entered = true;
    entries_.push_back(entry);
    for (const Entry& known : entries_) {
      Queue(client, known);
    }
    for (Client& other : clients_) {
      if (other.entered && &other != &client) {
        Queue(other, entry);
      }
    }
  }

  static void Queue(Client& client, const Entry& entry) {
    const auto* bytes = reinterpret_cast<const char*>(&entry);
    client.out.insert(client.out.end(), bytes, bytes + sizeof entry);
  }

  static void Give(Client& client) {
    if (client.out.empty() || client.lost) {
      return;
    }
    const ssize_t count =
        send(client.socket.Number(), client.out.data(), client.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      client.out.erase(client.out.begin(), client.out.begin() + count);
    } else if (count < 0 && !WouldBlock(errno)) {
      client.lost = true;
    }
  }

  const std::string job_;
  Descriptor listener_;
  uint32_t ranks_ = 0;  // as the first rank says
  std::vector<Entry> entries_;
  std::set<uint32_t> taken_;
  std::list<Client> clients_;
};
}  // namespace

std::shared_ptr<Directory> Directory::Start(const std::string& job, const std::string& address) {
  const std::shared_ptr<Directory> directory(new Directory);
  Descriptor listener = ListenTcp(address, kBacklog, &directory->where_);
  directory->stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!directory->stop_) {
    throw Failure(HCCL_E_SYSCALL, "eventfd failed");
  }
  auto service = std::make_unique<Service>(job, std::move(listener));
  const BlockSignals blocked;
  std::thread([directory, served = std::move(service)] { served->Run(directory->stop_.Number()); }).detach();
  return directory;
}

void Directory::Stop() noexcept {
  const uint64_t one = 1;
  static_cast<void>(!write(stop_.Number(), &one, sizeof one));
}

Membership::Membership(const Endpoint& directory, std::string job, uint32_t ranks)
    : directory_(directory), job_(std::move(job)), ranks_(ranks), members_(ranks) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    if (auto connected = ConnectTcp(directory_, kConnectPatience)) {
      socket_ = std::move(*connected);
      return;
    }
    if (std::chrono::steady_clock::now() - start >= kConnectPatience) {
      throw Failure(HCCL_E_TCP_CONNECT, "rank 0 does not answer at " + directory_.Text() +
                                            "; HCCL_IF_IP or HCCL_SOCKET_IFNAME on its host names the interface "
                                            "that the other hosts reach");
    }
    std::this_thread::sleep_for(kRetry);
  }
}

std::string Membership::OwnAddress() const {
  const auto chosen = ChosenAddress();
  return chosen ? *chosen : AddressOf(socket_);
}

void Membership::Enter(const Member& self) {
  Entry entry;
  entry.rank = self.rank;
  entry.ranks = ranks_;
  entry.port = self.endpoint.port;
  entry.process = self.process;
  Copy(entry.job, job_);
  Copy(entry.host, self.host);
  Copy(entry.address, self.endpoint.address);
  // The first bytes on a fresh connection: its buffer takes them in one piece.
  if (send(socket_.Number(), &entry, sizeof entry, MSG_NOSIGNAL) != sizeof entry) {
    throw Failure(HCCL_E_TCP_TRANSFER, "rank 0 at " + directory_.Text() + " does not take this rank's address");
  }
  // Its own entry comes back after those of all that were there before: these can be met at once.
  const auto end = std::chrono::steady_clock::now() + kConnectPatience;
  while (!members_.at(self.rank)) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0) {
      throw Failure(HCCL_E_TCP_TRANSFER, "rank 0 at " + directory_.Text() + " does not answer this rank");
    }
    pollfd ready{socket_.Number(), POLLIN, 0};
    static_cast<void>(poll(&ready, 1, static_cast<int>(left)));
    Read();
  }
}

std::optional<Member> Membership::Find(uint32_t rank) {
  if (!members_.at(rank)) {
    Read();
  }
  return members_[rank];
}

void Membership::Read() {
  char bytes[16 * sizeof(Entry)];
  while (socket_) {
    const ssize_t count = recv(socket_.Number(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && WouldBlock(errno)) {
      return;
    }
    if (count <= 0) {
      socket_.Close();
      break;
    }
    received_.insert(received_.end(), bytes, bytes + count);
    std::size_t used = 0;
    for (; received_.size() - used >= sizeof(Entry); used += sizeof(Entry)) {
      Entry entry;
      std::memcpy(&entry, received_.data() + used, sizeof entry);
      if (entry.magic == kMagic && entry.rank < ranks_) {
        members_[entry.rank] = Member{
            entry.rank, entry.process, Text(entry.host), {Text(entry.address), static_cast<uint16_t>(entry.port)}};
      }
    }
    received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(used));
  }
  for (const auto& member : members_) {
    if (!member) {
      throw Failure(HCCL_E_REMOTE, "rank 0 at " + directory_.Text() +
                                       " has closed the list of ranks before all "
                                       "had entered: it ended or failed, or a second process came as this rank, or "
                                       "the ranks disagree on how many they are");
    }
  }
}
}  // namespace twin::hccl
