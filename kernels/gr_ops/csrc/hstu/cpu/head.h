#pragma once

#include <cstddef>
#include <cstdint>

// One head of one row, as plain pointers: what the kernels take. They are compiled once per instruction set and
// include neither PyTorch nor the standard library's templates, whose inline functions the linker could otherwise take
// from a file that the processor cannot run.
namespace gr_ops::hstu {

enum class Element : int { Float, Double, Half, BFloat16, Byte };

// Tokens of q, k, v or grad. With pages: the first `cached` tokens lie in kv_cache.
struct Tokens {
  const void* data = nullptr;
  ptrdiff_t stride = 0;  // elements between tokens
  const void* cache = nullptr;
  const int64_t* page_ids = nullptr;
  ptrdiff_t page_stride = 0, slot_stride = 0;  // elements
  int page_size = 1, cached = 0;
};

constexpr int kUnlimited = 0x7fffffff;

// Which keys a query sees; docs/operators.md defines the masks.
struct MaskRule {
  enum Kind : int { Lower, Upper, All } kind = Lower;
  int context = 0;
  int targets_from = 0;  // position of the first target; the number of keys where there are none
  int group = 1;
  int window = 0;
  int min_full = 0;
  int reach = kUnlimited;  // keys further back in the row are not seen
};

constexpr int kNearBuckets = 64;

// position[distance in tokens] + time[bucket of the distance in time], for the lower mask and as many queries as keys.
// Both tables are of the type of the sums; what the cells hold is in hstu_relative/arguments.h, and every bucket of
// theirs is in the table. Edges and cells tell the same.
struct RelativeBias {
  const void* position = nullptr;  // entry 0; before it a copy for each token of the row, behind all kQueryBlock zeros
  const void* time = nullptr;
  const int64_t* times = nullptr;  // of the row's tokens, seconds
  const int64_t* cells = nullptr;
  const float* edges = nullptr;  // of each bucket: the least seconds, at least 1, that are of it or of a later one
  int buckets = 0;
  // Of seconds from 1 up to `near`: with x = fma(their bits, slope, start), rounded towards 0, or 0 if that is less,
  // the bucket is x or x + 1, and one of the first kNearBuckets, for which both tables have entries. 0: not known so.
  float slope = 0, start = 0;
  int32_t near = 0;
  void* sums = nullptr;  // of its gradient: what each block of queries leaves (relative_sums), or null
};

struct Head {
  Tokens q, k, v, grad;
  int queries = 0, keys = 0;
  int shift = 0;  // position of query 0 among the keys
  int dim = 0, value_dim = 0;
  MaskRule rule;
  double scale = 1, alpha = 1;
  // [queries + shift, keys] inside a square of `side`; null where absent
  const void* bias = nullptr;
  const void* weight = nullptr;  // the user's mask
  Element weight_element = Element::Float;
  ptrdiff_t bias_side = 0, weight_side = 0;
  // Results, tokens as far apart as those of the input; dv and out as v and grad
  void* out = nullptr;
  ptrdiff_t out_stride = 0;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void* dbias = nullptr;       // shaped as bias
  RelativeBias relative;       // position is null: there is none
  const Head* next = nullptr;  // the head that this thread is likely to take next, or null
};

// Blocks of queries and tiles of keys; every instruction set has the same, so that work is divided in the same way.
constexpr int kQueryBlock = 64;
constexpr int kKeyTile = 96;

inline int query_blocks(int queries) { return (queries + kQueryBlock - 1) / kQueryBlock; }
inline int key_tiles(int keys) { return (keys + kKeyTile - 1) / kKeyTile; }

// Where the sums of this block of queries lie, in elements, and with the number of blocks the size of all: for each
// bucket one, then for each distance that its last query can have. They are the same whoever calculates the block.
inline ptrdiff_t relative_sums(int block, int buckets) {
  const ptrdiff_t distances = static_cast<ptrdiff_t>(block) * (block + 1) / 2 * kQueryBlock;
  return static_cast<ptrdiff_t>(block) * buckets + distances;
}

// The kernels of one element type and instruction set. `scratch` has the size that the function of the same name
// with _scratch asks for, aligned to 64 bytes.
struct Kernels {
  // Output of query blocks [first, last).
  void (*forward)(const Head&, int first, int last, void* scratch);
  // All gradients of the head, dbias too if it is set.
  void (*backward)(const Head&, void* scratch);
  // The same in two independent parts: dk, dv of key tiles [first, last); dq, dbias of query blocks [first, last).
  void (*backward_keys)(const Head&, int first, int last, void* scratch);
  void (*backward_queries)(const Head&, int first, int last, void* scratch);
  // dbias of one block of positions x one tile of keys, summed over heads that share it.
  void (*bias_gradient)(const Head* heads, size_t count, int position_block, int key_tile, void* scratch);
  size_t (*forward_scratch)(int dim, int value_dim);
  size_t (*backward_scratch)(int dim, int value_dim, int keys);  // keys: 0 for the parts
  // What the gradient of a relative bias takes beyond that, in rows of so many tokens.
  size_t (*relative_scratch)(int keys, int buckets);
};

struct InstructionSet {
  const char* name;
  Kernels of[4];  // by Element: Float, Double, Half, BFloat16
};

// The best set that this processor has; GR_OPS_ISA=baseline|avx2|avx512|avx512_bf16|amx picks a lesser one.
const InstructionSet& instruction_set();

}  // namespace gr_ops::hstu
