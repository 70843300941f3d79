#pragma once

#include "hstu/cpu/head.h"

// Which keys one query sees: at most two runs of them, whatever the mask.
namespace gr_ops::hstu {
namespace {

inline int smaller(int a, int b) { return a < b ? a : b; }
inline int larger(int a, int b) { return a > b ? a : b; }

// A query at a position sees the keys [low[0], high[0]) and [low[1], high[1]).
struct KeyRanges {
  int low[2] = {0, 0};
  int high[2] = {0, 0};
};

inline KeyRanges visible_keys(const MaskRule& rule, int keys, int position) {
  KeyRanges s;
  if (rule.kind == MaskRule::All) {
    s.high[0] = keys;
    return s;
  }
  if (rule.kind == MaskRule::Upper) {
    s.low[0] = position;
    s.high[0] = keys;
    return s;
  }
  const int target = rule.targets_from;
  if (position < rule.context) {
    s.high[0] = target;
    return s;
  }
  // max_attn_len counts distances between tokens of the history; the context is one token, and so are the targets.
  const int folded = rule.context > 0 ? rule.context - 1 : 0;
  const int history = target - folded;
  int low = 0;
  if (rule.window > 0) {
    const int distance_from = smaller(position - folded, history);
    const bool full = rule.min_full > 0 && distance_from >= history - rule.min_full;
    const int first = full ? 0 : larger(0, distance_from - rule.window);
    low = first == 0 ? 0 : first + folded;
  }
  const int reached = larger(0, position - rule.reach);
  s.low[0] = larger(low, reached);
  if (position < target) {
    s.high[0] = position + 1;
  } else {
    s.high[0] = larger(s.low[0], target);
    s.low[1] = larger(target + (position - target) / rule.group * rule.group, reached);
    s.high[1] = position + 1;
  }
  return s;
}

}  // namespace
}  // namespace gr_ops::hstu
