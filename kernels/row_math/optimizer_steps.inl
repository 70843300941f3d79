// The optimizers' steps, a function each. Included once per instruction set, after columns.inl.

static void decay_gradients(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const float decay = step.weight_decay;
  for (int64_t r = 0; r < count; ++r) {
    float* g = const_cast<float*>(rows[r].gradient);
    const float* w = rows[r].weights;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(g + at, load<V>(g + at) + decay * load<V>(w + at));
    });
  }
}

static void update_sgd(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const float rate = step.learning_rate;
  for (int64_t r = 0; r < count; ++r) {
    float* w = rows[r].weights;
    const float* g = rows[r].gradient;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(w + at, load<V>(w + at) - rate * load<V>(g + at));
    });
  }
}

static void update_adagrad(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const float rate = step.learning_rate;
  const float eps = step.eps;
  for (int64_t r = 0; r < count; ++r) {
    float* w = rows[r].weights;
    float* m = rows[r].momentum1;
    const float* gradient = rows[r].gradient;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(gradient + at);
      const V sum = load<V>(m + at) + g * g;
      store(m + at, sum);
      store(w + at, load<V>(w + at) - rate * (g / (square_root(sum) + eps)));  // one rounding less than (rate * g) /
    });
  }
}

// Moves rows at the rates that their states give; weight_decay_mode, as in fbgemm: 1 L2 (in the gradient), 2 and 5
// decoupled, everything else none.
static inline void move_row(float* w, const float* g, float rate, int64_t width, const Step& step) {
  float keep = 1.0f;
  if (step.weight_decay_mode == 1) keep = 1.0f - rate * step.weight_decay;
  if (step.weight_decay_mode == 2 || step.weight_decay_mode == 5) keep = 1.0f - step.learning_rate * step.weight_decay;
  for_columns(width, [=](auto as, int64_t at) {
    using V = typename decltype(as)::type;
    store(w + at, keep * load<V>(w + at) - rate * load<V>(g + at));
  });
  if (step.max_norm > 0.0f) {
    const float norm = __builtin_sqrtf(dot(w, w, width));
    if (norm > step.max_norm) {
      const float shrink = step.max_norm / norm;
      for_columns(width,
                  [=](auto as, int64_t at) { store(w + at, load<typename decltype(as)::type>(w + at) * shrink); });
    }
  }
}

// sums[r] = (v0 + v1) + (v2 + v3) of the lanes of four[r].
static inline V4 sums_of_lanes(const V4 (&four)[4]) {
  typedef int Lane __attribute__((vector_size(16)));
  constexpr Lane low{0, 4, 1, 5};
  constexpr Lane high{2, 6, 3, 7};
  constexpr Lane first{0, 1, 4, 5};
  constexpr Lane second{2, 3, 6, 7};
  const V4 a = __builtin_shuffle(four[0], four[1], low);
  const V4 b = __builtin_shuffle(four[2], four[3], low);
  const V4 c = __builtin_shuffle(four[0], four[1], high);
  const V4 d = __builtin_shuffle(four[2], four[3], high);
  return (__builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, second)) +
         (__builtin_shuffle(c, d, first) + __builtin_shuffle(c, d, second));
}

// The sums of squares of four rows' gradients, with what the L2 decay adds to them. Where a row stands among the four
// must not change its bits, so all of them pass through the same instructions: the compiler, which decides where a
// product and a sum become one, would choose for each copy of a loop's body.
template <bool decayed>
static inline V4 squares_of_four(const RowState* const (&rows)[4], int64_t width, float decay) {
  V4 four[4];
  int64_t column = 0;
#pragma GCC unroll 1
  for (int r = 0; r < 4; ++r) {
    const float* g = rows[r]->gradient;
    const float* w = rows[r]->weights;
    const auto square = [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      V value = load<V>(g + at);
      if constexpr (decayed) value += decay * load<V>(w + at);
      return value * value;
    };
    V16 wide{};
    for (column = 0; column + 16 <= width; column += 16) wide += square(As<V16>(), column);
    V8 eight = sum_of_halves<V8>(wide);
    if (column + 8 <= width) {
      eight += square(As<V8>(), column);
      column += 8;
    }
    four[r] = sum_of_halves<V4>(eight);
    if (column + 4 <= width) {
      four[r] += square(As<V4>(), column);
      column += 4;
    }
  }
  V4 sums = sums_of_lanes(four);
  for (; column < width; ++column) {
    V4 value{};
    V4 weight{};
    for (int r = 0; r < 4; ++r) value[r] = rows[r]->gradient[column];
    if constexpr (decayed) {
      for (int r = 0; r < 4; ++r) weight[r] = rows[r]->weights[column];
      value += decay * weight;
    }
    sums += value * value;
  }
  return sums;
}

// Three passes over some rows at a time: a row's sum, root and step wait for each other, those of other rows do not.
static void update_rowwise_adagrad(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  constexpr int64_t kTogether = 32;
  const Step s = step;
  const float decay = s.weight_decay_mode == 1 ? s.weight_decay : 0.0f;
  const float share = 1.0f / static_cast<float>(width);
  float rates[kTogether];
  for (int64_t first = 0; first < count; first += kTogether) {
    const RowState* now = rows + first;
    const int64_t rest = count - first < kTogether ? count - first : kTogether;
    for (int64_t r = 0; r < rest; r += 4) {
      const int64_t last = rest - 1;  // stands for those that are missing
      const RowState* const four[4] = {now + r, now + (r + 1 < last ? r + 1 : last),
                                       now + (r + 2 < last ? r + 2 : last), now + (r + 3 < last ? r + 3 : last)};
      const V4 squares =
          decay == 0.0f ? squares_of_four<false>(four, width, 0.0f) : squares_of_four<true>(four, width, decay);
      V4 state{four[0]->momentum1[0], four[1]->momentum1[0], four[2]->momentum1[0], four[3]->momentum1[0]};
      state += squares * share;
      for (int i = 0; i < 4; ++i) four[i]->momentum1[0] = state[i];
      store(rates + r, state);
    }
    for_columns(rest, [&](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(rates + at, s.learning_rate / (square_root(load<V>(rates + at)) + s.eps));
    });
    for (int64_t r = 0; r < rest; ++r) move_row(now[r].weights, now[r].gradient, rates[r], width, s);
  }
}

// beta * mean + rest * value, where rest = 1 - beta. 0.999 in fp32 is 1.3e-8 off, and a mean of many steps is off by
// that times their number; rest is off by 5e-11. So a long mean multiplies by rest alone, as torch.lerp does; a short
// one forgets its rounding, and an infinite gradient stays infinite in it.
template <typename V>
static inline V moving_mean(const V& mean, const V& value, float beta, float rest) {
  return rest <= 0.5f ? mean + rest * (value - mean) : beta * mean + rest * value;
}

static void update_adam(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const Step s = step;
  for (int64_t r = 0; r < count; ++r) {
    const RowState row = rows[r];
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(row.gradient + at);
      const V w = load<V>(row.weights + at);
      const V first = moving_mean<V>(load<V>(row.momentum1 + at), g, s.beta1, s.rest1);
      const V second = moving_mean<V>(load<V>(row.momentum2 + at), g * g, s.beta2, s.rest2);
      store(row.momentum1 + at, first);
      store(row.momentum2 + at, second);
      const V direction = first * s.correction1 / (square_root(second * s.correction2) + s.eps);
      store(row.weights + at, w - s.learning_rate * (direction + s.weight_decay * w));
    });
  }
}

// Y. You et al., Large Batch Optimization for Deep Learning (LAMB), 2020, algorithm 2, where a layer is a row. A row or
// a step of norm 0 is taken at the plain rate.
static void update_lamb(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const Step s = step;
  for (int64_t r = 0; r < count; ++r) {
    const RowState row = rows[r];
    // The direction takes the gradient's place, which nobody reads again.
    float* direction = const_cast<float*>(row.gradient);
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(direction + at);
      const V first = moving_mean<V>(load<V>(row.momentum1 + at), g, s.beta1, s.rest1);
      const V second = moving_mean<V>(load<V>(row.momentum2 + at), g * g, s.beta2, s.rest2);
      store(row.momentum1 + at, first);
      store(row.momentum2 + at, second);
      const V adam = first * s.correction1 / (square_root(second * s.correction2) + s.eps);
      store(direction + at, adam + s.weight_decay * load<V>(row.weights + at));
    });
    const float weight_norm = __builtin_sqrtf(dot(row.weights, row.weights, width));
    const float step_norm = __builtin_sqrtf(dot(direction, direction, width));
    const float trust = weight_norm > 0.0f && step_norm > 0.0f ? weight_norm / step_norm : 1.0f;
    const float rate = s.learning_rate * trust;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(row.weights + at, load<V>(row.weights + at) - rate * load<V>(direction + at));
    });
  }
}

// X. Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2.
static void update_lion(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const Step s = step;
  for (int64_t r = 0; r < count; ++r) {
    const RowState row = rows[r];
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(row.gradient + at);
      const V m = load<V>(row.momentum1 + at);
      const V w = load<V>(row.weights + at);
      store(row.momentum1 + at, moving_mean<V>(m, g, s.beta2, s.rest2));
      const V direction = sign_of(moving_mean<V>(m, g, s.beta1, s.rest1));
      store(row.weights + at, w - s.learning_rate * (direction + s.weight_decay * w));
    });
  }
}

constexpr Updates updates() {
  Updates all{};
  all.sgd = {&update_sgd};
  all.adagrad = {&update_adagrad};
  all.rowwise_adagrad = {&update_rowwise_adagrad};
  all.adam = {&update_adam};
  all.lamb = {&update_lamb, true};
  all.lion = {&update_lion};
  return all;
}
