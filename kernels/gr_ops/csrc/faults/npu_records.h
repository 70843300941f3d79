#pragma once

#include <cstdint>
#include <string>

namespace gr_ops::npu {

constexpr int64_t kFaultCores = 64;
constexpr int64_t kFaultWords = 8;

// A sentence for each operator that has left a record among kFaultCores x kFaultWords words, joined by newlines; empty
// where there is none.
std::string describe_faults(const int64_t* words);

}  // namespace gr_ops::npu
