#pragma once

namespace gr_ops {

// MXREC_CHECK=1: also look into device data, at the price of a synchronisation.
bool value_checks_enabled();

}  // namespace gr_ops
