// Padding by reflection and by repeating the border.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

constexpr size_t RANK_OF_1D = 2;  // channels and one dimension, with or without a batch

// `padding` has two numbers for each of the last dimensions, of which self has as many before as channels and batch.
template <size_t Dims>
void CheckPadding(const HeldTensor& self, const std::vector<int64_t>& padding) {
  if (padding.size() != 2 * Dims) {
    throw Refusal(INVALID_ARGUMENT,
                  "padding has " + std::to_string(padding.size()) + " numbers, not " + std::to_string(2 * Dims));
  }
  const size_t rank = self.Shape().size(), least = RANK_OF_1D - 1 + Dims;
  if (rank != least && rank != least + 1) {
    throw Refusal(INVALID_ARGUMENT, std::string(self.argument) + " has " + std::to_string(rank) + " dimensions, not " +
                                        std::to_string(least) + " or " + std::to_string(least + 1));
  }
}

template <size_t Dims>
constexpr auto PADDING = [](const HeldInput& self, const std::vector<int64_t>& padding, const HeldOutput&) {
  CheckPadding<Dims>(self, padding);
};

template <size_t Dims>
constexpr auto PADDING_BACKWARD = [](const HeldInput&, const HeldInput& self, const std::vector<int64_t>& padding,
                                     const HeldOutput&) { CheckPadding<Dims>(self, padding); };

}  // namespace

#define PAD(NAME, DIMS, FUNCTION)                                                                                \
  ACLNN_CHECKED(NAME, PADDING<DIMS>, (In, self), (Ints, padding), (Out, out)) { out = FUNCTION(self, padding); } \
  ACLNN_CHECKED(NAME##Backward, PADDING_BACKWARD<DIMS>, (In, gradOutput), (In, self), (Ints, padding),           \
                (Out, gradInput)) {                                                                              \
    gradInput = FUNCTION##_backward(gradOutput, self, padding);                                                  \
  }
PAD(aclnnReflectionPad1d, 1, at::reflection_pad1d)
PAD(aclnnReflectionPad2d, 2, at::reflection_pad2d)
PAD(aclnnReflectionPad3d, 3, at::reflection_pad3d)
PAD(aclnnReplicationPad1d, 1, at::replication_pad1d)
PAD(aclnnReplicationPad2d, 2, at::replication_pad2d)
PAD(aclnnReplicationPad3d, 3, at::replication_pad3d)
