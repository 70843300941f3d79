#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

namespace hybrid_torchrec {
namespace {

// A counting sort of keys (M,) in [0, groups). Returns the positions by key, those of a key as they came (M,); where
// each position is among them (M,); and where each key's begin (groups + 1,).
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_positions(const at::Tensor& given, int64_t groups) {
  TORCH_CHECK(given.dim() == 1 && given.scalar_type() == at::kLong && groups >= 0,
              "group_positions: keys must be int64 of one dimension, and groups not negative; got ",
              given.scalar_type(), " of shape ", given.sizes(), " and ", groups);
  const at::Tensor keys = given.contiguous();
  const int64_t* key = keys.const_data_ptr<int64_t>();
  const int64_t count = keys.numel();
  const at::Tensor order = at::empty_like(keys);
  const at::Tensor places = at::empty_like(keys);
  int64_t* to_order = order.mutable_data_ptr<int64_t>();
  int64_t* to_places = places.mutable_data_ptr<int64_t>();
  const at::Tensor offsets = at::empty({groups + 1}, keys.options());
  int64_t* start = offsets.mutable_data_ptr<int64_t>();
  std::fill_n(start, groups + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK(key[i] >= 0 && key[i] < groups, "group_positions: keys[", i, "] is ", key[i], ", of ", groups,
                " groups");
    ++start[key[i]];
  }
  // Ends, from which each key's places are given out backwards: what is left are its begins.
  for (int64_t group = 1; group <= groups; ++group) start[group] += start[group - 1];
  for (int64_t i = count - 1; i >= 0; --i) {
    const int64_t place = --start[key[i]];
    to_order[place] = i;
    to_places[i] = place;
  }
  return {order, places, offsets};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(hybrid_torchrec, m) {
  m.def("group_positions(Tensor keys, int groups) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(hybrid_torchrec, CPU, m) { m.impl("group_positions", &group_positions); }

}  // namespace hybrid_torchrec
