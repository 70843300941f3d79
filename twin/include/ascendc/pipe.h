// TPipe, TQueBind, TQue, TBuf. The state lives in the core, so that a kernel's end can be checked after its
// objects are gone.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

template <TPosition source, TPosition destination, int32_t depth, auto mask = 0>
class TQueBind;
template <TPosition position = TPosition::VECCALC>
class TBuf;

class TPipe {
 public:
  TPipe() { twin::Core::Current().OpenPipe(this); }
  ~TPipe() { twin::Core::Current().ClosePipe(); }
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;

  template <class Queue>
  bool InitBuffer(Queue& queue, uint8_t count, uint32_t bytes) {
    queue.Attach(count, bytes);
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t bytes) {
    buffer.Attach(bytes);
    return true;
  }
  void Reset() { twin::Core::Current().ResetPipe(); }
  void Destroy() { twin::Core::Current().DestroyPipe(); }
  template <HardEvent event>
  TEventID AllocEventID() {
    return static_cast<TEventID>(twin::Core::Current().AllocEvent(static_cast<int>(event)));
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id) {
    twin::Core::Current().ReleaseEvent(static_cast<int>(event), id);
  }
  template <HardEvent event>
  TEventID FetchEventID() {
    return FetchEventID(event);
  }
  TEventID FetchEventID(HardEvent event) {
    return static_cast<TEventID>(twin::Core::Current().FetchEvent(static_cast<int>(event)));
  }
};

template <TPosition source, TPosition destination, int32_t depth, auto mask>
class TQueBind {
 public:
  static constexpr pipe_t kProducer =
      source == TPosition::GM || (source == TPosition::VECIN && destination == TPosition::VECOUT) ? PIPE_MTE2 : PIPE_V;
  static constexpr pipe_t kConsumer =
      destination == TPosition::GM || destination == TPosition::VECOUT ? PIPE_MTE3 : PIPE_V;
  static constexpr TPosition kPosition = source == TPosition::GM ? destination : source;
  static_assert(kPosition == TPosition::VECIN || kPosition == TPosition::VECOUT || kPosition == TPosition::VECCALC,
                "this twin emulates the queues of a vector core: VECIN, VECOUT, VECCALC");

  template <typename T>
  LocalTensor<T> AllocTensor() {
    static_assert(depth != 0, "a queue of depth 0 uses AllocTensor(tensor)");
    return LocalTensor<T>(twin::Core::Current().QueueAlloc(Id()), kPosition);
  }
  template <typename T>
  void AllocTensor(LocalTensor<T>& tensor) {
    static_assert(depth == 0, "AllocTensor(tensor) needs a queue of depth 0");
    tensor = LocalTensor<T>(twin::Core::Current().QueueAlloc(Id()), kPosition);
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor) {
    twin::Core::Current().QueuePush(Id(), tensor.Range());
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue() {
    static_assert(depth != 0, "a queue of depth 0 uses DeQue(tensor)");
    return LocalTensor<T>(twin::Core::Current().QueuePop(Id()), kPosition);
  }
  template <typename T>
  void DeQue(LocalTensor<T>& tensor) {
    static_assert(depth == 0, "DeQue(tensor) needs a queue of depth 0");
    tensor = LocalTensor<T>(twin::Core::Current().QueuePop(Id()), kPosition);
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor) {
    twin::Core::Current().QueueFree(Id(), tensor.Range());
  }
  bool VacantInQue() { return GetTensorCountInQue() < (depth == 0 ? 1 : depth); }
  bool HasTensorInQue() { return GetTensorCountInQue() > 0; }
  bool HasIdleBuffer() { return twin::Core::Current().QueueHasFree(Id()); }
  int32_t GetTensorCountInQue() { return twin::Core::Current().QueueCount(Id()); }
  void FreeAllEvent() {}

  void Attach(uint8_t count, uint32_t bytes) { twin::Core::Current().AddQueueBuffers(Id(), count, bytes); }

 private:
  int Id() {
    if (id_ < 0) {
      id_ = twin::Core::Current().MakeQueue(static_cast<int>(kPosition), kProducer, kConsumer, depth == 0 ? 1 : depth);
    }
    return id_;
  }
  int id_ = -1;
};

namespace twin_detail {
template <TPosition position, int32_t depth, auto mask>
struct QueueOf {
  using Type = TQueBind<TPosition::GM, position, depth, mask>;
};
template <int32_t depth, auto mask>
struct QueueOf<TPosition::VECOUT, depth, mask> {
  using Type = TQueBind<TPosition::VECOUT, TPosition::GM, depth, mask>;
};
template <int32_t depth, auto mask>
struct QueueOf<TPosition::VECCALC, depth, mask> {
  using Type = TQueBind<TPosition::VECCALC, TPosition::VECCALC, depth, mask>;
};
}  // namespace twin_detail

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public twin_detail::QueueOf<position, depth, mask>::Type {};

template <TPosition position>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() {
    return LocalTensor<T>(range_, position);
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t count) {
    return GetWithOffset<T>(count, 0);
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t count, uint32_t offsetBytes) {
    const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
    if (offsetBytes % twin::kUbBlock != 0) {
      twin::Core::Current().Trap("E-01", "TBuf offset %u is not a multiple of 32 bytes", offsetBytes);
    }
    if (offsetBytes + bytes > range_.bytes) {
      twin::Core::Current().Trap("E-36", "TBuf::Get of %llu bytes at %u from a buffer of %u bytes",
                                 static_cast<unsigned long long>(bytes), offsetBytes, range_.bytes);
    }
    twin::UbRange part = range_;
    part.address += offsetBytes;
    part.bytes = static_cast<uint32_t>(bytes);
    return LocalTensor<T>(part, position);
  }
  // A TBuf has no events: there is nothing to give back.
  template <typename T>
  void FreeTensor(LocalTensor<T>&) {}
  void Attach(uint32_t bytes) { range_ = twin::Core::Current().AddBuffer(bytes); }

 private:
  twin::UbRange range_;
};

}  // namespace AscendC

inline AscendC::TPipe* GetTPipePtr() { return static_cast<AscendC::TPipe*>(twin::Core::Current().LivePipe()); }
