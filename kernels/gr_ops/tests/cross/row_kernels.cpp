// Arithmetic on rows of embedding tables without PyTorch, against plain loops in double: for each instruction set of
// this processor, and for a processor that is emulated.
//
//   aarch64-linux-gnu-g++ -std=c++17 -O3 -static -Ikernels kernels/gr_ops/tests/cross/row_kernels.cpp
//       kernels/row_math/row_kernels*.cpp -o row_kernels
//   qemu-aarch64-static ./row_kernels
//
// Prints how many numbers were compared; each that is wrong is said, and the status is then 1.
#include "row_math/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace row_math;

constexpr double kUnit = 1.0 / (1 << 24);  // of a rounding in fp32
long compared = 0;
long wrong = 0;

void expect(const std::string& what, double got, double wanted, double error) {
  ++compared;
  const bool same = std::isnan(wanted) ? std::isnan(got) : got == wanted || std::fabs(got - wanted) <= error;
  if (!same && ++wrong <= 20) std::printf("%s: %.9g, not %.9g within %.3g\n", what.c_str(), got, wanted, error);
}

double value_of(float value) { return value; }

double value_of(Bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

double value_of(Half value) {
  const int exponent = value.bits >> 10 & 31;
  const double fraction = value.bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// The nearest number with `bits` bits behind the first one, from 2^lowest on; ties go to even.
double nearest(double value, int bits, int lowest, double overflow) {
  if (value == 0 || std::isnan(value) || std::isinf(value)) return value;
  if (std::fabs(value) >= overflow) return std::copysign(INFINITY, value);
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), lowest) - bits);
  return std::nearbyint(value / step) * step;
}
double nearest(double value, Half) { return nearest(value, 10, -14, 65520); }
double nearest(double value, Bfloat16) { return nearest(value, 7, -126, std::ldexp(511, 119)); }

template <typename Row>
void test_conversions(const char* name, const RowFunctions<Row>& of, std::mt19937& draw) {
  std::vector<Row> all(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) all[bits].bits = static_cast<uint16_t>(bits);
  std::vector<float> wide(all.size());
  for (const int64_t width : {1, 3, 4, 7, 8, 12, 15, 16, 29, 65536}) {
    of.widen(all.data() + 65536 - width, wide.data(), width);
    for (int64_t i = 0; i < width; ++i) {
      expect(std::string(name) + " widened", wide[i], value_of(all[65536 - width + i]), 0);
    }
  }
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65519.99f, 65520.0f, 6e-8f, 2.98e-8f, 3.4e38f};
  std::uniform_int_distribution<uint32_t> every;
  for (int i = 0; i < 50000; ++i) {
    const uint32_t bits = every(draw);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
    values.push_back(std::ldexp(static_cast<float>(bits >> 16), static_cast<int>(bits % 48) - 40));  // and ties
  }
  std::vector<Row> narrow(values.size());
  of.narrow(values.data(), narrow.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    expect(std::string(name) + " of " + std::to_string(values[i]), value_of(narrow[i]), nearest(values[i], Row()), 0);
  }
}

void set(float& row, float value) { row = value; }
void set(Half& row, float value) {  // exact: value is a small multiple of 1/64
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    row.bits = static_cast<uint16_t>(bits);
    if (value_of(row) == value) return;
  }
}
void set(Bfloat16& row, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  row.bits = static_cast<uint16_t>(bits >> 16);
}

template <typename Row, typename Index>
void test_pool(const char* name, const RowFunctions<Row>& of, std::mt19937& draw) {
  std::vector<Row> some(64);
  for (int i = 0; i < 64; ++i) set(some[i], static_cast<float>(i - 31) / 64);
  for (const int64_t width : {1, 3, 4, 8, 12, 16, 20, 31, 32, 48, 64, 96, 100, 128, 144, 200, 256, 320}) {
    const int64_t stride = width + static_cast<int64_t>(draw() % 3);
    const int64_t out_stride = width + static_cast<int64_t>(draw() % 3);
    const int64_t table = 60;
    std::vector<Row> rows(table * stride);
    for (Row& row : rows) row = some[draw() % 64];
    std::vector<int64_t> offsets = {0};
    for (const int length : {0, 1, 3, 40, 0, 70, 2, 1, 1, 55, 0}) offsets.push_back(offsets.back() + length);
    const auto bags = static_cast<int64_t>(offsets.size()) - 1;
    std::vector<Index> indices(offsets.back());
    for (Index& index : indices) index = static_cast<Index>(draw() % table);
    std::vector<float> weights(offsets.back());
    for (float& weight : weights) weight = static_cast<float>(draw() % 1000) / 300 - 1.5f;
    for (int kind = 0; kind < 4; ++kind) {
      const bool weighted = kind % 2 == 1;
      const bool mean = kind / 2 == 1;
      std::vector<float> out(bags * out_stride, 77.0f);
      of.pool(static_cast<const Index*>(nullptr))(rows.data(), indices.data(), offsets.data(), bags, stride, width,
                                                  weighted ? weights.data() : nullptr, mean, out.data(), out_stride);
      for (int64_t bag = 0; bag < bags; ++bag) {
        const double share = mean ? 1.0 / std::max<int64_t>(1, offsets[bag + 1] - offsets[bag]) : 1.0;
        for (int64_t column = 0; column < out_stride; ++column) {
          double sum = 0;
          double all = 0;
          for (int64_t k = offsets[bag]; column < width && k < offsets[bag + 1]; ++k) {
            const double term = (weighted ? weights[k] : 1.0) * value_of(rows[indices[k] * stride + column]);
            sum += term;
            all += std::fabs(term);
          }
          const double error = (offsets[bag + 1] - offsets[bag] + 2) * kUnit * all * share;
          const bool inside = column < width || bag == bags - 1;
          if (!inside) continue;
          expect(std::string(name) + " pooled, width " + std::to_string(width) + ", column " + std::to_string(column),
                 out[bag * out_stride + column], column < width ? sum * share : 77.0, error);
        }
      }
    }
  }
}

struct Rows {
  int64_t count;
  int64_t width;
  std::vector<double> weights, first, second, gradient;
};

double norm(const std::vector<double>& values, int64_t start, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += values[start + i] * values[start + i];
  return std::sqrt(sum);
}

// One step, by the papers; see optimizer_steps.inl.
void take(const std::string& kind, Rows& rows, const Step& s) {
  const int64_t width = rows.width;
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t start = r * width;
    double* w = rows.weights.data() + start;
    double* m = rows.first.data() + start;
    double* v = rows.second.data() + start;
    const double* g = rows.gradient.data() + start;
    std::vector<double> direction(width);
    if (kind == "rowwise_adagrad") {
      const bool coupled = s.weight_decay_mode == 1;
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) {
        const double value = g[i] + (coupled ? s.weight_decay * w[i] : 0.0);
        squares += value * value;
      }
      m[0] += squares / static_cast<double>(width);
      const double rate = s.learning_rate / (std::sqrt(m[0]) + s.eps);
      for (int64_t i = 0; i < width; ++i) {
        const double decay = coupled                    ? rate * s.weight_decay
                             : s.weight_decay_mode == 2 ? s.learning_rate * s.weight_decay
                                                        : 0.0;
        w[i] = (1 - decay) * w[i] - rate * g[i];
      }
      const double length = norm(rows.weights, start, width);
      if (s.max_norm > 0 && length > s.max_norm) {
        for (int64_t i = 0; i < width; ++i) w[i] *= s.max_norm / length;
      }
      continue;
    }
    for (int64_t i = 0; i < width; ++i) {
      if (kind == "sgd") {
        w[i] -= s.learning_rate * g[i];
      } else if (kind == "adagrad") {
        m[i] += g[i] * g[i];
        w[i] -= s.learning_rate * g[i] / (std::sqrt(m[i]) + s.eps);
      } else if (kind == "lion") {
        const double moved = s.beta1 * m[i] + s.rest1 * g[i];
        m[i] = s.beta2 * m[i] + s.rest2 * g[i];
        w[i] -= s.learning_rate * ((moved > 0) - (moved < 0) + s.weight_decay * w[i]);
      } else {  // adam, lamb
        m[i] = s.beta1 * m[i] + s.rest1 * g[i];
        v[i] = s.beta2 * v[i] + s.rest2 * g[i] * g[i];
        direction[i] = m[i] * s.correction1 / (std::sqrt(v[i] * s.correction2) + s.eps) + s.weight_decay * w[i];
      }
    }
    if (kind == "adam" || kind == "lamb") {
      const double length = norm(direction, 0, width);
      const double own = norm(rows.weights, start, width);
      const double trust = kind == "lamb" && own > 0 && length > 0 ? own / length : 1.0;
      for (int64_t i = 0; i < width; ++i) w[i] -= s.learning_rate * trust * direction[i];
    }
  }
}

void test_steps(const RowKernels& kernels, std::mt19937& draw) {
  const std::vector<std::pair<std::string, UpdateOf>> kinds = {
      {"sgd", &Updates::sgd},   {"adagrad", &Updates::adagrad}, {"rowwise_adagrad", &Updates::rowwise_adagrad},
      {"adam", &Updates::adam}, {"lamb", &Updates::lamb},       {"lion", &Updates::lion}};
  std::normal_distribution<float> normal;
  for (const auto& [kind, member] : kinds) {
    for (const int64_t width : {1, 4, 7, 16, 29, 64, 120}) {
      for (int mode = 0; mode < 3; ++mode) {
        Step s{0.01f, 1e-6f,  0.9f, 0.999f, 0.1f, 0.001f, mode == 0 ? 0.0f : 0.02f, mode, mode == 2 ? 3.0f : 0.0f,
               10.0f, 1000.0f};
        const int64_t count = 39;
        std::vector<float> w(count * width), m(count * width), v(count * width), g(count * width);
        for (auto* each : {&w, &g}) {
          for (float& value : *each) value = normal(draw);
        }
        for (float& value : m) value = std::fabs(normal(draw));
        for (float& value : v) value = std::fabs(normal(draw));
        Rows rows{count, width, {w.begin(), w.end()}, {m.begin(), m.end()}, {v.begin(), v.end()}, {g.begin(), g.end()}};
        std::vector<RowState> states(count);
        for (int64_t r = 0; r < count; ++r) states[r] = {&w[r * width], &m[r * width], &v[r * width], &g[r * width]};
        (kernels.updates.*member).run(states.data(), count, width, s);
        take(kind, rows, s);
        for (int64_t i = 0; i < count * width; ++i) {
          const std::string where = kind + ", width " + std::to_string(width) + ", mode " + std::to_string(mode);
          expect(where + ", weight", w[i], rows.weights[i], 8 * kUnit * (1 + std::fabs(rows.weights[i])));
          expect(where + ", state", m[i], rows.first[i], 8 * kUnit * (1 + std::fabs(rows.first[i])));
          expect(where + ", second", v[i], rows.second[i], 8 * kUnit * (1 + std::fabs(rows.second[i])));
        }
      }
    }
  }
}

void test_checks(const RowKernels& kernels, std::mt19937& draw) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<int64_t> values(count);
    for (int64_t& value : values) value = static_cast<int64_t>(draw() % 100);
    expect("valid", kernels.valid(values.data(), count, 100), 1, 0);
    std::sort(values.begin(), values.end());
    expect("ascending", kernels.ascending(values.data(), count), 1, 0);
    if (count < 2) continue;
    const auto place = static_cast<int64_t>(draw() % (count - 1));
    std::vector<int64_t> other = values;
    other[place] = other[place + 1] + 1;
    expect("not ascending", kernels.ascending(other.data(), count), 0, 0);
    for (const int64_t bad : {int64_t{-1}, int64_t{100}, int64_t{1} << 40}) {
      other = values;
      other[place] = bad;
      expect("not valid", kernels.valid(other.data(), count, 100), 0, 0);
    }
  }
}

}  // namespace

int main() {
  const RowKernels& kernels = row_kernels();
  std::mt19937 draw(0);
  test_conversions("fp16", kernels.f16, draw);
  test_conversions("bf16", kernels.bf16, draw);
  test_pool<float, int64_t>("fp32", kernels.f32, draw);
  test_pool<float, int32_t>("fp32", kernels.f32, draw);
  test_pool<Half, int64_t>("fp16", kernels.f16, draw);
  test_pool<Bfloat16, int32_t>("bf16", kernels.bf16, draw);
  test_steps(kernels, draw);
  test_checks(kernels, draw);
  std::printf("%ld numbers compared, %ld wrong\n", compared, wrong);
  return wrong == 0 ? 0 : 1;
}
