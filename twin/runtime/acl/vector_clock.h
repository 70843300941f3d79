// How far each actor had come, as another one knows it (Lamport; Mattern, Virtual time and global states, 1989).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace twin {

// The host is actor 0, stream n is actor n + 1. All threads of the program are one host: what one learns it may have
// told the others, and torch_npu's task queue submits for them all.
constexpr std::size_t kHost = 0;

class VectorClock {
 public:
  uint64_t Of(std::size_t actor) const { return actor < epochs_.size() ? epochs_[actor] : 0; }

  uint64_t Advance(std::size_t actor) {
    epochs_.resize(std::max(epochs_.size(), actor + 1));
    return ++epochs_[actor];
  }

  void Join(const VectorClock& other) {
    epochs_.resize(std::max(epochs_.size(), other.epochs_.size()));
    for (std::size_t actor = 0; actor < other.epochs_.size(); ++actor) {
      epochs_[actor] = std::max(epochs_[actor], other.epochs_[actor]);
    }
  }

 private:
  std::vector<uint64_t> epochs_;
};

}  // namespace twin
