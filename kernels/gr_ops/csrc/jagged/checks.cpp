#include "jagged/checks.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/dtypes.h"

namespace gr_ops {
namespace {

void check_movable(const char* op, const char* argument, const at::Tensor& tensor) {
  TORCH_CHECK(is_movable(tensor.scalar_type()), op, ": ", argument, " has an unsupported dtype; expected one of ",
              kMovableDtypes, ", got ", tensor.scalar_type());
}

const char* plural(size_t count, const char* one, const char* many) { return count == 1 ? one : many; }

void check_offsets(const char* op, at::TensorList offsets, c10::Device device) {
  TORCH_CHECK(!offsets.empty(), op, ": offsets must contain at least one tensor; expected 1 to ", kMaxJaggedDims,
              " tensors, got 0");
  TORCH_CHECK(offsets.size() <= kMaxJaggedDims, op, ": offsets has too many tensors; expected at most ", kMaxJaggedDims,
              " jagged dimensions, got ", offsets.size());
  for (size_t k = 0; k < offsets.size(); ++k) {
    const at::Tensor& offset = offsets[k];
    TORCH_CHECK(offset.scalar_type() == at::kInt || offset.scalar_type() == at::kLong, op, ": offsets[", k,
                "] has an unsupported dtype; expected: offsets must be int32 or int64, got ", offset.scalar_type());
    TORCH_CHECK(offset.scalar_type() == offsets[0].scalar_type(), op, ": offsets[", k,
                "] differs in dtype; expected that of offsets[0] (", offsets[0].scalar_type(), "), got ",
                offset.scalar_type());
    TORCH_CHECK(offset.dim() == 1, op, ": offsets[", k, "] has ", offset.dim(),
                " dimensions; expected: offsets[k] must be 1-D with B+1 >= 1 entries, got shape ", offset.sym_sizes());
    TORCH_SYM_CHECK(offset.sym_size(0).sym_ge(1), op, ": offsets[", k,
                    "] is empty; expected: offsets[k] must be 1-D with B+1 >= 1 entries, got 0 entries");
    TORCH_CHECK(offset.device() == device, op, ": expected offsets[", k, "] on ", device, ", got ", offset.device());
  }
}

// Raises unless 0 <= data[0] <= data[1] <= ...; returns the last entry. The sign bits tell, so that the
// first loop is vectorised.
template <typename Index>
int64_t check_level(const char* op, size_t level, const Index* data, int64_t entries) {
  TORCH_CHECK(data[0] >= 0, op, ": offsets[", level, "] starts below zero; expected off[0] >= 0, got ", data[0]);
  using Unsigned = std::make_unsigned_t<Index>;
  Unsigned signs = 0;
  for (int64_t i = 1; i < entries; ++i) {
    const auto entry = static_cast<Unsigned>(data[i]);
    signs |= entry | (entry - static_cast<Unsigned>(data[i - 1]));
  }
  for (int64_t i = 1; static_cast<Index>(signs) < 0 && i < entries; ++i) {
    TORCH_CHECK(data[i] >= data[i - 1], op, ": offsets must be non-decreasing: off[", i, "]=", data[i], " < off[",
                i - 1, "]=", data[i - 1]);
  }
  return data[entries - 1];
}

template <typename Stored>
int64_t bits_of(Stored value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(Stored));  // both platforms are little-endian: the low bytes
  return bits;
}

template <typename Integer>
int64_t integer_bits(const char* op, at::ScalarType dtype, double value) {
  const double truncated = std::trunc(value);
  const double low = static_cast<double>(std::numeric_limits<Integer>::min());
  const double end = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  TORCH_CHECK(truncated >= low && truncated < end, op, ": padding_value is out of range; expected a value of ",
              integer_name(dtype), ", got ", value);
  return bits_of(static_cast<Integer>(truncated));
}

}  // namespace

std::vector<c10::SymInt> dense_shape(const char* op, const at::Tensor& values, at::TensorList offsets,
                                     c10::SymIntArrayRef max_lengths) {
  check_movable(op, "values", values);
  TORCH_CHECK(values.dim() >= 1, op, ": values has no dimensions; expected [L] or [L, D...], got shape []");
  check_offsets(op, offsets, values.device());
  TORCH_CHECK(max_lengths.size() == offsets.size(), op, ": max_lengths has ", max_lengths.size(), " ",
              plural(max_lengths.size(), "entry", "entries"), " but there ", plural(offsets.size(), "is ", "are "),
              offsets.size(), " jagged ", plural(offsets.size(), "dimension", "dimensions"),
              "; expected one entry per offsets tensor, got ", max_lengths);
  std::vector<c10::SymInt> shape{offsets[0].sym_size(0) - 1};
  for (size_t k = 0; k < max_lengths.size(); ++k) {
    TORCH_SYM_CHECK(max_lengths[k].sym_ge(0), op, ": max_lengths[", k,
                    "] is negative; expected: max_lengths[k] must be >= 0, got ", max_lengths[k]);
    shape.push_back(max_lengths[k]);
  }
  const auto sizes = values.sym_sizes();
  shape.insert(shape.end(), sizes.begin() + 1, sizes.end());
  return shape;
}

void check_dense(const char* op, const at::Tensor& dense, at::TensorList offsets) {
  check_movable(op, "dense", dense);
  check_offsets(op, offsets, dense.device());
  const auto jagged_dims = static_cast<int64_t>(offsets.size());
  TORCH_CHECK(dense.dim() > jagged_dims, op, ": dense has too few dimensions; expected at least ", jagged_dims + 1,
              " (batch and one per offsets tensor), got shape ", dense.sym_sizes());
  const c10::SymInt batch = offsets[0].sym_size(0) - 1;
  TORCH_SYM_CHECK(dense.sym_size(0).sym_eq(batch), op, ": dense has batch ", dense.sym_size(0),
                  " but offsets describe ", batch, " rows; expected dense.size(0) == offsets[0].size(0) - 1, got ",
                  dense.sym_size(0));
}

std::vector<c10::SymInt> jagged_shape(const char* op, const at::Tensor& dense, at::TensorList offsets,
                                      const c10::SymInt& total_length) {
  check_dense(op, dense, offsets);
  TORCH_SYM_CHECK(total_length.sym_ge(0), op, ": total_L is negative; expected: total_L must be >= 0, got ",
                  total_length);
  std::vector<c10::SymInt> shape{total_length};
  const auto sizes = dense.sym_sizes();
  shape.insert(shape.end(), sizes.begin() + 1 + static_cast<int64_t>(offsets.size()), sizes.end());
  return shape;
}

void check_offset_values(const char* op, const std::vector<at::Tensor>& offsets, std::optional<int64_t> rows) {
  int64_t last = 0;
  for (size_t k = 0; k < offsets.size(); ++k) {
    const at::Tensor offset = offsets[k].contiguous();
    const int64_t entries = offset.numel();
    TORCH_CHECK(k == 0 || entries == last + 1, op, ": offsets[", k, "] has ", entries, " entries; expected offsets[",
                k - 1, "][-1] + 1 = ", last + 1, ", got ", entries);
    last = offset.scalar_type() == at::kInt ? check_level<int32_t>(op, k, offset.const_data_ptr<int32_t>(), entries)
                                            : check_level<int64_t>(op, k, offset.const_data_ptr<int64_t>(), entries);
  }
  TORCH_CHECK(!rows || last <= *rows, op, ": offsets end at ", last, " but values has ", rows.value_or(0),
              " rows; expected offsets[-1][-1] <= values.size(0), got ", last);
}

int64_t padding_bits(const char* op, at::ScalarType dtype, double padding_value) {
  switch (dtype) {
    case at::kHalf:
      return bits_of(c10::Half(static_cast<float>(padding_value)));
    case at::kBFloat16:
      return bits_of(c10::BFloat16(static_cast<float>(padding_value)));
    case at::kFloat:
    case at::kComplexFloat:  // the real part comes first, the imaginary part stays 0
      return bits_of(static_cast<float>(padding_value));
    case at::kDouble:
      return bits_of(padding_value);
    case at::kBool:
      return padding_value != 0 ? 1 : 0;
    case at::kChar:
      return integer_bits<int8_t>(op, dtype, padding_value);
    case at::kByte:
      return integer_bits<uint8_t>(op, dtype, padding_value);
    case at::kShort:
      return integer_bits<int16_t>(op, dtype, padding_value);
    case at::kInt:
      return integer_bits<int32_t>(op, dtype, padding_value);
    case at::kLong:
      return integer_bits<int64_t>(op, dtype, padding_value);
    default:
      TORCH_CHECK(false, op, ": padding_value cannot be converted to ", dtype);
  }
}

}  // namespace gr_ops
