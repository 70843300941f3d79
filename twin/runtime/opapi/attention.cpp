// Fused attention of torch_npu.npu_fusion_attention and scaled_dot_product_attention, and its gradient. Computed over
// whole sequences in the next wider type and rounded once; a device works in blocks.
#include "attention_core.h"
#include "attention_mask.h"
#include "attention_shape.h"
#include "call.h"

using namespace twin::opapi;

namespace {

constexpr int64_t STATISTICS_WIDTH = 8;  // each statistic is repeated that often

[[noreturn]] void RefuseShape(const HeldTensor& tensor, const std::vector<int64_t>& expected) {
  throw Refusal(INVALID_ARGUMENT, std::string(tensor.argument) + " has shape " + ShapeText(tensor.Shape()) + ", not " +
                                      ShapeText(expected));
}

void RequireShape(const HeldTensor& tensor, const std::vector<int64_t>& expected) {
  if (tensor.view && tensor.Shape() != expected) {
    RefuseShape(tensor, expected);
  }
}

// What forward and backward have in common, as phase one sees it.
struct Options {
  double keepProb;
  int64_t sparseMode;
  int64_t pseType;
  const std::vector<int64_t>& prefix;
};

// The two kinds of position encoding that are given; others make one of slopes.
enum PseType : int64_t { ADDED_TO_SCALED = 0, ADDED_AND_SCALED = 1 };

void CheckOptions(const AttentionShape& shape, const HeldInput& pse, const HeldInput& dropMask,
                  const HeldInput& paddingMask, const HeldInput& attenMask, const Options& options) {
  if (!(options.keepProb > 0 && options.keepProb <= 1)) {
    throw Refusal(INVALID_ARGUMENT, "keepProb is " + std::to_string(options.keepProb) + ", not in (0, 1]");
  }
  if (options.pseType != ADDED_TO_SCALED && options.pseType != ADDED_AND_SCALED) {
    throw Refusal(INVALID_ARGUMENT, "pseType is " + std::to_string(options.pseType) + "; 0 and 1 are emulated");
  }
  if (paddingMask.view) {
    throw Refusal(INVALID_ARGUMENT, "paddingMask is given; the device does not support it");
  }
  if (options.keepProb < 1) {
    if (!dropMask.view) {
      throw Refusal(INVALID_ARGUMENT, "keepProb is below 1 and dropMask is null");
    }
    const int64_t given = c10::multiply_integers(dropMask.Shape());
    if (given * 8 < shape.scores) {
      throw Refusal(INVALID_ARGUMENT, "dropMask has " + std::to_string(given) + " bytes for " +
                                          std::to_string(shape.scores) + " scores of a bit each");
    }
  }
  if (pse.view) {
    shape.CheckPse(pse);
  }
  CheckMaskShape(options.sparseMode, shape.Packed(), attenMask, shape.MaskShapes());
  const bool prefixed = options.sparseMode == PREFIX || options.sparseMode == PREFIX_COMPRESSED;
  if (prefixed && static_cast<int64_t>(options.prefix.size()) != shape.batch) {
    throw Refusal(INVALID_ARGUMENT, "prefix has " + std::to_string(options.prefix.size()) + " entries for a batch of " +
                                        std::to_string(shape.batch));
  }
}

at::Tensor Bits(const at::Tensor& bytes) {
  const auto weights = at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte);
  return (bytes.reshape({-1, 1}) & weights).ne(0).reshape({-1});
}

// The arguments of phase two that choose what a sequence sees.
struct Attention {
  AttentionShape shape;
  at::Tensor query, key, value;
  std::optional<at::Tensor> pse, dropMask, attenMask;
  std::vector<int64_t> prefix;
  double scale, keepProb;
  int64_t preTokens, nextTokens, sparseMode, pseType;

  at::ScalarType Wide() const { return query.scalar_type() == at::kFloat ? at::kDouble : at::kFloat; }

  void Check() const {
    if (IsCompressed(sparseMode)) {
      CheckCompressedMask(sparseMode, *attenMask);
    }
  }

  Sequence At(int64_t index) const {
    const auto part = shape.Part(index);
    const auto own = attenMask && !IsCompressed(sparseMode) ? shape.MaskPart(*attenMask, index) : at::Tensor();
    const MaskRequest request{ModeOf(sparseMode, index, shape.batch), preTokens, nextTokens,
                              prefix.empty() ? 0 : prefix.at(index)};
    Sequence sequence{shape.Heads(query, part.queries, index).to(Wide()),
                      shape.Heads(key, part.keys, index).to(Wide()),
                      shape.Heads(value, part.keys, index).to(Wide()),
                      MaskOf(request, part.queries.length, part.keys.length, own),
                      pse ? shape.PsePart(*pse, index).to(Wide()) : at::Tensor(),
                      at::Tensor(),
                      scale,
                      keepProb,
                      pseType == ADDED_AND_SCALED};
    if (keepProb < 1) {
      const int64_t count = shape.heads * part.queries.length * part.keys.length;
      sequence.keep = Bits(*dropMask)
                          .narrow(0, part.firstScore, count)
                          .reshape({shape.heads, part.queries.length, part.keys.length});
    }
    return sequence;
  }
};

void Forward(const Attention& attention, const Output& softmaxMax, const Output& softmaxSum, const Output& out) {
  attention.Check();
  const auto result = at::zeros(out.Target().sizes(), attention.Wide());
  const auto max = at::zeros(softmaxMax.Target().sizes(), at::kFloat);
  const auto sum = at::zeros(softmaxSum.Target().sizes(), at::kFloat);
  for (int64_t index = 0; index < attention.shape.batch; ++index) {
    const auto part = attention.shape.Part(index);
    const auto one = Attend(attention.At(index));
    attention.shape.Heads(result, part.queries, index).copy_(one.out);
    attention.shape.Statistics(max, part.queries, index).copy_(one.max.unsqueeze(2).expand({-1, -1, STATISTICS_WIDTH}));
    attention.shape.Statistics(sum, part.queries, index).copy_(one.sum.unsqueeze(2).expand({-1, -1, STATISTICS_WIDTH}));
  }
  out = result;
  softmaxMax = max;
  softmaxSum = sum;
}

struct Saved {
  at::Tensor max, sum, out, dy;
};

void Backward(const Attention& attention, const Saved& saved, const Output& dq, const Output& dk, const Output& dv,
              const Output& dpse) {
  attention.Check();
  const auto& shape = attention.shape;
  const auto wide = attention.Wide();
  const auto query = at::zeros(attention.query.sizes(), attention.Wide());
  const auto key = at::zeros(attention.key.sizes(), attention.Wide());
  const auto value = at::zeros(attention.value.sizes(), attention.Wide());
  const auto pse = attention.pse ? at::zeros(attention.pse->sizes(), wide) : at::Tensor();
  for (int64_t index = 0; index < shape.batch; ++index) {
    const auto part = shape.Part(index);
    const AttentionResult forward{shape.Heads(saved.out, part.queries, index).to(wide),
                                  shape.Statistics(saved.max, part.queries, index).select(2, 0).to(wide),
                                  shape.Statistics(saved.sum, part.queries, index).select(2, 0).to(wide)};
    const auto one = AttendBackward(attention.At(index), forward, shape.Heads(saved.dy, part.queries, index).to(wide));
    shape.Heads(query, part.queries, index).copy_(one.query);
    shape.Heads(key, part.keys, index).copy_(one.key);
    shape.Heads(value, part.keys, index).copy_(one.value);
    if (pse.defined()) {
      auto own = shape.PsePart(pse, index);
      own.add_(one.pse.sum_to_size(own.sizes()));
    }
  }
  dq = query;
  dk = key;
  dv = value;
  if (pse.defined()) {
    dpse = pse;
  }
}

}  // namespace

// The arguments that the functions share, in their order. Where positions begin (STARTS) matters to encodings that the
// device makes itself.
#define FORWARD_TENSORS                                                                                      \
  (In, query), (In, key), (In, value), (OptionalIn, pse), (OptionalIn, dropMask), (OptionalIn, paddingMask), \
      (OptionalIn, attenMask), (OptionalInts, prefix)
#define BACKWARD_TENSORS                                                                                               \
  (In, query), (In, key), (In, value), (In, dy), (OptionalIn, pse), (OptionalIn, dropMask), (OptionalIn, paddingMask), \
      (OptionalIn, attenMask), (In, softmaxMax), (In, softmaxSum), (OptionalIn, softmaxIn), (In, attentionIn),         \
      (OptionalInts, prefix)
#define ENDS (Ints, actualSeqQLen), (Ints, actualSeqKvLen)
#define STARTS (OptionalInts, qStartIdx), (OptionalInts, kvStartIdx)
#define OPTIONS                                                                                         \
  (double, scale), (double, keepProb), (int64_t, preTokens), (int64_t, nextTokens), (int64_t, headNum), \
      (Text, layout), (int64_t, innerPrecise), (int64_t, sparseMode)
#define PSE_TYPE (int64_t, pseType)
#define FORWARD_RESULTS (Out, softmaxMax), (Out, softmaxSum), (OptionalOut, softmaxOut), (Out, out)
#define BACKWARD_RESULTS (Out, dq), (Out, dk), (Out, dv), (OptionalOut, dpse)

#define HELD(kind, name) [[maybe_unused]] const Argument<kind>::Held& name

// QUERY_ENDS and KEY_ENDS are the ends of packed sequences, TYPE the position encoding's.
#define CHECK_ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE)                                                             \
  const AttentionShape shape(query.Shape(), key.Shape(), value.Shape(), headNum, layout, QUERY_ENDS, KEY_ENDS); \
  CheckOptions(shape, pse, dropMask, paddingMask, attenMask, {keepProb, sparseMode, TYPE, prefix});             \
  RequireShape(softmaxMax, shape.StatisticsShape(STATISTICS_WIDTH));                                            \
  RequireShape(softmaxSum, shape.StatisticsShape(STATISTICS_WIDTH))
#define ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE)                                                                         \
  Attention {                                                                                                         \
    {query.sizes().vec(), key.sizes().vec(), value.sizes().vec(), headNum, layout, QUERY_ENDS, KEY_ENDS}, query, key, \
        value, pse, dropMask, attenMask, prefix, scale, keepProb, preTokens, nextTokens, sparseMode, TYPE             \
  }

#define FORWARD(NAME, QUERY_ENDS, KEY_ENDS, TYPE, ...)                           \
  constexpr auto NAME##Check = [](TWIN_FOR_EACH(HELD, __VA_ARGS__)) {            \
    CHECK_ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE);                                 \
    RequireShape(out, shape.OutShape());                                         \
  };                                                                             \
  ACLNN_CHECKED(NAME, NAME##Check, __VA_ARGS__) {                                \
    Forward(ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE), softmaxMax, softmaxSum, out); \
  }

#define BACKWARD(NAME, QUERY_ENDS, KEY_ENDS, TYPE, ...)                                                           \
  constexpr auto NAME##Check = [](TWIN_FOR_EACH(HELD, __VA_ARGS__)) {                                             \
    CHECK_ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE);                                                                  \
    RequireShape(dy, shape.OutShape());                                                                           \
    RequireShape(attentionIn, shape.OutShape());                                                                  \
    RequireShape(dq, query.Shape());                                                                              \
    RequireShape(dk, key.Shape());                                                                                \
    RequireShape(dv, value.Shape());                                                                              \
  };                                                                                                              \
  ACLNN_CHECKED(NAME, NAME##Check, __VA_ARGS__) {                                                                 \
    Backward(ATTENTION(QUERY_ENDS, KEY_ENDS, TYPE), {softmaxMax, softmaxSum, attentionIn, dy}, dq, dk, dv, dpse); \
  }

FORWARD(aclnnFlashAttentionScore, {}, {}, ADDED_AND_SCALED, FORWARD_TENSORS, OPTIONS, FORWARD_RESULTS)
FORWARD(aclnnFlashAttentionVarLenScore, actualSeqQLen, actualSeqKvLen, ADDED_AND_SCALED, FORWARD_TENSORS, ENDS, OPTIONS,
        FORWARD_RESULTS)
BACKWARD(aclnnFlashAttentionScoreGrad, {}, {}, ADDED_AND_SCALED, BACKWARD_TENSORS, OPTIONS, BACKWARD_RESULTS)
BACKWARD(aclnnFlashAttentionUnpaddingScoreGrad, actualSeqQLen, actualSeqKvLen, ADDED_AND_SCALED, BACKWARD_TENSORS, ENDS,
         OPTIONS, BACKWARD_RESULTS)

// Those of npu_fusion_attention_v2.
FORWARD(aclnnFlashAttentionScoreV2, {}, {}, pseType, FORWARD_TENSORS, STARTS, OPTIONS, PSE_TYPE, FORWARD_RESULTS)
FORWARD(aclnnFlashAttentionVarLenScoreV2, actualSeqQLen, actualSeqKvLen, pseType, FORWARD_TENSORS, ENDS, STARTS,
        OPTIONS, PSE_TYPE, FORWARD_RESULTS)
BACKWARD(aclnnFlashAttentionScoreGradV2, {}, {}, pseType, BACKWARD_TENSORS, STARTS, OPTIONS, PSE_TYPE, BACKWARD_RESULTS)
BACKWARD(aclnnFlashAttentionUnpaddingScoreGradV2, actualSeqQLen, actualSeqKvLen, pseType, BACKWARD_TENSORS, ENDS,
         STARTS, OPTIONS, PSE_TYPE, BACKWARD_RESULTS)
