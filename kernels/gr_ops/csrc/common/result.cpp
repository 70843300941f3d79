#include "common/result.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdint>

namespace gr_ops {

void prefer_huge_pages(const at::Tensor& tensor) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t{2} << 20;
  const auto start = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const uintptr_t first = (start + page - 1) / page * page;
  const uintptr_t end = (start + tensor.nbytes()) / page * page;
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#else
  static_cast<void>(tensor);
#endif
}

}  // namespace gr_ops
