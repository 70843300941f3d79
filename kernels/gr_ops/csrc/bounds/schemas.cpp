#include <torch/library.h>

#include "common/operators.h"

namespace gr_ops {
namespace {

constexpr const char* kSchema =
    "bounds_check_indices(Tensor rows_per_table, Tensor(a!) indices, Tensor(b!) offsets, int bounds_check_mode, "
    "Tensor(c!) warning, Tensor(d!)? weights=None, Tensor? B_offsets=None, SymInt max_B=-1, Tensor? b_t_map=None, "
    "int info_B_num_bits=-1, int info_B_mask=-1, int bounds_check_version=1) -> ()";

}  // namespace

TORCH_LIBRARY_FRAGMENT(fbgemm, m) { define_if_absent(m, "fbgemm", kSchema); }
TORCH_LIBRARY_FRAGMENT(mxrec, m) { define_if_absent(m, "mxrec", kSchema); }

}  // namespace gr_ops
