// The private formats in which torch_npu keeps some tensors, as blocks of 16 by 16 or of C0 channels. H0 rows and W0
// columns of a block, padded with zeros:
//   FRACTAL_NZ   [..., H, W] as [..., W / W0, H / H0, H0, W0]; a vector is a matrix of one row or one column
//   NC1HWC0      [N, C, H, W] as [N, C / C0, H, W, C0]
//   FRACTAL_Z    a filter [N, C, H, W] as [C / C0 * H * W, N / N0, N0, C0]
//   NDC1HWC0     [N, C, D, H, W] as [N, D, C / C0, H, W, C0]
//   FRACTAL_Z_3D a filter [N, C, D, H, W] as [D * C / C0 * H * W, N / N0, N0, C0]
#pragma once
#include <vector>

#include <ATen/ATen.h>

#include "acl/acl.h"

namespace twin::opapi {

// Whatever is not plain: a format that is none of those above is refused by CheckPacked.
bool IsPacked(aclFormat format);
// Whether a tensor that is said to be NC1HWC0 lies as its shape says: one value for each channel, which blocks do not
// reorder, and the mask of pooling, which torch_npu hands over by another name.
bool LiesPlain(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored);
// Throws Refusal unless the format is one of those above and the stored shape is one of the shape.
void CheckPacked(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored);

at::Tensor Unpacked(const at::Tensor& memory, aclFormat format, const std::vector<int64_t>& shape);
void Pack(const at::Tensor& tensor, aclFormat format, const at::Tensor& memory);

}  // namespace twin::opapi
