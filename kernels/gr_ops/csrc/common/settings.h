#pragma once

#include <cstddef>

namespace gr_ops {

// MXREC_CHECK=1: also look into device data, at the price of a synchronisation.
bool value_checks_enabled();

// MXREC_KEPT_RESULT_MB=128: how much memory of large CPU results is kept for later ones.
size_t kept_result_bytes();

}  // namespace gr_ops
