// The connection to one peer: framed messages over a non-blocking stream socket.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "descriptor.h"

namespace twin::hccl {
enum class FrameKind : uint32_t {
  Hello,  // who connects
  Call,   // which collective this rank has entered
  Data,
  Abort,    // the peer's communicator failed; the text says why
  Goodbye,  // the peer destroyed its communicator
};

struct FrameHeader {
  FrameKind kind;
  uint32_t reserved;
  uint64_t bytes;
};

// Largest Data frame. Between two frames a failing rank can still tell its peers why, and a block of a reduction is
// one frame, so it is a multiple of every item size.
constexpr uint64_t kFrameBytes = 1U << 20;

class Link {
 public:
  // `process` is for error texts: "pid 42".
  Link(Descriptor socket, uint32_t peer, std::string process);

  // Queue messages; Move() carries them. The memory must stay until Pending() is false.
  void Send(FrameKind kind, const void* data, uint64_t bytes);
  // `arrived` runs as soon as the message is complete and may throw.
  void Receive(FrameKind kind, void* data, uint64_t bytes, std::function<void()> arrived = {});

  // Moves what the socket takes and gives without waiting; true if bytes moved. Throws Failure(HCCL_E_REMOTE) once
  // the peer is gone or gave up.
  bool Move();
  // Reads, without waiting, what a peer says out of turn while nothing is expected of it: that it gave up, destroyed
  // its communicator or is gone. Throws Failure(HCCL_E_REMOTE) then; what came early stays where it is.
  void Hear();
  bool Pending() const { return !outgoing_.empty() || !incoming_.empty(); }
  int Socket() const { return socket_.Number(); }
  short PollEvents() const;

  // What this rank waits for, for error texts: "rank 1 (pid 42) has not called it".
  std::string Complaint() const;
  // Last message before the socket is closed; dropped when it would block or split another frame.
  void Notify(FrameKind kind, const std::string& text) noexcept;

 private:
  struct Segment {
    FrameHeader header;
    char* data;
    std::function<void()> arrived;
    uint64_t moved = 0;  // of header and data together
  };

  bool Push();
  bool Pull();
  void CheckHeader(const FrameHeader& expected);
  std::string ReadText(uint64_t bytes);
  [[noreturn]] void ThrowGone() const;
  std::string Peer() const;

  Descriptor socket_;
  uint32_t peer_;
  std::string process_;
  bool closedForSending_ = false;
  FrameHeader header_{};  // of the frame that is being received
  std::deque<Segment> outgoing_;
  std::deque<Segment> incoming_;
};
}  // namespace twin::hccl
