// Which pairs of a query and a key fused attention leaves out, by the documented sparse modes.
#pragma once
#include "arguments.h"

namespace twin::opapi {

enum SparseMode : int64_t {
  DEFAULT_MASK = 0,       // attenMask, and the band of preTokens and nextTokens from the left upper corner
  ALL_MASK = 1,           // attenMask
  LEFT_UP_CAUSAL = 2,     // the compressed modes: attenMask is a fixed matrix
  RIGHT_DOWN_CAUSAL = 3,  //
  BAND = 4,               // preTokens and nextTokens from the right lower corner
  PREFIX = 5,             // RIGHT_DOWN_CAUSAL, and the first keys as many as the prefix says
  PREFIX_COMPRESSED = 6,
  // Of packed sequences that were cut from longer ones, compressed:
  RIGHT_DOWN_CAUSAL_BAND = 7,  // BAND of the last sequence, RIGHT_DOWN_CAUSAL of the others
  BAND_LEFT_UP_CAUSAL = 8,     // BAND of the first sequence, LEFT_UP_CAUSAL of the others
};

// One sequence of queries against one of keys.
struct MaskRequest {
  int64_t sparseMode;
  int64_t preTokens;
  int64_t nextTokens;
  int64_t prefix;  // of this sequence; of PREFIX and PREFIX_COMPRESSED only
};

// Phase one: is the mode one of the layout's, is the mask there, and of the shape that the mode documents? `full` are
// the shapes of an uncompressed one.
void CheckMaskShape(int64_t sparseMode, bool packed, const HeldInput& attenMask,
                    const std::vector<std::vector<int64_t>>& full);

// The mode of one sequence of `count`.
int64_t ModeOf(int64_t sparseMode, int64_t index, int64_t count);

// Of a compressed mode: throws unless the matrix is the documented one, which the device would take parts of.
void CheckCompressedMask(int64_t sparseMode, const at::Tensor& attenMask);

// True where a score is left out, [1 or heads, queries, keys]; undefined where none is. `own` is the sequence's part of
// an uncompressed mask.
at::Tensor MaskOf(const MaskRequest& request, int64_t queries, int64_t keys, const at::Tensor& own);

bool IsCompressed(int64_t sparseMode);

}  // namespace twin::opapi
