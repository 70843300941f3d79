#include "bounds/npu_reports.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "bounds/checks.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"

namespace gr_ops::npu {
namespace {

// Words of the report, as the kernel writes them (kernels/operators/bounds_check_indices/op_kernel/violations.h).
enum Word { kCount, kKind, kTable, kBatch, kPlace, kValue, kLimit };
enum Kind { kNothing, kLastOffset, kFirstOffset, kOffsets, kIndex };

struct Pending {
  at::Tensor host;  // pinned
  std::unique_ptr<c10_npu::NPUEvent> copied;
};

std::mutex pending_mutex;

std::deque<Pending>& pending() {
  static auto* reports = new std::deque<Pending>;  // events must not outlive the device: never destroyed
  return *reports;
}

std::string describe(const int64_t* words) {
  switch (words[kKind]) {
    case kLastOffset:
      return c10::str("offsets ends wrong; expected offsets[-1] == the number of indices, got ", words[kPlace]);
    case kFirstOffset:
      return first_offset_violation(words[kPlace]);
    case kOffsets:
      return c10::str("offsets of table ", words[kTable], ", batch ", words[kBatch],
                      " are wrong; expected 0 <= start <= end <= the number of indices, got start ", words[kPlace],
                      " and end ", words[kValue]);
    default:
      return index_violation(words[kTable], words[kBatch], words[kPlace], words[kValue], words[kLimit]);
  }
}

}  // namespace

void expect_report(const at::Tensor& report) {
  Pending entry;
  entry.host = report.to(at::kCPU, /*non_blocking=*/true);
  entry.copied = std::make_unique<c10_npu::NPUEvent>();
  entry.copied->record();
  const std::lock_guard<std::mutex> lock(pending_mutex);
  pending().push_back(std::move(entry));
}

void raise_arrived_reports(bool wait) {
  const std::lock_guard<std::mutex> lock(pending_mutex);
  while (!pending().empty()) {
    Pending& oldest = pending().front();
    if (wait) {
      oldest.copied->synchronize();
    } else if (!oldest.copied->query()) {
      return;
    }
    const Pending arrived = std::move(oldest);
    pending().pop_front();
    const auto* words = arrived.host.const_data_ptr<int64_t>();
    TORCH_CHECK(words[kCount] == 0, kBoundsOp, ": ", describe(words), " (reported by the device after the call)");
  }
}

}  // namespace gr_ops::npu
