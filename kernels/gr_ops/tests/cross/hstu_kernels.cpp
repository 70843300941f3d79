// The CPU kernels of HSTU attention without PyTorch, against plain loops in double: for a processor that is emulated.
//
//   aarch64-linux-gnu-g++ -std=c++17 -O3 -static -ffp-contract=fast -Ikernels/gr_ops/csrc
//       kernels/gr_ops/tests/cross/hstu_kernels.cpp kernels/gr_ops/csrc/hstu/cpu/baseline.cpp -o hstu_kernels
//   qemu-aarch64-static ./hstu_kernels
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

Results reference(const Head& h, const Array& q, const Array& k, const Array& v, const Array& grad, const Array& bias) {
  const int m = h.queries, n = h.keys, d = h.dim, dv = h.value_dim;
  Results r{Values(m * dv), Values(m * d), Values(n * d), Values(n * dv), Values(n * n)};
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      const int p = i + h.shift;
      const bool seen = h.rule.kind == MaskRule::All || (h.rule.kind == MaskRule::Upper ? j >= p : j <= p);
      if (!seen) continue;
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
  }
  std::printf("%s: %d of %d cases wrong\n", baseline_set().name, bad, cases);
  return bad == 0 ? 0 : 1;
}
