"""The fused optimizer step: gradients sorted by row, those of a row added up, one step for each row.

A program adds up the runs of equal keys in its chunk of the sorted gradients. Runs within the chunk take their step at
once; what a chunk has of a run that goes on over its ends is left in `heads` and `tails`, and a second launch joins it.
Sums have the same order in every run of the program. Formulas: hybrid_torchrec/kinds.py.
"""

import triton
import triton.language as tl

from hybrid_torchrec.backends.cuda.layout import FIRST_MOMENT, SECOND_MOMENT, VERSION, moments, records, rows
from hybrid_torchrec.optimizers import KINDS

KERNEL_KINDS = ("sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "lamb", "lion")  # that have a step here
SGD, ADAGRAD, ROWWISE_ADAGRAD, ADAM, ADAMW, LAMB, LION = (tl.constexpr(KINDS[name].number) for name in KERNEL_KINDS)
NO_DECAY, DECAY_IN_GRADIENT, DECAY_IN_STEP = (tl.constexpr(i) for i in range(3))


@triton.jit
def _join(total, begins, value, anew):
    return tl.where(anew != 0, value, total + value), begins | anew


@triton.jit
def _moving_mean(mean, value, beta, rest):
    """beta * mean + rest * value; a long mean multiplies by rest alone (row_math's optimizer_steps.inl)."""
    return tl.where(rest <= 0.5, mean + rest * (value - mean), beta * mean + rest * value)


@triton.jit
def _step(
    key,
    active,
    g,
    column,
    parts,
    bits,
    version,
    lr,
    eps,
    beta1,
    beta2,
    rest1,
    rest2,
    correction1,
    correction2,
    decay,
    KIND: tl.constexpr,
    DTYPE: tl.constexpr,
    VERSIONED: tl.constexpr,
    DECAYS: tl.constexpr,
    D: tl.constexpr,
):
    """Rows of keys (R,) that are active, with their gradients g (R, COLUMNS); all columns of a row for the kinds that
    look at whole rows."""
    slot = key & ((tl.full((1,), 1, tl.int64) << bits) - 1)
    active = active & (slot != 0)
    table = tl.where(active, key >> bits, 0)  # the key of a lane behind the last one is of no table
    if VERSIONED:
        tl.store(records(parts, table, slot, VERSION), tl.zeros_like(slot) + version, mask=active)
    inside = active[:, None] & (column < D)[None, :]
    place = slot[:, None] * D + column[None, :]
    weights = rows(parts, table, DTYPE)[:, None] + place
    w = tl.load(weights, mask=inside, other=0).to(tl.float32)
    if DECAYS == DECAY_IN_GRADIENT:
        g = g + decay * w
    g = tl.where(inside, g, 0.0)
    if KIND == SGD:
        w = w - lr * g
    elif KIND == ADAGRAD:
        first = moments(parts, table, FIRST_MOMENT)[:, None] + place
        m = tl.load(first, mask=inside, other=0) + g * g
        tl.store(first, m, mask=inside)
        w = w - tl.div_rn(lr * g, tl.sqrt_rn(m) + eps)
    elif KIND == ROWWISE_ADAGRAD:
        first = moments(parts, table, FIRST_MOMENT) + slot
        m = tl.load(first, mask=active, other=0) + tl.sum(g * g, 1) / D
        tl.store(first, m, mask=active)
        w = w - tl.div_rn(tl.zeros_like(m) + lr, tl.sqrt_rn(m) + eps)[:, None] * g
    elif (KIND == ADAM or KIND == ADAMW) or KIND == LAMB:  # noqa: SIM109 (what the compiler takes)
        first = moments(parts, table, FIRST_MOMENT)[:, None] + place
        second = moments(parts, table, SECOND_MOMENT)[:, None] + place
        m1 = _moving_mean(tl.load(first, mask=inside, other=0), g, beta1, rest1)
        m2 = _moving_mean(tl.load(second, mask=inside, other=0), g * g, beta2, rest2)
        tl.store(first, m1, mask=inside)
        tl.store(second, m2, mask=inside)
        u = tl.where(inside, tl.div_rn(m1 * correction1, tl.sqrt_rn(m2 * correction2) + eps), 0.0)
        if DECAYS == DECAY_IN_STEP:
            u = u + decay * w
        if KIND == LAMB:
            norm = tl.sqrt_rn(tl.sum(w * w, 1))
            length = tl.sqrt_rn(tl.sum(u * u, 1))
            plain = (norm == 0) | (length == 0)
            trust = tl.where(plain, 1.0, tl.div_rn(norm, tl.where(plain, 1.0, length)))
            w = w - (lr * trust)[:, None] * u
        else:
            w = w - lr * u
    elif KIND == LION:
        first = moments(parts, table, FIRST_MOMENT)[:, None] + place
        m = tl.load(first, mask=inside, other=0)
        tl.store(first, _moving_mean(m, g, beta2, rest2), mask=inside)
        c = _moving_mean(m, g, beta1, rest1)
        u = tl.where(c > 0, 1.0, 0.0) - tl.where(c < 0, 1.0, 0.0)
        if DECAYS == DECAY_IN_STEP:
            u = u + decay * w
        w = w - lr * u
    else:
        tl.static_assert(False, "this kind of optimizer has no step here")
    tl.store(weights, w.to(DTYPE), mask=inside)


@triton.jit(do_not_specialize=["count", "bits", "version"])
def update_runs(
    keys,
    sources,
    gradient_rows,
    factors,
    gradients,
    heads,
    tails,
    parts,
    count,
    bits,
    version,
    lr,
    eps,
    beta1,
    beta2,
    rest1,
    rest2,
    correction1,
    correction2,
    decay,
    KIND: tl.constexpr,
    DTYPE: tl.constexpr,
    POOLED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    VERSIONED: tl.constexpr,
    DECAYS: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """keys (L,) sorted: table << bits | slot; sources (L,): where each gradient comes from."""
    chunk = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    lane = tl.arange(0, CHUNK)
    at = chunk * CHUNK + lane
    inside = at < count
    key = tl.load(keys + at, mask=inside, other=-1).to(tl.int64)
    before = tl.load(keys + at - 1, mask=inside & (at > 0), other=-1).to(tl.int64)
    after = tl.load(keys + at + 1, mask=at + 1 < count, other=-1).to(tl.int64)
    source = tl.load(sources + at, mask=inside, other=0)
    row = source
    if POOLED:
        row = tl.load(gradient_rows + source, mask=inside, other=0)
    wanted = inside[:, None] & (column < D)[None, :]
    g = tl.load(gradients + row[:, None] * D + column[None, :], mask=wanted, other=0).to(tl.float32)
    if WEIGHTED:
        g *= tl.load(factors + source, mask=inside, other=0)[:, None]
    anew = ((key != before) | (lane == 0)).to(tl.int32)[:, None] + tl.zeros((CHUNK, COLUMNS), tl.int32)
    total, _ = tl.associative_scan((g, anew), 0, _join)
    first_key = tl.load(keys + chunk * CHUNK).to(tl.int64)
    goes_on = tl.load(keys + chunk * CHUNK - 1, mask=chunk > 0, other=-1).to(tl.int64) == first_key
    early = goes_on & (key == first_key)
    ends = inside & (key != after)
    out = (tl.zeros((CHUNK,), tl.int64) + chunk)[:, None] * D + column[None, :]
    head = inside & early & (ends | (lane == CHUNK - 1))
    tl.store(heads + out, total, mask=head[:, None] & (column < D)[None, :])
    tail = inside & (lane == CHUNK - 1) & (key == after) & (early == 0)
    tl.store(tails + out, total, mask=tail[:, None] & (column < D)[None, :])
    _step(
        key,
        ends & (early == 0),
        total,
        column,
        parts,
        bits,
        version,
        lr,
        eps,
        beta1,
        beta2,
        rest1,
        rest2,
        correction1,
        correction2,
        decay,
        KIND,
        DTYPE,
        VERSIONED,
        DECAYS,
        D,
    )


@triton.jit(do_not_specialize=["count", "bits", "version"])
def update_long_runs(
    keys,
    heads,
    tails,
    parts,
    count,
    bits,
    version,
    lr,
    eps,
    beta1,
    beta2,
    rest1,
    rest2,
    correction1,
    correction2,
    decay,
    KIND: tl.constexpr,
    DTYPE: tl.constexpr,
    VERSIONED: tl.constexpr,
    DECAYS: tl.constexpr,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
    SPAN: tl.constexpr,
):
    """The steps of the runs that begin in a chunk and end in a later one; SPAN chunks are a program's."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    chunks = tl.program_id(0).to(tl.int64) * SPAN + tl.arange(0, SPAN)
    ends = chunks * CHUNK + CHUNK
    inside = ends < count
    last_keys = tl.load(keys + ends - 1, mask=inside, other=-1).to(tl.int64)
    after = tl.load(keys + ends, mask=inside, other=-1).to(tl.int64)
    before = tl.load(keys + chunks * CHUNK - 1, mask=inside & (chunks > 0), other=-1).to(tl.int64)
    left = inside & (last_keys == after) & (before != last_keys)
    while tl.max(left.to(tl.int32), 0) > 0:
        chunk = tl.min(tl.where(left, chunks, 2**62), 0)
        left = left & (chunks != chunk)
        key = tl.load(keys + chunk * CHUNK + CHUNK - 1).to(tl.int64)
        total = tl.load(tails + chunk * D + column, mask=column < D, other=0)
        following = chunk + 1
        more = tl.full((), 1, tl.int32)
        while more > 0:
            at = following + tl.arange(0, SPAN)
            same = tl.load(keys + at * CHUNK, mask=at * CHUNK < count, other=-1).to(tl.int64) == key
            wanted = same[:, None] & (column < D)[None, :]
            total += tl.sum(tl.load(heads + at[:, None] * D + column[None, :], mask=wanted, other=0), 0)
            following += SPAN
            more = tl.min(same.to(tl.int32), 0)
        one = tl.zeros((1,), tl.int64) + key
        _step(
            one,
            one >= 0,
            total[None, :],
            column,
            parts,
            bits,
            version,
            lr,
            eps,
            beta1,
            beta2,
            rest1,
            rest2,
            correction1,
            correction2,
            decay,
            KIND,
            DTYPE,
            VERSIONED,
            DECAYS,
            D,
        )
