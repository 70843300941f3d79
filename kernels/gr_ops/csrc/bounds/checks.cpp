#include "bounds/checks.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

namespace gr_ops {
namespace {

void check_vector(const char* argument, const at::Tensor& tensor, c10::Device device) {
  TORCH_CHECK(tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong, kBoundsOp, ": ", argument,
              " has an unsupported dtype; expected int32 or int64, got ", tensor.scalar_type());
  TORCH_CHECK(tensor.dim() == 1, kBoundsOp, ": ", argument, " must be 1-D; expected one dimension, got shape ",
              tensor.sizes());
  TORCH_CHECK(tensor.device() == device, kBoundsOp, ": expected ", argument, " on ", device, ", got ", tensor.device());
}

void check_in_place(const char* argument, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous(), kBoundsOp, ": ", argument,
              " must be contiguous because it is updated in place; expected contiguous strides, got strides ",
              tensor.strides());
}

}  // namespace

BoundsMode bounds_mode(int64_t mode, int64_t version) {
  TORCH_CHECK(version == 1 || version == 2, kBoundsOp, ": bounds_check_version is unknown; expected 1 or 2, got ",
              version);
  switch (mode) {
    case 0:
    case 6:
      return BoundsMode::fatal;
    case 1:
    case 5:
      return BoundsMode::warning;
    case 2:
    case 4:
      return BoundsMode::ignore;
    case 3:
      return BoundsMode::none;
    default:
      TORCH_CHECK(false, kBoundsOp,
                  ": bounds_check_mode is unknown; expected 0 (FATAL), 1 (WARNING), 2 (IGNORE), 3 (NONE) or 4 to 6 "
                  "(IGNORE, WARNING, FATAL of version 2), got ",
                  mode);
  }
}

void check_bounds_arguments(const BoundsArguments& a) {
  const c10::Device device = a.indices.device();
  check_vector("indices", a.indices, device);
  check_vector("rows_per_table", a.rows_per_table, device);
  check_vector("offsets", a.offsets, device);
  check_in_place("indices", a.indices);
  check_in_place("offsets", a.offsets);
  TORCH_CHECK(a.warning.scalar_type() == at::kLong && a.warning.numel() == 1, kBoundsOp,
              ": warning is no counter; expected one int64, got shape ", a.warning.sizes(), " of ",
              a.warning.scalar_type());
  TORCH_CHECK(a.warning.device() == device, kBoundsOp, ": expected warning on ", device, ", got ", a.warning.device());
  TORCH_CHECK(!a.weights || a.weights->numel() == a.indices.numel(), kBoundsOp, ": weights size ", a.weights->numel(),
              " is not equal to indices size ", a.indices.numel(), "; expected a weight per index, got ",
              a.weights->numel());
  TORCH_CHECK(a.offsets.numel() >= 1, kBoundsOp, ": offsets is empty; expected B * T + 1 entries, got 0");

  const int64_t tables = a.rows_per_table.numel();
  const int64_t bags = a.offsets.numel() - 1;
  if (a.batch_offsets) {
    check_vector("B_offsets", *a.batch_offsets, device);
    TORCH_CHECK(a.batch_offsets->numel() == tables + 1, kBoundsOp, ": B_offsets has ", a.batch_offsets->numel(),
                " entries; expected T + 1 = ", tables + 1, ", got ", a.batch_offsets->numel());
    TORCH_CHECK(a.max_batch >= 0, kBoundsOp, ": max_B is negative; expected the largest batch of a table, got ",
                a.max_batch);
  } else if (tables == 0) {
    TORCH_CHECK(bags == 0 && a.indices.numel() == 0, kBoundsOp,
                ": rows_per_table is empty; expected no indices and one offset, got ", a.indices.numel(),
                " indices and ", a.offsets.numel(), " offsets");
  } else {
    TORCH_CHECK(bags % tables == 0, kBoundsOp, ": offsets size ", a.offsets.numel(), " is not equal to B (",
                bags / tables, ") * T (", tables, ") + 1; expected a whole batch for each table, got ",
                a.offsets.numel());
  }
}

std::vector<int64_t> first_bags(const at::Tensor& rows_per_table, const at::Tensor& offsets,
                                const std::optional<at::Tensor>& batch_offsets) {
  const int64_t tables = rows_per_table.numel();
  const int64_t bags = offsets.numel() - 1;
  std::vector<int64_t> first(tables + 1);
  if (!batch_offsets) {
    for (int64_t t = 1; t <= tables; ++t) first[t] = bags / tables * t;
    return first;
  }
  const at::Tensor longs = batch_offsets->to(at::kLong).contiguous();
  const auto* data = longs.const_data_ptr<int64_t>();
  TORCH_CHECK(data[0] == 0, kBoundsOp, ": B_offsets starts above zero; expected B_offsets[0] == 0, got ", data[0]);
  for (int64_t t = 1; t <= tables; ++t) {
    TORCH_CHECK(data[t] >= data[t - 1], kBoundsOp, ": B_offsets must be non-decreasing: B_offsets[", t, "]=", data[t],
                " < B_offsets[", t - 1, "]=", data[t - 1]);
    first[t] = data[t];
  }
  TORCH_CHECK(first[tables] == bags, kBoundsOp, ": offsets size ", offsets.numel(),
              " is not equal to B_offsets[T] + 1; expected ", first[tables] + 1, ", got ", offsets.numel());
  return first;
}

std::string offset_violation(int64_t table, int64_t batch, int64_t start, int64_t end, int64_t count) {
  return c10::str("offsets of table ", table, ", batch ", batch, " are wrong; expected 0 <= start <= end <= ", count,
                  ", got start ", start, " and end ", end);
}

std::string index_violation(int64_t table, int64_t batch, int64_t position, int64_t value, int64_t limit) {
  return c10::str("indices[", position, "] of table ", table, ", batch ", batch,
                  " is out of range; expected 0 <= index < ", limit, " or -1, got ", value);
}

std::string last_offset_violation(int64_t last, int64_t count) {
  return c10::str("offsets ends wrong; expected offsets[-1] == ", count, " (the number of indices), got ", last);
}

std::string first_offset_violation(int64_t first) {
  return c10::str("offsets starts wrong; expected offsets[0] == 0, got ", first);
}

}  // namespace gr_ops
