// Names that older kernels use for flags and barriers.
#pragma once
#include "ascendc/sync.h"

namespace AscendC {

namespace twin_detail {

constexpr int EventOf(pipe_t from, pipe_t to) {
  for (int i = 0; i < static_cast<int>(HardEvent::MAX); ++i) {
    if (kEventPipes[i].from == from && kEventPipes[i].to == to) {
      return i;
    }
  }
  return -1;
}

}  // namespace twin_detail

template <pipe_t source, pipe_t destination>
class TQueSync {
 public:
  void SetFlag(TEventID id) { twin::Core::Current().SetFlag(kEvent, source, destination, id); }
  void WaitFlag(TEventID id) { twin::Core::Current().WaitFlag(kEvent, source, destination, id); }

 private:
  static constexpr int kEvent = twin_detail::EventOf(source, destination);
  static_assert(kEvent >= 0, "there is no event between these pipes");
};

}  // namespace AscendC

inline void set_flag(pipe_t from, pipe_t to, int id) {
  twin::Core::Current().SetFlag(AscendC::twin_detail::EventOf(from, to), from, to, id);
}
inline void wait_flag(pipe_t from, pipe_t to, int id) {
  twin::Core::Current().WaitFlag(AscendC::twin_detail::EventOf(from, to), from, to, id);
}
inline void pipe_barrier(pipe_t pipe) { twin::Core::Current().Barrier(pipe); }
