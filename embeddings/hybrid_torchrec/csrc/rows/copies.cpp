#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "rows/types.h"

// Rows of several tensors by slots, as they are: what goes between tiers, checkpoints and streams.
namespace hybrid_torchrec {
namespace {

constexpr int64_t kAhead = 24;    // rows between the fetch of their lines and their copy
constexpr int64_t kGrain = 1024;  // rows that are worth another thread
constexpr int64_t kLine = 64;

int64_t row_bytes(const at::Tensor& tensor) {
  int64_t bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t k = 1; k < tensor.dim(); ++k) bytes *= tensor.size(k);
  return bytes;
}

// Calls copy(row of the table, row number) for each slot. The lines of a row are on their way when its turn comes.
template <bool kWritten, typename Copy>
void visit_rows(char* table, const int64_t* slots, int64_t count, int64_t bytes, const Copy& copy) {
  at::parallel_for(0, count, kGrain, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      if (i + kAhead < end) {
        const char* next = table + slots[i + kAhead] * bytes;
        for (int64_t k = 0; k < bytes; k += kLine) __builtin_prefetch(next + k, kWritten);
      }
      copy(table + slots[i] * bytes, i);
    }
  });
}

template <bool kWritten>
void copy_rows(char* table, const int64_t* slots, int64_t count, int64_t bytes, char* rows) {
  const auto visit = [&](auto size) {  // a constant where the size is that of one number
    visit_rows<kWritten>(table, slots, count, bytes, [=](char* row, int64_t i) {
      if constexpr (kWritten) {
        std::memcpy(row, rows + i * bytes, static_cast<size_t>(size));
      } else {
        std::memcpy(rows + i * bytes, row, static_cast<size_t>(size));
      }
    });
  };
  if (bytes == 4) {
    visit(std::integral_constant<int64_t, 4>{});
  } else {
    visit(bytes);
  }
}

at::Tensor checked(const char* op, at::TensorList columns, const at::Tensor& given) {
  TORCH_CHECK(given.dim() == 1 && given.scalar_type() == at::kLong && given.is_cpu(), op,
              ": slots must be int64, (R,), on the CPU; got ", given.scalar_type(), " of shape ", given.sizes());
  const at::Tensor slots = given.contiguous();
  for (const at::Tensor& column : columns) {
    TORCH_CHECK(column.dim() >= 1 && column.is_contiguous() && column.is_cpu(), op,
                ": a column must be contiguous, (C, ...), on the CPU; got shape ", column.sizes());
    if (!row_kernels().valid(slots.const_data_ptr<int64_t>(), slots.numel(), column.size(0))) {
      fail_slot(op, slots.const_data_ptr<int64_t>(), slots.numel(), column.size(0));
    }
  }
  return slots;
}

std::vector<at::Tensor> take_rows(at::TensorList columns, const at::Tensor& given) {
  const at::Tensor slots = checked("take_rows", columns, given);
  std::vector<at::Tensor> taken;
  for (const at::Tensor& column : columns) {
    std::vector<int64_t> shape = column.sizes().vec();
    shape[0] = slots.numel();
    taken.push_back(at::empty(shape, column.options()));
    copy_rows<false>(static_cast<char*>(column.data_ptr()), slots.const_data_ptr<int64_t>(), slots.numel(),
                     row_bytes(column), static_cast<char*>(taken.back().data_ptr()));
  }
  return taken;
}

// slots are distinct.
void put_rows(at::TensorList columns, const at::Tensor& given, at::TensorList rows) {
  const at::Tensor slots = checked("put_rows", columns, given);
  TORCH_CHECK(columns.size() == rows.size(), "put_rows: ", columns.size(), " columns, but rows of ", rows.size());
  for (size_t k = 0; k < columns.size(); ++k) {
    TORCH_CHECK(rows[k].scalar_type() == columns[k].scalar_type() && rows[k].is_cpu() && rows[k].dim() >= 1 &&
                    rows[k].size(0) == slots.numel() && rows[k].sizes().slice(1) == columns[k].sizes().slice(1),
                "put_rows: rows of ", rows[k].scalar_type(), " and shape ", rows[k].sizes(), " for ", slots.numel(),
                " slots of a column of ", columns[k].scalar_type(), " and shape ", columns[k].sizes());
  }
  for (size_t k = 0; k < columns.size(); ++k) {
    const at::Tensor source = rows[k].contiguous();
    copy_rows<true>(static_cast<char*>(columns[k].data_ptr()), slots.const_data_ptr<int64_t>(), slots.numel(),
                    row_bytes(columns[k]), static_cast<char*>(source.data_ptr()));
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(hybrid_torchrec, CPU, m) {
  m.impl("take_rows", &take_rows);
  m.impl("put_rows", &put_rows);
}

}  // namespace hybrid_torchrec
