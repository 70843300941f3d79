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
at::Tensor Ordered(const at::Tensor& memory, aclFormat format, at::IntArrayRef shape) {
  const auto stored = memory.sizes();
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    const size_t last = stored.size();
    // [matrices, W1, H1, H0, W0] to [matrices, H1, H0, W1, W0]
    return memory.reshape({-1, stored[last - 4], stored[last - 3], stored[last - 2], stored[last - 1]})
        .permute({0, 2, 3, 1, 4});
  }
  switch (format) {
    case ACL_FORMAT_NC1HWC0:
      return memory.permute({0, 1, 4, 2, 3});  // [N, C1, C0, H, W]
    case ACL_FORMAT_NDC1HWC0:
      return memory.permute({0, 2, 5, 1, 3, 4});  // [N, C1, C0, D, H, W]
    case ACL_FRACTAL_Z_3D:
      // [D, C1, H, W, N1, N0, C0] to [N1, N0, C1, C0, D, H, W]
      return memory.reshape({shape[2], -1, shape[3], shape[4], stored[1], stored[2], stored[3]})
          .permute({4, 5, 1, 6, 0, 2, 3});
    default:
      // [C1, H, W, N1, N0, C0] to [N1, N0, C1, C0, H, W]
      return memory.reshape({-1, shape[2], shape[3], stored[1], stored[2], stored[3]}).permute({3, 4, 0, 5, 1, 2});
  }
}

bool IsFilter(aclFormat format) { return format == ACL_FORMAT_FRACTAL_Z || format == ACL_FRACTAL_Z_3D; }

// The shape of Ordered with the dimensions of blocks joined.
std::vector<int64_t> Padded(const at::Tensor& ordered, aclFormat format) {
  const auto size = ordered.sizes();
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    return {size[0], size[1] * size[2], size[3] * size[4]};
  }
  std::vector<int64_t> padded = IsFilter(format) ? std::vector<int64_t>{size[0] * size[1], size[2] * size[3]}
                                                 : std::vector<int64_t>{size[0], size[1] * size[2]};
  padded.insert(padded.end(), size.begin() + (IsFilter(format) ? 4 : 3), size.end());
  return padded;
}

// The part of the padded tensor that is not padding.
at::Tensor Real(const at::Tensor& padded, aclFormat format, at::IntArrayRef shape, at::IntArrayRef stored) {
  if (format == ACL_FORMAT_FRACTAL_NZ) {
    const auto [rows, columns] = MatrixOf(shape, stored);
    return padded.narrow(1, 0, rows).narrow(2, 0, columns);
  }
  const auto channels = padded.narrow(1, 0, shape[1]);
  return IsFilter(format) ? channels.narrow(0, 0, shape[0]) : channels;
}

// Of the shape of an image or a filter.
std::vector<int64_t> StoredShape(aclFormat format, const std::vector<int64_t>& shape, int64_t n0, int64_t c0) {
  const int64_t channels = Blocks(shape[1], c0);
  const int64_t places = c10::multiply_integers(shape.begin() + 2, shape.end());
  switch (format) {
    case ACL_FORMAT_NC1HWC0:
      return {shape[0], channels, shape[2], shape[3], c0};
    case ACL_FORMAT_NDC1HWC0:
      return {shape[0], shape[2], channels, shape[3], shape[4], c0};
    default:
      return {channels * places, Blocks(shape[0], n0), n0, c0};
  }
}

}  // namespace

bool IsPacked(aclFormat format) { return !IsPlainFormat(format); }

bool LiesPlain(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored) {
  if (format != ACL_FORMAT_NC1HWC0) {
    return false;
  }
  const bool mask = shape.size() == 4 && stored.size() == 5 && stored[1] == shape[1] &&
                    c10::multiply_integers(stored) == c10::multiply_integers(shape);
  return shape.size() == 1 || mask;
}

void CheckPacked(aclFormat format, const std::vector<int64_t>& shape, const std::vector<int64_t>& stored) {
  bool fits = false;
  if (format == ACL_FORMAT_FRACTAL_NZ && stored.size() >= 4) {
    const size_t last = stored.size();
    const auto [rows, columns] = MatrixOf(shape, stored);
    fits = stored[last - 4] == Blocks(columns, stored[last - 1]) && stored[last - 3] == Blocks(rows, stored[last - 2]);
  }
  const bool plane = format == ACL_FORMAT_NC1HWC0 || format == ACL_FORMAT_FRACTAL_Z;
  const bool volume = format == ACL_FORMAT_NDC1HWC0 || format == ACL_FRACTAL_Z_3D;
  if ((plane && shape.size() == 4) || (volume && shape.size() == 5)) {
    fits = stored.size() >= 4 && stored == StoredShape(format, shape, stored[stored.size() - 2], stored.back());
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
