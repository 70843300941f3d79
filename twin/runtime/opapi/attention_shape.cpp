#include "attention_shape.h"

#include <algorithm>

namespace twin::opapi {
namespace {

[[noreturn]] void Refuse(const std::string& reason) { throw Refusal(INVALID_ARGUMENT, reason); }

// Where batch, positions and heads are among the dimensions; -1: there is none of its own.
struct Places {
  std::string_view layout;
  int batch, positions, heads;
  size_t rank;
};

constexpr Places LAYOUTS[] = {
    {"BSH", 0, 1, -1, 3}, {"SBH", 1, 0, -1, 3}, {"BSND", 0, 1, 2, 4}, {"BNSD", 0, 2, 1, 4}, {"TND", -1, 0, 1, 3}};

const Places& PlacesOf(const std::string& layout) {
  for (const auto& places : LAYOUTS) {
    if (places.layout == layout) {
      return places;
    }
  }
  Refuse("inputLayout is " + layout + "; BSH, SBH, BSND, BNSD and TND are supported");
}

void CheckEnds(const std::vector<int64_t>& ends, int64_t total, const char* name) {
  const bool rising = std::is_sorted(ends.begin(), ends.end());
  if (ends.empty() || ends.front() < 0 || !rising || ends.back() != total) {
    Refuse(std::string(name) + " is " + ShapeText(ends) +
           "; it holds the ends of the sequences, the last of which is " + std::to_string(total));
  }
}

int64_t First(const std::vector<int64_t>& ends, int64_t index) { return index == 0 ? 0 : ends[index - 1]; }

}  // namespace

AttentionShape::AttentionShape(const std::vector<int64_t>& query, const std::vector<int64_t>& key,
                               const std::vector<int64_t>& value, int64_t headNum, std::string layout,
                               std::vector<int64_t> queryEnds, std::vector<int64_t> keyEnds)
    : heads(headNum), layout_(std::move(layout)), queryEnds_(std::move(queryEnds)), keyEnds_(std::move(keyEnds)) {
  const auto& places = PlacesOf(layout_);
  const std::string shapes =
      "query of shape " + ShapeText(query) + ", key " + ShapeText(key) + ", value " + ShapeText(value);
  for (const auto* shape : {&query, &key, &value}) {
    if (shape->size() != places.rank) {
      Refuse(shapes + ": " + layout_ + " has " + std::to_string(places.rank) + " dimensions");
    }
  }
  if (heads <= 0 || (places.heads < 0 ? query.back() % heads != 0 : query[places.heads] != heads)) {
    Refuse("headNum is " + std::to_string(heads) + " for a " + shapes + " in the layout " + layout_);
  }
  width_ = places.heads < 0 ? query.back() / heads : query.back();
  const bool fits = width_ > 0 && key.back() % width_ == 0 && (places.heads < 0 || key.back() == width_);
  const int64_t keyHeads = !fits ? 0 : places.heads < 0 ? key.back() / width_ : key[places.heads];
  if (keyHeads <= 0 || heads % keyHeads != 0) {
    Refuse(shapes + ": the " + std::to_string(heads) + " heads of queries are no multiple of those of keys, or their " +
           "widths differ");
  }
  auto keyInTheWidthOfValue = key;
  keyInTheWidthOfValue.back() = value.back();
  if (keyInTheWidthOfValue != value || value.back() > key.back() || (value != key && places.heads < 0)) {
    Refuse(shapes + ": key and value differ" + (places.heads < 0 ? "" : " by more than a smaller width of value"));
  }
  outShape_ = query;
  if (places.heads >= 0) {
    outShape_.back() = value.back();
  }
  queries_ = query[places.positions];
  keys_ = key[places.positions];
  if (Packed()) {
    CheckEnds(queryEnds_, queries_, "actualSeqQLen");
    CheckEnds(keyEnds_, keys_, "actualSeqKvLen");
    if (queryEnds_.size() != keyEnds_.size()) {
      Refuse("actualSeqQLen and actualSeqKvLen have " + std::to_string(queryEnds_.size()) + " and " +
             std::to_string(keyEnds_.size()) + " entries");
    }
    batch = static_cast<int64_t>(queryEnds_.size());
  } else {
    if (!queryEnds_.empty() || !keyEnds_.empty()) {
      Refuse("actualSeqQLen and actualSeqKvLen go with the layout TND, not with " + layout_);
    }
    batch = query[places.batch];
    if (key[places.batch] != batch) {
      Refuse(shapes + ": different batches in the layout " + layout_);
    }
  }
  for (int64_t index = 0; index < batch; ++index) {
    firstScores_.push_back(scores);
    const auto part = Part(index);
    scores += heads * part.queries.length * part.keys.length;
  }
}

AttentionShape::Sequence AttentionShape::Part(int64_t index) const {
  if (!Packed()) {
    return {{0, queries_}, {0, keys_}, firstScores_.at(index)};
  }
  const int64_t query = First(queryEnds_, index), key = First(keyEnds_, index);
  return {{query, queryEnds_[index] - query}, {key, keyEnds_[index] - key}, firstScores_.at(index)};
}

at::Tensor AttentionShape::Heads(const at::Tensor& tensor, const Range& range, int64_t index) const {
  const auto& places = PlacesOf(layout_);
  if (Packed()) {
    return tensor.narrow(0, range.first, range.length).transpose(0, 1);
  }
  const auto own = tensor.select(places.batch, index);
  if (places.heads < 0) {
    return own.unflatten(1, {own.size(1) / width_, width_}).transpose(0, 1);
  }
  return layout_ == "BSND" ? own.transpose(0, 1) : own;
}

at::Tensor AttentionShape::Statistics(const at::Tensor& tensor, const Range& queries, int64_t index) const {
  return Packed() ? tensor.narrow(0, queries.first, queries.length).transpose(0, 1) : tensor.select(0, index);
}

std::vector<int64_t> AttentionShape::StatisticsShape(int64_t width) const {
  return Packed() ? std::vector<int64_t>{queries_, heads, width} : std::vector<int64_t>{batch, heads, queries_, width};
}

std::vector<std::vector<int64_t>> AttentionShape::MaskShapes() const {
  int64_t queries = queries_, keys = keys_;
  if (Packed()) {
    queries = keys = 0;
    for (int64_t index = 0; index < batch; ++index) {
      queries = std::max(queries, Part(index).queries.length);
      keys = std::max(keys, Part(index).keys.length);
    }
  }
  return {{batch, heads, queries, keys}, {batch, 1, queries, keys}, {1, 1, queries, keys}, {queries, keys}};
}

at::Tensor AttentionShape::PartOf(const at::Tensor& tensor, int64_t index) const {
  return tensor.select(0, tensor.size(0) == 1 ? 0 : index);
}

at::Tensor AttentionShape::MaskPart(const at::Tensor& attenMask, int64_t index) const {
  const auto part = Part(index);
  const auto own = attenMask.dim() == 2 ? attenMask.unsqueeze(0) : PartOf(attenMask, index);
  return own.narrow(1, 0, part.queries.length).narrow(2, 0, part.keys.length);
}

void AttentionShape::CheckPse(const HeldInput& pse) const {
  const auto& shape = pse.Shape();
  if (Packed()) {
    if (c10::multiply_integers(shape) != scores) {
      Refuse("pse has shape " + ShapeText(shape) + "; for the layout TND the twin takes one element for each of the " +
             std::to_string(scores) + " scores");
    }
    return;
  }
  const bool known = shape.size() == 4 && (shape[0] == batch || shape[0] == 1) && shape[1] == heads &&
                     (shape[2] == queries_ || (shape[2] == 1 && shape[0] == batch)) && shape[3] == keys_;
  if (!known) {
    Refuse("pse has shape " + ShapeText(shape) + "; the twin takes " + ShapeText({batch, heads, queries_, keys_}) +
           ", " + ShapeText({batch, heads, 1, keys_}) + " and " + ShapeText({1, heads, queries_, keys_}));
  }
}

at::Tensor AttentionShape::PsePart(const at::Tensor& pse, int64_t index) const {
  if (!Packed()) {
    return PartOf(pse, index);
  }
  const auto part = Part(index);
  const std::vector<int64_t> shape = {heads, part.queries.length, part.keys.length};
  return pse.reshape({-1}).narrow(0, part.firstScore, c10::multiply_integers(shape)).view(shape);
}

}  // namespace twin::opapi
