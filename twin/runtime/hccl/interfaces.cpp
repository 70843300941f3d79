// Which of this host's addresses the ranks of other hosts use.
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "failure.h"
#include "tcp.h"

namespace twin::hccl {
namespace {
struct Interface {
  std::string name;
  std::string address;
  bool loopback;
};

// Those that are up and have an IPv4 address, in the order of the kernel.
std::vector<Interface> Interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    std::array<char, NI_MAXHOST> host{};
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || (entry->ifa_flags & IFF_UP) == 0 ||
        getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    found.push_back({entry->ifa_name, host.data(), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

// As HCCL reads it: "eth,ens" prefixes, "=eth0" whole names, a leading ^ means all but these.
class NameRule {
 public:
  explicit NameRule(std::string text) : text_(std::move(text)) {
    std::string names = text_;
    excludes_ = names.front() == '^';
    names.erase(0, excludes_ ? 1 : 0);
    exact_ = !names.empty() && names.front() == '=';
    names.erase(0, exact_ ? 1 : 0);
    std::istringstream parts(names);
    for (std::string part; std::getline(parts, part, ',');) {
      if (!part.empty()) {
        names_.push_back(part);
      }
    }
  }

  bool Allows(const std::string& name) const {
    for (const std::string& wanted : names_) {
      if (exact_ ? name == wanted : name.rfind(wanted, 0) == 0) {
        return !excludes_;
      }
    }
    return excludes_;
  }
  const std::string& Text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
  bool excludes_ = false;
  bool exact_ = false;
};
}  // namespace

std::optional<std::string> ChosenAddress() {
  if (const char* address = std::getenv("HCCL_IF_IP"); address != nullptr && *address != '\0') {
    return address;
  }
  const char* names = std::getenv("HCCL_SOCKET_IFNAME");
  if (names == nullptr || *names == '\0') {
    return std::nullopt;
  }
  const NameRule rule(names);
  std::string seen;
  for (const Interface& interface : Interfaces()) {
    if (rule.Allows(interface.name)) {
      return interface.address;
    }
    seen += (seen.empty() ? "" : ", ") + interface.name;
  }
  throw Failure(HCCL_E_NOT_FOUND,
                "HCCL_SOCKET_IFNAME=" + rule.Text() + " allows none of this host's interfaces: " + seen);
}

std::string OwnAddress() {
  if (auto chosen = ChosenAddress()) {
    return *chosen;
  }
  for (const Interface& interface : Interfaces()) {
    if (!interface.loopback) {
      return interface.address;
    }
  }
  return "127.0.0.1";
}
}  // namespace twin::hccl
