#include "attention_mask.h"

#include <algorithm>

namespace twin::opapi {
namespace {

constexpr int64_t TRIANGLE = 2048;          // rows and columns of the compressed matrix
constexpr int64_t PREFIX_RECTANGLE = 1024;  // rows below it in PREFIX_COMPRESSED

std::vector<int64_t> CompressedShape(int64_t sparseMode) {
  return {sparseMode == PREFIX_COMPRESSED ? TRIANGLE + PREFIX_RECTANGLE : TRIANGLE, TRIANGLE};
}

// A shape without its leading ones.
std::vector<int64_t> Trimmed(std::vector<int64_t> shape) {
  shape.erase(shape.begin(), std::find_if(shape.begin(), shape.end(), [](int64_t size) { return size != 1; }));
  return shape;
}

}  // namespace

bool IsCompressed(int64_t sparseMode) {
  return sparseMode == LEFT_UP_CAUSAL || sparseMode == RIGHT_DOWN_CAUSAL || sparseMode == BAND ||
         sparseMode >= PREFIX_COMPRESSED;
}

int64_t ModeOf(int64_t sparseMode, int64_t index, int64_t count) {
  switch (sparseMode) {
    case RIGHT_DOWN_CAUSAL_BAND:
      return index == count - 1 ? BAND : RIGHT_DOWN_CAUSAL;
    case BAND_LEFT_UP_CAUSAL:
      return index == 0 ? BAND : LEFT_UP_CAUSAL;
    default:
      return sparseMode;
  }
}

void CheckMaskShape(int64_t sparseMode, bool packed, const HeldInput& attenMask,
                    const std::vector<std::vector<int64_t>>& full) {
  const bool known = packed ? sparseMode >= DEFAULT_MASK && sparseMode <= BAND_LEFT_UP_CAUSAL && sparseMode != PREFIX
                            : sparseMode >= DEFAULT_MASK && sparseMode <= PREFIX_COMPRESSED;
  if (!known) {
    throw Refusal(INVALID_ARGUMENT, "sparseMode is " + std::to_string(sparseMode) + "; " +
                                        (packed ? "0 to 4 and 6 to 8 go with the layout TND" : "it goes from 0 to 6"));
  }
  const auto mode = "sparseMode " + std::to_string(sparseMode);
  if (!attenMask.view) {
    if (sparseMode != DEFAULT_MASK) {
      throw Refusal(INVALID_ARGUMENT, mode + " needs attenMask, which is null");
    }
    return;
  }
  const auto& shape = attenMask.Shape();
  if (IsCompressed(sparseMode)) {
    const auto expected = CompressedShape(sparseMode);
    if (Trimmed(shape) != expected) {
      throw Refusal(INVALID_ARGUMENT, "attenMask has shape " + ShapeText(shape) + "; " + mode +
                                          " takes the matrix of " + ShapeText(expected));
    }
    return;
  }
  std::string expected;
  for (const auto& each : full) {
    if (shape == each) {
      return;
    }
    expected += (expected.empty() ? "" : ", ") + ShapeText(each);
  }
  throw Refusal(INVALID_ARGUMENT, "attenMask has shape " + ShapeText(shape) + "; " + mode + " takes " + expected);
}

void CheckCompressedMask(int64_t sparseMode, const at::Tensor& attenMask) {
  const auto shape = CompressedShape(sparseMode);
  auto expected = at::ones(shape, at::kBool).triu_(1);
  if (sparseMode == PREFIX_COMPRESSED) {
    auto rectangle = expected.narrow(0, TRIANGLE, PREFIX_RECTANGLE);
    rectangle.narrow(1, 0, TRIANGLE / 2).fill_(false);
    rectangle.narrow(1, TRIANGLE / 2, TRIANGLE / 2).fill_(true);
  }
  TORCH_CHECK(attenMask.reshape(shape).to(at::kBool).equal(expected), "attenMask is not the matrix that sparseMode ",
              sparseMode, " takes: torch.triu(torch.ones(2048, 2048), 1)",
              sparseMode == PREFIX_COMPRESSED ? " above 1024 rows whose left half is 0 and right half is 1" : "");
}

at::Tensor MaskOf(const MaskRequest& request, int64_t queries, int64_t keys, const at::Tensor& own) {
  if (request.sparseMode == DEFAULT_MASK && !own.defined()) {
    return {};
  }
  const auto given = own.defined() ? own.to(at::kBool) : own;
  const auto row = at::arange(queries, at::kLong).unsqueeze(1);
  const auto column = at::arange(keys, at::kLong).unsqueeze(0);
  const auto fromLeftUp = column - row;  // 0 on the diagonal of the left upper corner, positive to its right
  const auto fromRightDown = fromLeftUp - (keys - queries);
  at::Tensor masked;
  switch (request.sparseMode) {
    case ALL_MASK:
      return given;
    case LEFT_UP_CAUSAL:
      masked = fromLeftUp.gt(0);
      break;
    case RIGHT_DOWN_CAUSAL:
      masked = fromRightDown.gt(0);
      break;
    case BAND:
      masked = fromRightDown.gt(request.nextTokens).logical_or(fromRightDown.neg().gt(request.preTokens));
      break;
    case PREFIX:
    case PREFIX_COMPRESSED:
      masked = fromRightDown.gt(0).logical_and(column.ge(request.prefix));
      break;
    default:
      masked = fromLeftUp.gt(request.nextTokens).logical_or(fromLeftUp.neg().gt(request.preTokens));
      break;
  }
  masked = masked.unsqueeze(0);
  return given.defined() ? masked.logical_or(given) : masked;
}

}  // namespace twin::opapi
