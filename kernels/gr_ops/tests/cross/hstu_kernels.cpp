// The CPU kernels of HSTU attention without PyTorch, against plain loops in double: for a processor that is emulated.
//
//   aarch64-linux-gnu-g++ -std=c++17 -O3 -static -ffp-contract=fast -Ikernels/gr_ops/csrc
//       kernels/gr_ops/tests/cross/hstu_kernels.cpp kernels/gr_ops/csrc/hstu/cpu/baseline.cpp -o hstu_kernels
//   qemu-aarch64-static ./hstu_kernels
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "hstu/cpu/instruction_sets.h"

namespace {

using namespace gr_ops::hstu;
using Values = std::vector<double>;

// Storage of the four element types; rounding is part of it, so the reference starts from what was stored.
struct Array {
  Element element;
  std::vector<char> bytes;

  size_t size_of() const { return element == Element::Double ? 8 : element == Element::Float ? 4 : 2; }
  Array(Element type, size_t count) : element(type), bytes(count * (type == Element::Double ? 8 : 4)) {}
  void* data() { return bytes.data(); }

  double get(size_t i) const {
    if (element == Element::Double) return reinterpret_cast<const double*>(bytes.data())[i];
    if (element == Element::Float) return reinterpret_cast<const float*>(bytes.data())[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(bytes.data())[i];
    if (element == Element::BFloat16) {
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float value;
      std::memcpy(&value, &wide, 4);
      return value;
    }
    const int exponent = (bits >> 10) & 31;
    const double fraction = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  // Truncates to the type: any value of it will do as an input.
  void set(size_t i, double value) {
    if (element == Element::Double) {
      reinterpret_cast<double*>(bytes.data())[i] = value;
    } else if (element == Element::Float) {
      reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(value);
    } else if (element == Element::BFloat16) {
      const auto narrow = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &narrow, 4);
      reinterpret_cast<uint16_t*>(bytes.data())[i] = static_cast<uint16_t>(bits >> 16);
    } else {
      int exponent;
      const double fraction = std::frexp(std::fabs(value), &exponent);
      const int biased = exponent + 14;
      const int mantissa = biased <= 0 ? 0 : (biased << 10) | (static_cast<int>(fraction * 2048) & 1023);
      reinterpret_cast<uint16_t*>(bytes.data())[i] = static_cast<uint16_t>(mantissa | (value < 0 ? 0x8000 : 0));
    }
  }
};

struct Results {
  Values out, dq, dk, dv, dbias;
};

bool sees(const MaskRule& rule, int p, int j) {
  if (rule.kind != MaskRule::Lower) return rule.kind == MaskRule::All || j >= p;
  if (p < rule.context) return j < rule.targets_from;
  return j <= p && (j < rule.targets_from || j == p);
}

Results reference(const Head& h, const Array& q, const Array& k, const Array& v, const Array& grad, const Array& bias) {
  const int m = h.queries, n = h.keys, d = h.dim, dv = h.value_dim;
  Results r{Values(m * dv), Values(m * d), Values(n * d), Values(n * dv), Values(n * n)};
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const int p = i + h.shift;
      if (!sees(h.rule, p, j)) continue;
      double x = bias.get(p * n + j), dp = 0;
      for (int e = 0; e < d; ++e) x += q.get(i * d + e) * k.get(j * d + e);
      const double s = h.alpha * x, sigma = 1 / (1 + std::exp(-s)), weight = s * sigma * h.scale;
      for (int e = 0; e < dv; ++e) {
        dp += grad.get(i * dv + e) * v.get(j * dv + e);
        r.out[i * dv + e] += weight * v.get(j * dv + e);
        r.dv[j * dv + e] += weight * grad.get(i * dv + e);
      }
      const double dx = h.alpha * dp * h.scale * sigma * (1 + s * (1 - sigma));
      r.dbias[p * n + j] = dx;
      for (int e = 0; e < d; ++e) {
        r.dq[i * d + e] += dx * k.get(j * d + e);
        r.dk[j * d + e] += dx * q.get(i * d + e);
      }
    }
  }
  return r;
}

double worst(const Array& actual, const Values& expected) {
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error = std::fmax(error, std::fabs(actual.get(i) - expected[i]) / (1 + std::fabs(expected[i])));
    if (std::isnan(actual.get(i))) return NAN;
  }
  return error;
}

bool check(Element element, MaskRule::Kind kind, int queries, int keys, int dim, int value_dim) {
  static const char* const names[] = {"float", "double", "half", "bfloat16"};
  static const double tolerance[] = {1e-5, 1e-12, 2e-3, 1e-2};
  std::mt19937 random(dim * 131 + keys);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto filled = [&](size_t count) {
    Array array(element, count);
    for (size_t i = 0; i < count; ++i) array.set(i, uniform(random));
    return array;
  };
  Array q = filled(queries * dim), k = filled(keys * dim), v = filled(keys * value_dim);
  Array grad = filled(queries * value_dim), bias = filled(keys * keys);
  Array out(element, q.bytes.size() + queries * value_dim), dq(element, queries * dim), dk(element, keys * dim);
  Array dv(element, keys * value_dim), dbias(element, keys * keys);

  Head h;
  h.q.data = q.data(), h.k.data = k.data(), h.v.data = v.data(), h.grad.data = grad.data();
  h.q.stride = h.k.stride = dim;
  h.v.stride = h.grad.stride = h.out_stride = value_dim;
  h.queries = queries, h.keys = keys, h.shift = keys - queries, h.dim = dim, h.value_dim = value_dim;
  h.rule.kind = kind, h.rule.targets_from = keys;
  h.scale = 1.0 / keys, h.alpha = 0.7;
  h.bias = bias.data(), h.bias_side = keys;
  h.out = out.data(), h.dq = dq.data(), h.dk = dk.data(), h.dv = dv.data(), h.dbias = dbias.data();

  const Kernels kernels = baseline_set().of[static_cast<int>(element)];
  const size_t bytes = kernels.forward_scratch(dim, value_dim) + kernels.backward_scratch(dim, value_dim, keys);
  void* scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(scratch, 0xff, bytes);  // NaN: nothing may be read that was not written
  kernels.forward(h, 0, query_blocks(queries), scratch);
  kernels.backward(h, scratch);
  std::free(scratch);

  const Results expected = reference(h, q, k, v, grad, bias);
  const double errors[] = {worst(out, expected.out), worst(dq, expected.dq), worst(dk, expected.dk),
                           worst(dv, expected.dv), worst(dbias, expected.dbias)};
  bool good = true;
  for (double error : errors) good = good && error <= tolerance[static_cast<int>(element)];
  if (!good) {
    std::printf("%s mask %d: %d queries, %d keys, %d x %d: %g %g %g %g %g\n", names[static_cast<int>(element)], kind,
                queries, keys, dim, value_dim, errors[0], errors[1], errors[2], errors[3], errors[4]);
  }
  return good;
}

// The relative bias against the same numbers as a square, whose gradient is added up here: 20 buckets, one for each
// power of two, but that one begins within a cell.
bool check_relative(Element element, int keys, int context, int targets) {
  static const double tolerance[] = {2e-5, 1e-12, 2e-3, 1e-2};
  constexpr int dim = 16, buckets = 20;
  constexpr int64_t kNever = 0x7F800000;  // bits of infinity
  const Element sum = element == Element::Double ? Element::Double : Element::Float;
  std::mt19937_64 random(keys);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto filled = [&](Element type, size_t count) {
    Array array(type, count);
    for (size_t i = 0; i < count; ++i) array.set(i, uniform(random));
    return array;
  };
  const size_t size = static_cast<size_t>(keys) * dim;
  Array q = filled(element, size), k = filled(element, size), v = filled(element, size), grad = filled(element, size);
  Array out(element, size), dq(element, size), dk(element, size), dv(element, size);
  Array position = filled(sum, 2 * keys + kQueryBlock), time = filled(sum, buckets), bias(Element::Double, keys * keys);
  for (int i = 0; i < keys; ++i) position.set(i, position.get(keys));
  std::vector<int64_t> cells, times{0};
  for (int64_t cell = 0; cell < 512; ++cell) cells.push_back(kNever << 32 | std::min<int64_t>(cell / 8, 19));
  cells[32] = kNever << 32 | 3;
  cells[33] = int64_t{0x41980000} << 32 | 3;  // 18 to 20: bucket 4 begins with 19.0f
  std::vector<float> edges;
  for (int bucket = 0; bucket < buckets; ++bucket) edges.push_back(bucket == 4 ? 19 : std::ldexp(1.0f, bucket));
  for (int i = 1; i < keys; ++i) {
    times.push_back(times.back() + static_cast<int64_t>(random() % (1 << i % 12)) - (i % 7 == 0 ? 9 : 0));
  }

  Head h;
  h.q.data = q.data(), h.k.data = k.data(), h.v.data = v.data(), h.grad.data = grad.data();
  h.q.stride = h.k.stride = h.v.stride = h.grad.stride = h.out_stride = dim;
  h.queries = h.keys = keys, h.dim = h.value_dim = dim;
  h.rule.context = context, h.rule.targets_from = keys - targets;
  h.scale = 1.0 / keys;
  h.out = out.data(), h.dq = dq.data(), h.dk = dk.data(), h.dv = dv.data();
  const int blocks = query_blocks(keys);
  Array sums(sum, relative_sums(blocks, buckets));
  h.relative.position = static_cast<char*>(position.data()) + keys * position.size_of();
  h.relative.time = time.data(), h.relative.times = times.data(), h.relative.cells = cells.data();
  h.relative.edges = edges.data();
  h.relative.buckets = buckets, h.relative.sums = sums.data();

  const Kernels kernels = baseline_set().of[static_cast<int>(element)];
  const size_t bytes = kernels.forward_scratch(dim, dim) + kernels.backward_scratch(dim, dim, keys) +
                       kernels.relative_scratch(keys, buckets);
  void* scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::memset(scratch, 0xff, bytes);
  kernels.forward(h, 0, blocks, scratch);
  kernels.backward(h, scratch);
  std::free(scratch);

  const auto distance = [&](int i, int j) {
    const int d = std::min(i, keys - targets) - std::min(j, keys - targets);
    return d > 0 ? d : 0;
  };
  const auto bucket = [&](int i, int j) {
    const int64_t seconds = std::max<int64_t>(times[i] - times[j], 1);
    int exponent = 0;
    std::frexp(static_cast<double>(seconds), &exponent);
    return seconds >= 16 && seconds < 19 ? 3 : std::min(exponent - 1, 19);
  };
  for (int i = 0; i < keys; ++i) {
    for (int j = 0; j < keys; ++j) bias.set(i * keys + j, position.get(keys + distance(i, j)) + time.get(bucket(i, j)));
  }
  const Results expected = reference(h, q, k, v, grad, bias);
  Values of_position(keys), of_time(buckets);
  Array position_sums(Element::Double, keys), time_sums(Element::Double, buckets);
  for (int i = 0; i < keys; ++i) {
    for (int j = 0; j < keys; ++j) {
      of_position[distance(i, j)] += expected.dbias[i * keys + j];
      of_time[bucket(i, j)] += expected.dbias[i * keys + j];
    }
  }
  for (int block = 0; block < blocks; ++block) {
    const ptrdiff_t start = relative_sums(block, buckets);
    for (int t = 0; t < buckets; ++t) time_sums.set(t, time_sums.get(t) + sums.get(start + t));
    for (int d = 0; d < std::min((block + 1) * kQueryBlock, keys); ++d) {
      position_sums.set(d, position_sums.get(d) + sums.get(start + buckets + d));
    }
  }
  bool good = true;
  for (double error : {worst(out, expected.out), worst(dq, expected.dq), worst(dk, expected.dk), worst(dv, expected.dv),
                       worst(position_sums, of_position), worst(time_sums, of_time)}) {
    if (error <= tolerance[static_cast<int>(element)]) continue;
    good = false;
    std::printf("relative bias, element %d: %d keys, %d contexts, %d targets: %g\n", static_cast<int>(element), keys,
                context, targets, error);
  }
  return good;
}

}  // namespace

int main() {
  int cases = 0, bad = 0;
  for (Element element : {Element::Float, Element::Double, Element::Half, Element::BFloat16}) {
    for (MaskRule::Kind kind : {MaskRule::Lower, MaskRule::Upper, MaskRule::All}) {
      for (int dim : {1, 5, 16, 33, 64}) {
        for (int keys : {1, 13, 96, 150}) {
          ++cases;
          bad += check(element, kind, keys - keys / 3, keys, dim, 70 - dim) ? 0 : 1;
        }
      }
    }
    for (int keys : {13, 96, 150}) {
      for (int context : {0, 5}) {
        for (int targets : {0, 7}) {
          ++cases;
          bad += check_relative(element, keys, context, targets) ? 0 : 1;
        }
      }
    }
  }
  std::printf("%s: %d of %d cases wrong\n", baseline_set().name, bad, cases);
  return bad == 0 ? 0 : 1;
}
