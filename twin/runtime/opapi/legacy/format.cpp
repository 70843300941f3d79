#include "legacy/format.h"

#include "arguments.h"

namespace twin::opapi {
namespace {

[[noreturn]] void Refuse(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored) {
  throw Refusal(INVALID_ARGUMENT, "a tensor of shape " + ShapeText(shape) + " is stored in the format " +
                                      std::to_string(format) + " as " + ShapeText(stored));
}

int64_t Blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

// Rows and columns of one matrix in FRACTAL_NZ.
std::pair<int64_t, int64_t> MatrixOf(at::IntArrayRef shape, at::IntArrayRef stored) {
  if (shape.size() >= 2) {
    return {shape[shape.size() - 2], shape.back()};
  }
  const int64_t count = shape.empty() ? 1 : shape[0];
  const size_t last = stored.size();
  return count <= stored[last - 4] * stored[last - 1] ? std::pair<int64_t, int64_t>{1, count}
                                                      : std::pair<int64_t, int64_t>{count, 1};
}

// The whole blocks, padding included, in PyTorch's order of dimensions: a view of the memory but for the last reshape.
// `inner` are the sizes of the blocks' dimensions that belong together.
at::Tensor Ordered(const at::Tensor& memory, aclFormat format, at::IntArrayRef shape) {
  const auto stored = memory.sizes();
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    const size_t last = stored.size();
    // [matrices, W1, H1, H0, W0] to [matrices, H1, H0, W1, W0]
    return memory.reshape({-1, stored[last - 4], stored[last - 3], stored[last - 2], stored[last - 1]})
        .permute({0, 2, 3, 1, 4});
  }
  if (format == ACL_FORMAT_NC1HWC0) {
    return memory.permute({0, 1, 4, 2, 3});  // [N, C1, C0, H, W]
  }
  // [C1, H, W, N1, N0, C0] to [N1, N0, C1, C0, H, W]
  return memory.reshape({-1, shape[2], shape[3], stored[1], stored[2], stored[3]}).permute({3, 4, 0, 5, 1, 2});
}

// The shape of Ordered with the dimensions of blocks joined.
std::vector<int64_t> Padded(const at::Tensor& ordered, aclFormat format) {
  const auto size = ordered.sizes();
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    return {size[0], size[1] * size[2], size[3] * size[4]};
  }
  if (format == ACL_FORMAT_NC1HWC0) {
    return {size[0], size[1] * size[2], size[3], size[4]};
  }
  return {size[0] * size[1], size[2] * size[3], size[4], size[5]};
}

// The part of the padded tensor that is not padding.
at::Tensor Real(const at::Tensor& padded, aclFormat format, at::IntArrayRef shape, at::IntArrayRef stored) {
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    const auto [rows, columns] = MatrixOf(shape, stored);
    return padded.narrow(1, 0, rows).narrow(2, 0, columns);
  }
  const auto channels = padded.narrow(1, 0, shape[1]);
  return format == ACL_FORMAT_NC1HWC0 ? channels : channels.narrow(0, 0, shape[0]);
}

}  // namespace

bool IsPacked(aclFormat format) {
  return format == ACL_FORMAT_FRACTAL_NZ || format == ACL_FORMAT_NC1HWC0 || format == ACL_FORMAT_FRACTAL_Z ||
         format == ACL_FORMAT_NDC1HWC0;
}

void CheckPacked(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored) {
  bool fits = false;
  if (format == ACL_FORMAT_FRACTAL_NZ && stored.size() >= 4) {
    const size_t last = stored.size();
    const auto [rows, columns] = MatrixOf(shape, stored);
    fits = stored[last - 4] == Blocks(columns, stored[last - 1]) && stored[last - 3] == Blocks(rows, stored[last - 2]);
  } else if (format == ACL_FORMAT_NC1HWC0 && stored.size() == 5 && shape.size() == 4) {
    fits = stored[0] == shape[0] && stored[1] == Blocks(shape[1], stored[4]) && stored[2] == shape[2] &&
           stored[3] == shape[3];
  } else if (format == ACL_FORMAT_FRACTAL_Z && stored.size() == 4 && shape.size() == 4) {
    fits = stored[0] == Blocks(shape[1], stored[3]) * shape[2] * shape[3] && stored[1] == Blocks(shape[0], stored[2]);
  }
  if (!fits) {
    Refuse(format, shape, stored);
  }
}

at::Tensor Unpacked(const at::Tensor& memory, aclFormat format, const std::vector<int64_t>& shape) {
  if (!IsPacked(format)) {
    return memory;
  }
  const auto ordered = Ordered(memory, format, shape);
  return Real(ordered.reshape(Padded(ordered, format)), format, shape, memory.sizes()).reshape(shape);
}

void Pack(const at::Tensor& tensor, aclFormat format, const at::Tensor& memory) {
  const auto ordered = Ordered(memory, format, tensor.sizes());
  const auto padded = at::zeros(Padded(ordered, format), memory.options());
  const auto real = Real(padded, format, tensor.sizes(), memory.sizes());
  real.copy_(tensor.reshape(real.sizes()));
  ordered.copy_(padded.reshape(ordered.sizes()));
}

}  // namespace twin::opapi
