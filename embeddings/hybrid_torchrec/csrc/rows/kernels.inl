// Included once per instruction set, after gr_ops' row_kernels.inl.

static void update_decay(const RowState* rows, int64_t count, int64_t width, const Step& step) {
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
      const V first = s.beta1 * load<V>(row.momentum1 + at) + s.rest1 * g;
      const V second = s.beta2 * load<V>(row.momentum2 + at) + s.rest2 * g * g;
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

extern const Kernels set;
constexpr Kernels set = {&kernels, &update_lamb, &update_decay};
