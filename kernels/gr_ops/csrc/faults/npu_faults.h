#pragma once

#include <ATen/core/Tensor.h>

// What kernels find wrong in data that only the device sees (kernels/operators/common/data_faults.h). They clamp it and
// leave a record on the device. Waiting for that would stall the stream, so the records are copied to the host where it
// waits anyway, and raised there.
namespace gr_ops::npu {

// `faults` of an operator on the current stream: 4 KiB of its device, allocated and cleared at the stream's first call.
const at::Tensor& fault_records();

// Queues a copy of the records of each stream behind what it was given; does not wait. Nothing where no operator that
// leaves records has run.
void copy_fault_records();

// Raises what the copies say that have arrived, once, and what FATAL bounds checks reported; wait: waits for those on
// their way.
void raise_faults(bool wait);

// An integer on the device. Reading it waits, so what kernels found before is raised with it.
int64_t read_back(const at::Tensor& number);

}  // namespace gr_ops::npu
