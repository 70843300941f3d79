// How fused attention's arguments lie in memory: the layouts BSH, SBH, BSND, BNSD, and TND, which packs sequences of
// different lengths one after the other. B sequences, S positions, N heads, D width of a head, H = N * D, T positions
// of all sequences. Values may be narrower than keys where D is a dimension of its own.
#pragma once
#include <string>
#include <vector>

#include "arguments.h"

namespace twin::opapi {

class AttentionShape {
 public:
  // Throws Refusal where shapes, layout and number of heads do not go together. The ends are those of TND.
  AttentionShape(const std::vector<int64_t>& query, const std::vector<int64_t>& key, const std::vector<int64_t>& value,
                 int64_t headNum, std::string layout, std::vector<int64_t> queryEnds = {},
                 std::vector<int64_t> keyEnds = {});

  int64_t batch;
  int64_t heads;
  int64_t scores = 0;  // of all sequences and heads

  struct Range {
    int64_t first;
    int64_t length;
  };
  struct Sequence {
    Range queries;
    Range keys;
    int64_t firstScore;  // place of its scores among all
  };
  Sequence Part(int64_t index) const;

  bool Packed() const { return layout_ == "TND"; }

  // Of the result: the query's shape in the width of values.
  std::vector<int64_t> OutShape() const { return outShape_; }

  // A view of one sequence, [heads, positions, width].
  at::Tensor Heads(const at::Tensor& tensor, const Range& range, int64_t index) const;
  // The same of softmaxMax or softmaxSum, [heads, queries, their width].
  at::Tensor Statistics(const at::Tensor& tensor, const Range& queries, int64_t index) const;
  std::vector<int64_t> StatisticsShape(int64_t width) const;

  std::vector<std::vector<int64_t>> MaskShapes() const;
  at::Tensor MaskPart(const at::Tensor& attenMask, int64_t index) const;
  void CheckPse(const HeldInput& pse) const;
  // Of TND the position encodings of the sequences lie one after the other, [heads, queries, keys] of each.
  at::Tensor PsePart(const at::Tensor& pse, int64_t index) const;

 private:
  std::string layout_;
  int64_t queries_, keys_, width_;  // of TND all positions
  std::vector<int64_t> outShape_;
  std::vector<int64_t> queryEnds_, keyEnds_;
  std::vector<int64_t> firstScores_;

  at::Tensor PartOf(const at::Tensor& tensor, int64_t index) const;
};

}  // namespace twin::opapi
