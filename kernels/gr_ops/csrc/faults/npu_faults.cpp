#include "faults/npu_faults.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <list>
#include <memory>
#include <mutex>

#include "bounds/npu_reports.h"
#include "faults/npu_records.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace gr_ops::npu {
namespace {

// Of one stream, which alone clears, writes and copies them: no other order is needed.
struct Records {
  c10_npu::NPUStream stream;
  at::Tensor device;  // [kFaultCores, kFaultWords]
  at::Tensor host;    // pinned; the last copy, not looked at yet
  std::unique_ptr<c10_npu::NPUEvent> copied;
};

std::mutex mutex;

std::list<Records>& all_records() {
  static auto* records = new std::list<Records>;  // must not outlive the device: never destroyed
  return *records;
}

at::Tensor cleared_records(c10::Device device) {
  const c10::InferenceMode ordinary(false);  // cleared later in any mode
  return at::zeros({kFaultCores, kFaultWords}, at::TensorOptions(device).dtype(at::kLong));
}

void copy(Records& records) {
  const c10_npu::NPUStreamGuard guard(records.stream);
  records.host = records.device.to(at::kCPU, /*non_blocking=*/true);
  records.copied = std::make_unique<c10_npu::NPUEvent>();
  records.copied->record();
}

// What the last copy says, if it is here; it is not looked at twice.
std::string take(Records& records, bool wait) {
  if (!records.host.defined()) return {};
  if (wait) {
    records.copied->synchronize();
  } else if (!records.copied->query()) {
    return {};
  }
  std::string text = describe_faults(records.host.const_data_ptr<int64_t>());
  records.host.reset();
  records.copied.reset();
  if (!text.empty()) {
    const c10_npu::NPUStreamGuard guard(records.stream);
    records.device.zero_();
  }
  return text;
}

}  // namespace

const at::Tensor& fault_records() {
  const c10_npu::NPUStream stream = c10_npu::getCurrentNPUStream();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Records& records : all_records()) {
    if (records.stream == stream) return records.device;
  }
  all_records().push_back({stream, cleared_records(stream.device()), {}, {}});
  return all_records().back().device;
}

void copy_fault_records() {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const std::lock_guard<std::mutex> lock(mutex);
  for (Records& records : all_records()) copy(records);
}

void raise_faults(bool wait) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const std::lock_guard<std::mutex> lock(mutex);
  for (Records& records : all_records()) {
    const std::string text = take(records, wait);
    TORCH_CHECK(text.empty(), text, "\nfound on ", records.device.device(),
                " by a call before this one; MXREC_CHECK=1 raises at the call itself");
  }
  raise_arrived_reports(wait);
}

int64_t read_back(const at::Tensor& number) {
  copy_fault_records();
  const int64_t value = number.item().toLong();
  raise_faults(/*wait=*/false);
  return value;
}

TORCH_LIBRARY_FRAGMENT(mxrec, m) {
  m.def("copy_fault_records() -> ()", &copy_fault_records);
  m.def("raise_faults(bool wait) -> ()", &raise_faults);
}

}  // namespace gr_ops::npu
