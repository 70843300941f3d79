#include "link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "failure.h"

namespace twin::hccl {
namespace {
constexpr uint64_t kLongestText = 4096;
constexpr int kTextPatienceMs = 200;
constexpr std::size_t kHeard = 1 << 16;  // behind more data than this, what a peer says is read with the data

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

bool ConnectionLost(int error) {
  // The later ones are TCP's: the peer's host stopped answering.
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ETIMEDOUT || error == EHOSTUNREACH ||
         error == ENETUNREACH || error == ENETDOWN;
}

[[noreturn]] void ThrowSystem(const char* action, int error) {
  throw Failure(HCCL_E_SYSCALL, std::string(action) + ": " + std::generic_category().message(error));
}
}  // namespace

Link::Link(Descriptor socket, uint32_t peer, std::string process)
    : socket_(std::move(socket)), peer_(peer), process_(std::move(process)) {}

void Link::Send(FrameKind kind, const void* data, uint64_t bytes) {
  auto* from = static_cast<char*>(const_cast<void*>(data));
  for (uint64_t start = 0; start < bytes; start += kFrameBytes) {
    outgoing_.push_back({{kind, 0, std::min(kFrameBytes, bytes - start)}, from + start, {}});
  }
}

void Link::Receive(FrameKind kind, void* data, uint64_t bytes, std::function<void()> arrived) {
  auto* to = static_cast<char*>(data);
  for (uint64_t start = 0; start < bytes; start += kFrameBytes) {
    const uint64_t length = std::min(kFrameBytes, bytes - start);
    const bool last = start + length == bytes;
    incoming_.push_back({{kind, 0, length}, to + start, last ? std::move(arrived) : nullptr});
  }
}

bool Link::Move() {
  const bool sent = !outgoing_.empty() && !closedForSending_ && Push();
  // A peer that stopped reading may have said why, or may have sent a call that explains it: read on until its end.
  const bool received = (!incoming_.empty() || closedForSending_) && Pull();
  return sent || received;
}

void Link::Hear() {
  std::vector<char> seen(kHeard);
  const ssize_t count = recv(Socket(), seen.data(), seen.size(), MSG_DONTWAIT | MSG_PEEK);
  if (count < 0 && WouldBlock(errno)) {
    return;
  }
  if (count == 0 || (count < 0 && ConnectionLost(errno))) {
    ThrowGone();
  }
  const auto size = static_cast<uint64_t>(std::max<ssize_t>(count, 0));
  FrameHeader frame;
  for (uint64_t at = 0; at + sizeof frame <= size; at += sizeof frame + frame.bytes) {
    std::memcpy(&frame, seen.data() + at, sizeof frame);
    if (frame.kind == FrameKind::Abort) {
      const uint64_t text = at + sizeof frame;
      throw Failure(HCCL_E_REMOTE,
                    Peer() + " gave up: " + std::string(&seen[0] + text, std::min(frame.bytes, size - text)));
    }
    if (frame.kind == FrameKind::Goodbye && at == 0) {  // behind its part of a call it may leave
      CheckHeader(header_ = frame);
    }
  }
}

short Link::PollEvents() const {
  const bool reads = !incoming_.empty() || closedForSending_;
  const bool writes = !outgoing_.empty() && !closedForSending_;
  return static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

bool Link::Push() {
  Segment& segment = outgoing_.front();
  const uint64_t ofHeader = std::min<uint64_t>(segment.moved, sizeof(FrameHeader));
  const uint64_t ofData = segment.moved - ofHeader;
  std::array<iovec, 2> parts = {{
      {reinterpret_cast<char*>(&segment.header) + ofHeader, sizeof(FrameHeader) - ofHeader},
      {segment.data + ofData, segment.header.bytes - ofData},
  }};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count = sendmsg(Socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) {
    if (ConnectionLost(errno)) {
      closedForSending_ = true;
      return true;
    }
    if (WouldBlock(errno)) {
      return false;
    }
    ThrowSystem("sendmsg", errno);
  }
  segment.moved += static_cast<uint64_t>(count);
  if (segment.moved == sizeof(FrameHeader) + segment.header.bytes) {
    outgoing_.pop_front();
  }
  return count > 0;
}

bool Link::Pull() {
  static const Segment nothing{};  // nothing is expected: only Abort, Goodbye or the end can come
  const uint64_t moved = incoming_.empty() ? 0 : incoming_.front().moved;
  const bool inHeader = moved < sizeof(FrameHeader);
  char* to =
      inHeader ? reinterpret_cast<char*>(&header_) + moved : incoming_.front().data + (moved - sizeof(FrameHeader));
  const uint64_t room =
      inHeader ? sizeof(FrameHeader) - moved : sizeof(FrameHeader) + incoming_.front().header.bytes - moved;
  const ssize_t count = recv(Socket(), to, room, MSG_DONTWAIT);
  if (count < 0 && WouldBlock(errno)) {
    return false;
  }
  if (count == 0 || (count < 0 && ConnectionLost(errno))) {
    ThrowGone();
  }
  if (count < 0) {
    ThrowSystem("recv", errno);
  }
  if (incoming_.empty()) {
    if (count == sizeof(FrameHeader)) {
      CheckHeader(nothing.header);
    }
    ThrowGone();
  }
  Segment& segment = incoming_.front();
  segment.moved += static_cast<uint64_t>(count);
  if (inHeader && segment.moved == sizeof(FrameHeader)) {
    CheckHeader(segment.header);
  }
  if (segment.moved == sizeof(FrameHeader) + segment.header.bytes) {
    const auto arrived = std::move(segment.arrived);
    incoming_.pop_front();
    if (arrived) {
      arrived();
    }
  }
  return true;
}

void Link::CheckHeader(const FrameHeader& expected) {
  switch (header_.kind) {
    case FrameKind::Abort:
      throw Failure(HCCL_E_REMOTE, Peer() + " gave up: " + ReadText(header_.bytes));
    case FrameKind::Goodbye:
      throw Failure(HCCL_E_REMOTE, Peer() + " has destroyed its communicator");
    default:
      break;
  }
  if (header_.kind == expected.kind && header_.bytes == expected.bytes && expected.bytes > 0) {
    return;
  }
  if (header_.kind == FrameKind::Call && expected.kind == FrameKind::Data) {
    throw Failure(HCCL_E_PARA, Peer() + " is in another call: it announced one where data is expected");
  }
  throw Failure(HCCL_E_INTERNAL, Peer() + " sent a frame of kind " +
                                     std::to_string(static_cast<uint32_t>(header_.kind)) + " and " +
                                     std::to_string(header_.bytes) + " bytes out of turn");
}

std::string Link::ReadText(uint64_t bytes) {
  std::string text(std::min(bytes, kLongestText), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    pollfd ready{Socket(), POLLIN, 0};
    if (poll(&ready, 1, kTextPatienceMs) <= 0) {
      break;
    }
    const ssize_t count = recv(Socket(), text.data() + size, text.size() - size, MSG_DONTWAIT);
    if (count <= 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

std::string Link::Complaint() const {
  if (incoming_.empty()) {
    return Peer() + " does not take its data";
  }
  const Segment& next = incoming_.front();
  return Peer() + (next.header.kind == FrameKind::Call ? " has not called it" : " stopped in the middle of its data");
}

void Link::Notify(FrameKind kind, const std::string& text) noexcept {
  const bool midFrame = !outgoing_.empty() && outgoing_.front().moved > 0;
  if (!socket_ || closedForSending_ || midFrame) {
    return;
  }
  FrameHeader header{kind, 0, std::min<uint64_t>(text.size(), kLongestText)};
  std::array<iovec, 2> parts = {{{&header, sizeof header}, {const_cast<char*>(text.data()), header.bytes}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  static_cast<void>(sendmsg(Socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void Link::ThrowGone() const {
  throw Failure(HCCL_E_REMOTE, Peer() + " is gone: its process ended or closed the connection");
}

std::string Link::Peer() const { return "rank " + std::to_string(peer_) + " (" + process_ + ")"; }
}  // namespace twin::hccl
