// Resizing of planes, sampling by a grid, and columns of windows.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

// torch_npu passes 0 or -1 for a scale that is absent, and 1 in upsample_bilinear2d: then the sizes give it, as they
// give a true 1.
static std::optional<double> Scale(double scale) {
  return scale > 0 && scale != 1 ? std::optional<double>(scale) : std::nullopt;
}

// nearest: (self, outputSize, scales..., out)
#define NEAREST_1D(NAME, FUNCTION, KIND)                                    \
  ACLNN(NAME, (In, self), (Ints, outputSize), (KIND, scales), (Out, out)) { \
    out = FUNCTION(self, outputSize, Scale(scales));                        \
  }
#define NEAREST_2D(NAME, FUNCTION, KIND)                                                      \
  ACLNN(NAME, (In, self), (Ints, outputSize), (KIND, scalesH), (KIND, scalesW), (Out, out)) { \
    out = FUNCTION(self, outputSize, Scale(scalesH), Scale(scalesW));                         \
  }
#define NEAREST_3D(NAME, FUNCTION)                                                                                   \
  ACLNN(NAME, (In, self), (Ints, outputSize), (double, scalesD), (double, scalesH), (double, scalesW), (Out, out)) { \
    out = FUNCTION(self, outputSize, Scale(scalesD), Scale(scalesH), Scale(scalesW));                                \
  }
NEAREST_1D(aclnnUpsampleNearest1dV2, at::upsample_nearest1d, float)
NEAREST_2D(aclnnUpsampleNearest2dV2, at::upsample_nearest2d, float)
NEAREST_3D(aclnnUpsampleNearest3d, at::upsample_nearest3d)
NEAREST_1D(aclnnUpsampleNearestExact1d, at::_upsample_nearest_exact1d, double)
NEAREST_2D(aclnnUpsampleNearestExact2d, at::_upsample_nearest_exact2d, double)
NEAREST_3D(aclnnUpsampleNearestExact3d, at::_upsample_nearest_exact3d)

ACLNN(aclnnUpsampleNearest1d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::upsample_nearest1d(self, outputSize);
}

ACLNN(aclnnUpsampleNearest2d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::upsample_nearest2d(self, outputSize);
}

#define NEAREST_1D_BACKWARD(NAME, FUNCTION)                                                         \
  ACLNN(NAME, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (double, scales), (Out, out)) { \
    out = FUNCTION(gradOut, outputSize, inputSize, Scale(scales));                                  \
  }
#define NEAREST_2D_BACKWARD(NAME, FUNCTION)                                                               \
  ACLNN(NAME, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (double, scalesH), (double, scalesW), \
        (Out, out)) {                                                                                     \
    out = FUNCTION(gradOut, outputSize, inputSize, Scale(scalesH), Scale(scalesW));                       \
  }
#define NEAREST_3D_BACKWARD(NAME, FUNCTION)                                                               \
  ACLNN(NAME, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (double, scalesD), (double, scalesH), \
        (double, scalesW), (Out, out)) {                                                                  \
    out = FUNCTION(gradOut, outputSize, inputSize, Scale(scalesD), Scale(scalesH), Scale(scalesW));       \
  }
NEAREST_1D_BACKWARD(aclnnUpsampleNearest1dBackward, at::upsample_nearest1d_backward)
NEAREST_2D_BACKWARD(aclnnUpsampleNearest2dBackward, at::upsample_nearest2d_backward)
NEAREST_3D_BACKWARD(aclnnUpsampleNearest3dBackward, at::upsample_nearest3d_backward)
NEAREST_1D_BACKWARD(aclnnUpsampleNearestExact1dBackward, at::_upsample_nearest_exact1d_backward)
NEAREST_2D_BACKWARD(aclnnUpsampleNearestExact2dBackward, at::_upsample_nearest_exact2d_backward)
NEAREST_3D_BACKWARD(aclnnUpsampleNearestExact3dBackward, at::_upsample_nearest_exact3d_backward)

// linear and cubic: (self, outputSize, alignCorners, scales..., out)
ACLNN(aclnnUpsampleLinear1d, (In, self), (Ints, outputSize), (bool, alignCorners), (double, scales), (Out, out)) {
  out = at::upsample_linear1d(self, outputSize, alignCorners, Scale(scales));
}

ACLNN(aclnnUpsampleLinear1dBackward, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (bool, alignCorners),
      (double, scales), (Out, out)) {
  out = at::upsample_linear1d_backward(gradOut, outputSize, inputSize, alignCorners, Scale(scales));
}

#define SMOOTH_2D(NAME, FUNCTION)                                                                         \
  ACLNN(NAME, (In, self), (Ints, outputSize), (bool, alignCorners), (double, scalesH), (double, scalesW), \
        (Out, out)) {                                                                                     \
    out = FUNCTION(self, outputSize, alignCorners, Scale(scalesH), Scale(scalesW));                       \
  }
#define SMOOTH_2D_BACKWARD(NAME, FUNCTION)                                                                   \
  ACLNN(NAME, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (bool, alignCorners), (double, scalesH), \
        (double, scalesW), (Out, out)) {                                                                     \
    out = FUNCTION(gradOut, outputSize, inputSize, alignCorners, Scale(scalesH), Scale(scalesW));            \
  }
SMOOTH_2D(aclnnUpsampleBilinear2d, at::upsample_bilinear2d)
SMOOTH_2D(aclnnUpsampleBilinear2dAA, at::_upsample_bilinear2d_aa)
SMOOTH_2D(aclnnUpsampleBicubic2d, at::upsample_bicubic2d)
SMOOTH_2D(aclnnUpsampleBicubic2dAA, at::_upsample_bicubic2d_aa)
SMOOTH_2D_BACKWARD(aclnnUpsampleBilinear2dBackward, at::upsample_bilinear2d_backward)
SMOOTH_2D_BACKWARD(aclnnUpsampleBilinear2dBackwardV2, at::upsample_bilinear2d_backward)
SMOOTH_2D_BACKWARD(aclnnUpsampleBilinear2dAABackward, at::_upsample_bilinear2d_aa_backward)
SMOOTH_2D_BACKWARD(aclnnUpsampleBicubic2dBackward, at::upsample_bicubic2d_backward)
SMOOTH_2D_BACKWARD(aclnnUpsampleBicubic2dAAGrad, at::_upsample_bicubic2d_aa_backward)

ACLNN(aclnnUpsampleTrilinear3d, (In, self), (Ints, outputSize), (bool, alignCorners), (double, scalesD),
      (double, scalesH), (double, scalesW), (Out, out)) {
  out = at::upsample_trilinear3d(self, outputSize, alignCorners, Scale(scalesD), Scale(scalesH), Scale(scalesW));
}

ACLNN(aclnnUpsampleTrilinear3dBackward, (In, gradOut), (Ints, outputSize), (Ints, inputSize), (bool, alignCorners),
      (double, scalesD), (double, scalesH), (double, scalesW), (Out, out)) {
  out = at::upsample_trilinear3d_backward(gradOut, outputSize, inputSize, alignCorners, Scale(scalesD), Scale(scalesH),
                                          Scale(scalesW));
}

// Sampling by a grid; masks say which gradients are asked for.
#define GRID_SAMPLER(NAME, FUNCTION)                                                                               \
  ACLNN(NAME, (In, input), (In, grid), (int64_t, interpolationMode), (int64_t, paddingMode), (bool, alignCorners), \
        (Out, out)) {                                                                                              \
    out = FUNCTION(input, grid, interpolationMode, paddingMode, alignCorners);                                     \
  }                                                                                                                \
  ACLNN(NAME##Backward, (In, gradOutput), (In, input), (In, grid), (int64_t, interpolationMode),                   \
        (int64_t, paddingMode), (bool, alignCorners), (Flags, outputMask), (Out, inputGrad), (Out, gridGrad)) {    \
    const auto [ofInput, ofGrid] = FUNCTION##_backward(gradOutput, input, grid, interpolationMode, paddingMode,    \
                                                       alignCorners, {outputMask.at(0), true});                    \
    if (outputMask.at(0)) {                                                                                        \
      inputGrad = ofInput;                                                                                         \
    }                                                                                                              \
    if (outputMask.at(1)) {                                                                                        \
      gridGrad = ofGrid;                                                                                           \
    }                                                                                                              \
  }
GRID_SAMPLER(aclnnGridSampler2D, at::grid_sampler_2d)
GRID_SAMPLER(aclnnGridSampler3D, at::grid_sampler_3d)

ACLNN(aclnnAffineGrid, (In, theta), (Ints, size), (bool, alignCorners), (Out, out)) {
  out = at::affine_grid_generator(theta, size, alignCorners);
}

// Windows as columns, and back by summing where they overlap.
ACLNN(aclnnIm2col, (In, self), (Ints, kernelSize), (Ints, dilation), (Ints, padding), (Ints, stride), (Out, out)) {
  out = at::im2col(self, kernelSize, dilation, padding, stride);
}

ACLNN(aclnnIm2colBackward, (In, gradOutput), (Ints, inputSize), (Ints, kernelSize), (Ints, dilation), (Ints, padding),
      (Ints, stride), (Out, out)) {
  out = at::col2im(gradOutput, inputSize, kernelSize, dilation, padding, stride);
}

ACLNN(aclnnUnfoldGrad, (In, gradOut), (Ints, inputSizes), (int64_t, dim), (int64_t, size), (int64_t, step),
      (Out, gradIn)) {
  gradIn = at::unfold_backward(gradOut, inputSizes, dim, size, step);
}
