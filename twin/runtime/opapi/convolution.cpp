// Convolutions and their gradients. cubeMathType allows the device a lower precision; the CPU keeps the inputs' own.
#include "call.h"

using namespace twin::opapi;

ACLNN(aclnnConvolution, (In, input), (In, weight), (OptionalIn, bias), (Ints, stride), (Ints, padding),
      (Ints, dilation), (bool, transposed), (Ints, outputPadding), (int64_t, groups), (Out, out),
      (int8_t, cubeMathType)) {
  out = at::convolution(input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups);
}

ACLNN(aclnnConvolutionBackward, (In, gradOutput), (In, input), (In, weight), (OptionalInts, biasSizes), (Ints, stride),
      (Ints, padding), (Ints, dilation), (bool, transposed), (Ints, outputPadding), (int64_t, groups),
      (Flags, outputMask), (int8_t, cubeMathType), (OptionalOut, gradInput), (OptionalOut, gradWeight),
      (OptionalOut, gradBias)) {
  TORCH_CHECK(outputMask.size() == 3, "outputMask has ", outputMask.size(), " entries, not three");
  const auto [ofInput, ofWeight, ofBias] =
      at::convolution_backward(gradOutput, input, weight, at::OptionalIntArrayRef(biasSizes), stride, padding, dilation,
                               transposed, outputPadding, groups, {outputMask[0], outputMask[1], outputMask[2]});
  if (outputMask[0]) {
    gradInput = ofInput;
  }
  if (outputMask[1]) {
    gradWeight = ofWeight;
  }
  if (outputMask[2]) {
    gradBias = ofBias;
  }
}
