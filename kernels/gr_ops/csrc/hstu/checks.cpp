#include "hstu/checks.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <limits>

#include "hstu/problem.h"

namespace gr_ops::hstu {
namespace {

// Kernels count the tokens of one row in 32 bits.
constexpr int64_t kLongestRow = std::numeric_limits<int32_t>::max();

bool is_normal(const Arguments& a) { return a.layout == "normal"; }

void check_rank(const Arguments& a, const char* name, const at::Tensor& tensor, const char* dims) {
  const int64_t rank = is_normal(a) ? 4 : 3;
  TORCH_CHECK(tensor.dim() == rank, a.op, ": ", name, " must be ", rank, "-D ", dims, " in ", a.layout, " layout, got ",
              tensor.dim(), "-D; expected shape ", dims, ", got ", tensor.sym_sizes());
}

void check_same_size(const Arguments& a, const char* name, const at::Tensor& tensor, const char* other_name,
                     const at::Tensor& other, int64_t dim, const char* what) {
  TORCH_SYM_CHECK(tensor.sym_size(dim).sym_eq(other.sym_size(dim)), a.op, ": ", name, " has ", tensor.sym_size(dim),
                  " ", what, " but ", other_name, " has ", other.sym_size(dim), "; expected ", name, ".size(", dim,
                  ") == ", other_name, ".size(", dim, "), got shapes ", tensor.sym_sizes(), " and ", other.sym_sizes());
}

void check_dtypes(const Arguments& a) {
  const at::ScalarType dtype = a.q.scalar_type();
  const bool host = a.q.is_cpu() || a.q.is_meta();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16 || (host && dtype == at::kDouble),
              a.op, ": q has an unsupported dtype; expected: q, k, v must share one of float32/float16/bfloat16",
              host ? "/float64" : "", ", got ", dtype);
  const auto same = [&](const char* name, const at::Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || tensor.scalar_type() == dtype, a.op, ": ", name,
                " differs in dtype; expected: q, k, v must share one of float32/float16/bfloat16, and ", name,
                " that of q (", dtype, "), got ", tensor.scalar_type());
  };
  same("k", a.k);
  same("v", a.v);
  same(a.names.bias, a.bias);
  same("grad", a.grad);
  same("kv_cache", a.kv_cache);
}

void check_device(const Arguments& a, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || tensor.device() == a.q.device(), a.op, ": expected ", name, " on ", a.q.device(),
              ", got ", tensor.device());
}

void check_devices(const Arguments& a) {
  check_device(a, "k", a.k);
  check_device(a, "v", a.v);
  check_device(a, "grad", a.grad);
  check_device(a, "mask", a.mask);
  check_device(a, a.names.bias, a.bias);
  check_device(a, a.names.offsets, a.offsets);
  check_device(a, a.names.offsets_k, a.offsets_k);
  check_device(a, "num_context", a.num_context);
  check_device(a, "num_target", a.num_target);
  check_device(a, "kv_cache", a.kv_cache);
  check_device(a, "seq_offset_t", a.target_offsets);
  check_device(a, "page_offsets", a.page_offsets);
  check_device(a, "page_ids", a.page_ids);
  check_device(a, "last_page_len", a.last_page_len);
}

void check_shapes(const Arguments& a) {
  const bool normal = is_normal(a);
  check_rank(a, "q", a.q, normal ? "[B,S,N,D]" : "[L,N,D]");
  check_rank(a, "k", a.k, normal ? "[B,S,N,D]" : "[L,N,D]");
  check_rank(a, "v", a.v, normal ? "[B,S,N,Dv]" : "[L,N,Dv]");
  const int64_t last = a.q.dim() - 1;
  if (normal) check_same_size(a, "k", a.k, "q", a.q, 0, "batch entries");
  if (!a.varlen) check_same_size(a, "k", a.k, "q", a.q, normal ? 1 : 0, "rows");
  if (normal) check_same_size(a, "v", a.v, "k", a.k, 0, "batch entries");
  check_same_size(a, "v", a.v, "k", a.k, normal ? 1 : 0, "rows");
  check_same_size(a, "k", a.k, "q", a.q, last - 1, "heads");
  check_same_size(a, "v", a.v, "q", a.q, last - 1, "heads");
  check_same_size(a, "k", a.k, "q", a.q, last, "elements per head");
  TORCH_SYM_CHECK(a.q.sym_size(last).sym_ge(1), a.op, ": q has head dimension 0; expected D >= 1, got shape ",
                  a.q.sym_sizes());
  TORCH_SYM_CHECK(a.v.sym_size(last).sym_ge(1), a.op, ": v has head dimension 0; expected Dv >= 1, got shape ",
                  a.v.sym_sizes());
  if (!a.grad.defined()) return;
  check_rank(a, "grad", a.grad, normal ? "[B,S,N,Dv]" : "[L,N,Dv]");
  for (int64_t dim = 0; dim < last; ++dim) check_same_size(a, "grad", a.grad, "q", a.q, dim, "entries");
  check_same_size(a, "grad", a.grad, "v", a.v, last, "elements per head");
}

void check_index(const Arguments& a, const char* name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  TORCH_CHECK(tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong, a.op, ": ", name,
              " has an unsupported dtype; expected int32 or int64, got ", tensor.scalar_type());
  TORCH_CHECK(tensor.dim() == 1, a.op, ": ", name, " must be 1-D, got ", tensor.dim(), "-D; expected 1-D, got shape ",
              tensor.sym_sizes());
}

// The number of batch rows; raises where the arguments disagree about it.
c10::SymInt check_batch(const Arguments& a) {
  check_index(a, a.names.offsets, a.offsets);
  check_index(a, a.names.offsets_k, a.offsets_k);
  check_index(a, "num_context", a.num_context);
  check_index(a, "num_target", a.num_target);
  check_index(a, "seq_offset_t", a.target_offsets);
  check_index(a, "page_offsets", a.page_offsets);
  check_index(a, "page_ids", a.page_ids);
  check_index(a, "last_page_len", a.last_page_len);
  if (is_normal(a)) return a.q.sym_size(0);
  TORCH_CHECK(a.offsets.defined() || a.offset_list.has_value(), a.op, ": ", a.names.offsets,
              " is missing; expected: layout \"jagged\" needs ", a.names.offsets, ", got None");
  const c10::SymInt entries =
      a.offsets.defined() ? a.offsets.sym_size(0) : c10::SymInt(static_cast<int64_t>(a.offset_list->size()));
  TORCH_SYM_CHECK(entries.sym_ge(1), a.op, ": ", a.names.offsets, " is empty; expected B+1 >= 1 entries, got 0");
  const auto check_entries = [&](const char* name, const at::Tensor& tensor, const c10::SymInt& expected) {
    if (!tensor.defined()) return;
    TORCH_SYM_CHECK(tensor.sym_size(0).sym_eq(expected), a.op, ": ", name, " has ", tensor.sym_size(0),
                    " entries; expected ", expected, " for ", entries - 1, " batch rows, got ", tensor.sym_size(0));
  };
  check_entries(a.names.offsets_k, a.offsets_k, entries);
  check_entries("seq_offset_t", a.target_offsets, entries);
  check_entries("page_offsets", a.page_offsets, entries);
  check_entries("num_context", a.num_context, entries - 1);
  check_entries("num_target", a.num_target, entries - 1);
  check_entries("last_page_len", a.last_page_len, entries - 1);
  return entries - 1;
}

void check_square(const Arguments& a, const char* name, const at::Tensor& tensor, const c10::SymInt& batch) {
  if (!tensor.defined()) return;
  const bool normal = is_normal(a);
  const c10::SymInt heads = a.q.sym_size(a.q.dim() - 2);
  const int64_t longest = a.varlen ? a.max_len_k : a.max_len;
  const auto expected = [&] {
    std::ostringstream text;
    text << name << " must be [" << batch << "," << heads << ",";
    if (normal) {
      text << a.q.sym_size(1) << "," << a.q.sym_size(1);
    } else {
      text << "M,M";
    }
    text << "] (or 1 for batch/heads)";
    if (!normal) text << " with M >= " << (a.varlen ? a.names.max_len_k : a.names.max_len) << "=" << longest;
    return text.str();
  };
  TORCH_CHECK(tensor.dim() == 4, a.op, ": ", name, " has ", tensor.dim(), " dimensions; expected: ", expected(),
              ", got ", tensor.sym_sizes());
  const c10::SymInt side = normal ? a.q.sym_size(1) : tensor.sym_size(3);
  TORCH_SYM_CHECK(tensor.sym_size(0).sym_eq(batch).sym_or(tensor.sym_size(0).sym_eq(1)), a.op, ": ", name,
                  " has a wrong batch size; expected: ", expected(), ", got ", tensor.sym_sizes());
  TORCH_SYM_CHECK(tensor.sym_size(1).sym_eq(heads).sym_or(tensor.sym_size(1).sym_eq(1)), a.op, ": ", name,
                  " has a wrong number of heads; expected: ", expected(), ", got ", tensor.sym_sizes());
  TORCH_SYM_CHECK(tensor.sym_size(2).sym_eq(side).sym_and(tensor.sym_size(3).sym_eq(side)), a.op, ": ", name,
                  " has wrong sides; expected: ", expected(), ", got ", tensor.sym_sizes());
  if (!normal) {
    TORCH_SYM_CHECK(side.sym_ge(longest), a.op, ": ", name, " is too small; expected: ", expected(), ", got ",
                    tensor.sym_sizes());
  }
}

void check_mask(const Arguments& a) {
  TORCH_CHECK(a.mask_type >= 0 && a.mask_type <= 3, a.op, ": ", a.names.mask_type,
              " is unknown; expected: ", a.names.mask_type,
              " must be 0 (lower), 1 (upper), 2 (none) or 3 (user mask), got ", a.mask_type);
  if (a.mask_type != static_cast<int64_t>(Mask::User)) return;
  TORCH_CHECK(a.mask.defined(), a.op, ": mask is missing; expected: ", a.names.mask_type, "=3 needs a mask of shape ",
              is_normal(a) ? "[B,N,S,S]" : "[B,N,M,M]", ", got None");
  const at::ScalarType dtype = a.mask.scalar_type();
  TORCH_CHECK(dtype == at::kBool || dtype == at::kByte || dtype == at::kFloat || dtype == at::kHalf ||
                  dtype == at::kBFloat16 || dtype == at::kDouble,
              a.op, ": mask has an unsupported dtype; expected bool, uint8 or a floating dtype, got ", dtype);
}

void check_lengths(const Arguments& a) {
  TORCH_CHECK(a.max_len >= 0 && a.max_len <= kLongestRow, a.op, ": ", a.names.max_len,
              " is out of range; expected 0 <= ", a.names.max_len, " <= ", kLongestRow, ", got ", a.max_len);
  TORCH_CHECK(a.max_len_k >= 0 && a.max_len_k <= kLongestRow, a.op, ": ", a.names.max_len_k,
              " is out of range; expected 0 <= ", a.names.max_len_k, " <= ", kLongestRow, ", got ", a.max_len_k);
  if (is_normal(a)) {
    TORCH_SYM_CHECK(c10::SymInt(a.max_len).sym_eq(0).sym_or(a.q.sym_size(1).sym_eq(a.max_len)), a.op, ": ",
                    a.names.max_len, "=", a.max_len, " must equal q.size(1)=", a.q.sym_size(1),
                    " in normal layout; expected 0 or ", a.q.sym_size(1), ", got ", a.max_len);
    TORCH_SYM_CHECK(a.q.sym_size(1).sym_le(kLongestRow), a.op, ": q has too long rows; expected S <= ", kLongestRow,
                    ", got ", a.q.sym_size(1));
  }
}

void check_counts(const Arguments& a) {
  TORCH_CHECK(a.group >= 0, a.op, ": target_group_size is negative; expected >= 0 (0 means 1), got ", a.group);
  TORCH_CHECK(a.max_attn_len >= 0, a.op, ": max_attn_len is negative; expected >= 0 (0: no window), got ",
              a.max_attn_len);
  TORCH_CHECK(a.min_full_attn_len >= 0, a.op, ": min_full_attn_seq_len is negative; expected >= 0, got ",
              a.min_full_attn_len);
  TORCH_CHECK(a.window_size >= -1, a.op, ": window_size is negative; expected >= 0, or -1 (no window), got ",
              a.window_size);
  const char* offending = a.num_context.defined()      ? "num_context"
                          : a.num_target.defined()     ? "num_target"
                          : a.target_offsets.defined() ? "seq_offset_t"
                          : a.max_attn_len > 0         ? "max_attn_len"
                          : a.window_size >= 0         ? "window_size"
                                                       : nullptr;
  TORCH_CHECK(offending == nullptr || a.mask_type == static_cast<int64_t>(Mask::Lower), a.op, ": ", offending,
              " is given for another mask; expected ", a.names.mask_type, "=0, got ", a.mask_type);
  TORCH_CHECK(
      a.max_attn_len == 0 || a.group <= 1, a.op,
      ": target_group_size does not combine with max_attn_len, in whose window all targets are one token; expected 0 "
      "or 1 with max_attn_len=",
      a.max_attn_len, " (window_size takes groups), got ", a.group);
  TORCH_CHECK(
      a.window_size < 0 || (a.max_attn_len == 0 && a.min_full_attn_len == 0), a.op,
      ": window_size is another window than max_attn_len; expected max_attn_len=0 and min_full_attn_seq_len=0 with "
      "window_size=",
      a.window_size, ", got ", a.max_attn_len, " and ", a.min_full_attn_len);
}

void check_pages(const Arguments& a) {
  const bool any =
      a.kv_cache.defined() || a.page_offsets.defined() || a.page_ids.defined() || a.last_page_len.defined();
  if (!any) return;
  const auto given = [&](const char* name, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.defined(), a.op, ": ", name,
                " is missing; expected kv_cache, page_offsets, page_ids and last_page_len together, got None");
  };
  given("kv_cache", a.kv_cache);
  given("page_offsets", a.page_offsets);
  given("page_ids", a.page_ids);
  given("last_page_len", a.last_page_len);
  TORCH_CHECK(a.kv_cache.dim() == 5, a.op, ": kv_cache must be 5-D [pages,2,page_size,N,D], got ", a.kv_cache.dim(),
              "-D; expected 5-D, got shape ", a.kv_cache.sym_sizes());
  const auto sizes = a.kv_cache.sym_sizes();
  TORCH_SYM_CHECK(sizes[1].sym_eq(2).sym_and(sizes[2].sym_ge(1)), a.op,
                  ": kv_cache has wrong pages; expected [pages,2,page_size >= 1,N,D], got ", sizes);
  TORCH_SYM_CHECK(sizes[3].sym_eq(a.q.sym_size(1)).sym_and(sizes[4].sym_eq(a.q.sym_size(2))), a.op,
                  ": kv_cache has wrong heads; expected N=", a.q.sym_size(1), " and D=", a.q.sym_size(2), ", got ",
                  sizes);
  TORCH_SYM_CHECK(a.v.sym_size(2).sym_eq(a.q.sym_size(2)), a.op,
                  ": v has another head dimension than kv_cache; expected ", a.q.sym_size(2), ", got ",
                  a.v.sym_size(2));
}

}  // namespace

void check(const Arguments& a) {
  TORCH_CHECK(a.layout == "normal" || a.layout == "jagged", a.op,
              ": layout is unknown; expected: layout must be \"normal\" or \"jagged\", got \"", a.layout, "\"");
  check_shapes(a);
  check_dtypes(a);
  check_devices(a);
  check_mask(a);
  TORCH_CHECK(std::isfinite(a.scale), a.op, ": ", a.names.scale, " must be finite, got ", a.scale);
  TORCH_CHECK(std::isfinite(a.alpha), a.op, ": alpha must be finite, got ", a.alpha);
  check_lengths(a);
  check_counts(a);
  const c10::SymInt batch = check_batch(a);
  check_square(a, a.names.bias, a.bias, batch);
  if (a.mask_type == static_cast<int64_t>(Mask::User)) check_square(a, "mask", a.mask, batch);
  check_pages(a);
}

}  // namespace gr_ops::hstu
