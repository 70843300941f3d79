// An owned file descriptor that a forked child drops.
#pragma once
#include <utility>

namespace twin::hccl {
// A DataLoader worker forked from a rank would otherwise keep the rank's sockets open, and its peers would not see
// the rank die. So every descriptor here is closed in the child right after fork.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number);
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  int Number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void Close() noexcept;

 private:
  int number_ = -1;
};
}  // namespace twin::hccl
