"""Training steps of long sequences on one GPU or NPU: python -m benchmarks.training_device [--device cuda]

"article": the source article's benchmark (KuaiRand-1K, batch 32, sequences to 8000, 3 layers, 4 heads of 128).
"deep": the model for which NVIDIA's recsys-examples report 31.4 % MFU (8 layers, hidden 1024, 4 heads of 256,
sequences to 4096, batch 32). Ranking, 8 tasks, data made up like KuaiRand-1K's: lengths about 11,700, ids by Zipf's
law, a table of 131,072 items. Attention is checked first. Loading, forward, backward and AdamW are timed: the wall
clock over `--steps` steps in a row. Then the same with the device waited for after each phase, and one step under
PyTorch's profiler.

A case that does not fit the device's memory is tried again with recomputation, then with half the batch, and the
result says so. Without a relative bias, as in those reports, unless the case's name ends in "+bias".
Writes benchmarks/results/training-DEVICE.{json,md}.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gr_model import config as configs
from gr_model.config import Config, ModelConfig, presets
from gr_model.data.interactions import History, Interactions
from gr_model.data.kuairand import SIGNALS
from gr_model.model import flops, jagged
from gr_model.model.attention.attention import Attention
from gr_model.model.attention.base import for_batch
from gr_model.model.sequences import Sequences
from gr_model.runtime.device import open_device
from gr_model.training.trainer import Trainer

RESULTS = Path(__file__).resolve().parent / "results"
ITEMS, USERS, MEAN_LENGTH = 131_072, 256, 11_700
DEEP = [
    "model.dim=1024",
    "model.blocks=8",
    "model.heads=4",
    "model.qk_dim=256",
    "model.value_dim=256",
    "model.max_items=2048",
]
CASES = {
    "article": [],
    "article+bias": ["model.relative_bias=true"],
    "article fp32": ["train.precision=fp32"],
    "article tf32": ["train.precision=fp32", "train.tf32=true"],
    "deep": DEEP,
    "deep+bias": [*DEEP, "model.relative_bias=true"],
}
# What others report for a step in ms, or for MFU (docs/targets.md).
REPORTED = {
    "article": "A800 132 ms, 910B 176 ms; asked: 60 ms",
    "article+bias": "A800 132 ms, 910B 176 ms",
    "article fp32": "910B 336 ms",
    "article tf32": "A800 306 ms (24.6 TFLOP a step, and 19.5 TFLOP/s are its float32's peak: in TF32); asked: 306 ms",
    "deep": "recsys-examples 31.4 % MFU on 16 H100; asked: 40 %",
    "deep+bias": "",
}
WARM_UP = 24  # steps; rows of one length and of several are among them, whose compiled kernels are not the same
KINDS = (  # of kernels, by what their names hold
    (
        "layer around the attention",
        r"^(silu|silu_slope|residual|product|norm|norm_backward|gate|gate_backward|keep|round_and_sum)$",
    ),
    ("tokens and their norm", r"^(embed|embed_backward|scored|scored_backward)$"),
    ("products of matrices", r"gemm|cutlass|nvjet|matmul|sm90_xmma|s16816"),
    (
        "attention",
        r"^forward|^backward|^list_tiles|^keys_and_values|^queries|^diagonals|^off_diagonals|^squares|triton.*sigmoid.*where",
    ),
    ("optimizer", r"multi_tensor|adam"),
    ("copies and casts", r"copy|Memcpy|Memset|fill|CatArray|direct_copy"),
    ("layer norm", r"layer_norm|LayerNorm|GammaBeta|RowwiseMoments"),
    ("lookups", r"index|gather|scatter|embedding|sort|Radix"),
    ("elementwise", r"elementwise|reduce|triton"),
)


def data() -> Interactions:
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(np.log(MEAN_LENGTH), 0.6, USERS).astype(int).clip(500, 60_000)
    shown = 1 / (1 + rng.permutation(ITEMS)) ** 1.0
    edges, rates = np.cumsum(shown) / shown.sum(), np.linspace(0.02, 0.5, len(SIGNALS))
    histories = []
    for length in lengths:
        items = np.searchsorted(edges, rng.random(length)).clip(max=ITEMS - 1)
        bits = rng.random((length, len(SIGNALS))) < rates
        actions = (bits << np.arange(len(SIGNALS))).sum(1)
        times = 10**9 + rng.exponential(240, length).cumsum().astype(np.int64)
        histories.append(History(items, actions, times, np.zeros(0, np.int64)))
    masks = np.arange(1 << len(SIGNALS))
    tasks = {name: (masks >> t & 1).astype(bool) for t, name in enumerate(SIGNALS)}
    return Interactions("like KuaiRand-1K", tuple(histories), ITEMS, tuple(map(float, masks)), {}, tasks)


def config_of(case: str, attention: str, workers: int, settings: list[str]) -> Config:
    common = [
        "train.precision=bf16",
        f"model.attention={attention}",
        "model.relative_bias=false",
        f"data.workers={workers}",
        "train.steps=100000",
    ]
    return configs.override(presets.get("kuairand-1k-benchmark"), common + CASES[case] + settings)


def attempts(config: Config) -> list[Config]:
    """The whole, with recomputation, and then ever smaller batches with it."""
    recomputed = configs.override(config, ["model.recompute=true"])
    halves = [config.train.batch >> n for n in range(1, config.train.batch.bit_length())]
    return [config, recomputed, *(configs.override(recomputed, [f"train.batch={batch}"]) for batch in halves)]


def check(device: torch.device, attention: str, width: int, biased: bool) -> list[float]:
    """Relative errors of a layer's output and gradients in bfloat16 against plain attention in float64 on the host."""
    lengths = (1100, 700, 513, 512, 127, 1)
    results = []
    for kind, where in (("plain", torch.device("cpu")), (attention, device)):
        config = ModelConfig(
            dim=64, heads=2, qk_dim=width, value_dim=width, max_items=1200, attention=kind, relative_bias=biased
        )
        dtype, wide = (torch.float64, torch.float64) if kind == "plain" else (torch.bfloat16, torch.float32)
        torch.manual_seed(0)
        layer = Attention(config)
        for table in layer.parameters():
            torch.nn.init.normal_(table, std=0.5)
        layer = layer.to(where, wide)
        qkv = [torch.randn(sum(lengths), 2, width) * width**-0.25 for _ in range(3)]
        grad = torch.randn(sum(lengths), 2 * width)
        times = torch.cat([10**9 + (2 ** (torch.rand(n) * 25)).long().cumsum(0) for n in lengths])
        qkv = [x.to(torch.bfloat16).to(where, dtype).requires_grad_() for x in qkv]
        sequences = Sequences(jagged.offsets_of(torch.tensor(lengths, device=where)), times.to(where), lengths)
        out = layer(*qkv, for_batch(sequences, config))
        grads = torch.autograd.grad(out, [*qkv, *layer.parameters()], grad.to(torch.bfloat16).to(where, dtype))
        results.append([x.detach().double().cpu() for x in (out, *grads)])
    errors = [float((b - a).norm() / a.norm()) for a, b in zip(*results)]
    if not max(errors) < 1e-2:  # NaN does not pass either
        raise SystemExit(f"attention={attention} is wrong at head dim {width}, bias {biased}: errors {errors}")
    return [float(f"{error:.1e}") for error in errors]


def checks(cases: list[str], device: torch.device, attention: str) -> dict[str, str]:
    """Of what is timed."""
    models = [config_of(case, attention, 0, []) for case in cases if "fp32" not in case]
    kinds = dict.fromkeys((config.model.qk_dim, config.model.relative_bias) for config in models)
    found = {}
    for width, biased in kinds:
        begin = time.perf_counter()
        errors = check(device, attention, width, biased)
        name = "output, dq, dk, dv" + (", dposition, dtime" if biased else "")
        found[f"errors of {name} at head dim {width}"] = str(errors)
        print(f"head dim {width}, bias {biased}: {errors}, {time.perf_counter() - begin:.0f} s", flush=True)
    return found


def measure(case: str, config: Config, users: Interactions, device: torch.device, steps: int) -> dict[str, Any]:
    for attempt in attempts(config):
        try:
            return _measure(case, attempt, users, device, steps)
        except torch.OutOfMemoryError as error:
            told = f"batch {attempt.train.batch}, recompute {attempt.model.recompute}"
            print(f"{case}: out of memory with {told}: {str(error).splitlines()[0][:160]}", flush=True)
        gc.collect()
        _of(device).empty_cache()
    raise SystemExit(f"{case}: one sequence does not fit the memory of {device}")


def _measure(case: str, config: Config, users: Interactions, device: torch.device, steps: int) -> dict[str, Any]:
    _of(device).reset_peak_memory_stats()
    begin = time.perf_counter()
    trainer = Trainer(config, users, device)
    works = iter(trainer.loader().works(0, 10_000))
    for _ in range(WARM_UP if device.type == "cuda" else 3):
        trainer.train_step(next(works))
    _of(device).synchronize()
    print(f"{case}: first steps {time.perf_counter() - begin:.1f} s", flush=True)

    begin = time.perf_counter()
    results = [trainer.train_step(next(works)) for _ in range(steps)]
    _of(device).synchronize()
    seconds = (time.perf_counter() - begin) / steps

    by_phase = _phases(trainer, works, max(2, steps // 3))
    wide = config.train.precision == "fp32"
    peak, source = flops.peak(device, torch.float32 if wide else torch.bfloat16, tf32=config.train.tf32)
    work, tokens = (sum(getattr(result, name) for result in results) / steps for name in ("flops", "tokens"))
    return {
        "case": case,
        "batch": config.train.batch,
        "recompute": config.model.recompute,
        "attention": config.model.attention,
        "tokens": round(tokens),
        "ms": round(seconds * 1e3, 1),
        "samples_per_s": round(config.train.batch / seconds, 1),
        "tokens_per_s": round(tokens / seconds),
        "tflops": round(work / seconds / 1e12, 1),
        "mfu": round(work / seconds / peak, 4),
        "peak": source,
        "memory_gib": round(_of(device).max_memory_allocated() / 2**30, 1),
        "loss": results[-1].loss,
        "phases_ms": by_phase,
        "kernels_ms": kernels(trainer, works, device),
    }


def _phases(trainer: Trainer, works: Any, steps: int) -> dict[str, float]:
    trainer.synchronise_phases = True
    sums: dict[str, float] = {}
    for _ in range(steps):
        begin = time.perf_counter()
        work = next(works)
        spent = {"data": time.perf_counter() - begin, **trainer.train_step(work).seconds}
        for name, value in spent.items():
            sums[name] = sums.get(name, 0.0) + value / steps
    trainer.synchronise_phases = False
    return {name: round(value * 1e3, 1) for name, value in sums.items()}


def kernels(trainer: Trainer, works: Any, device: torch.device) -> dict[str, float]:
    """Milliseconds of a step by kind of kernel; on an NPU nothing."""
    if device.type != "cuda":
        return {}
    work = next(works)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        trainer.train_step(work)
        torch.cuda.synchronize()
    sums: dict[str, float] = {}
    rest: dict[str, float] = {}
    for event in profile.key_averages():
        kind = next((name for name, pattern in KINDS if re.search(pattern, event.key, re.I)), "other")
        sums[kind] = sums.get(kind, 0.0) + event.self_device_time_total / 1e3
        rest[event.key[:110]] = event.self_device_time_total / 1e3
    for name, ms in itertools.islice(sorted(rest.items(), key=lambda item: -item[1]), 14):
        print(f"    {ms:9.2f} ms  {name}")
    return {name: round(ms, 1) for name, ms in sorted(sums.items(), key=lambda item: -item[1]) if ms >= 0.05}


def _of(device: torch.device) -> Any:
    return getattr(torch, device.type)


def report(rows: list[dict[str, Any]], about: dict[str, str]) -> str:
    lines = [
        f"# Training steps on {about['device']}",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items()) + ". `python -m benchmarks.training_device`: "
        "its head says what is measured.",
        "",
        "| case | batch | recompute | attention | tokens | ms a step | samples/s | TFLOP/s | MFU | GiB | of | others |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['batch']} | {'yes' if r['recompute'] else 'no'} | {r['attention']} | "
            f"{r['tokens']:,} | {r['ms']} | {r['samples_per_s']} | {r['tflops']} | "
            f"{100 * r['mfu']:.1f} % | {r['memory_gib']} | {r.get('commit', '')} | {REPORTED[r['case']]} |"
        )
    for title, key in (("by phase, each waited for", "phases_ms"), ("by kind of kernel, one step", "kernels_ms")):
        lines += ["", f"Milliseconds {title}:", ""]
        lines += [f"- {r['case']}: " + ", ".join(f"{name} {ms}" for name, ms in r[key].items()) for r in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["article", "deep", "article+bias"])
    parser.add_argument("--attention", default="fused", help="model.attention")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings", metavar="KEY=VALUE", help="of every case")
    parser.add_argument("--commit", default="", help="what is measured")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = open_device(options.device)
    name = _of(device).get_device_name(device)
    about = {"device": name, "torch": torch.__version__, "items": f"{ITEMS:,}"}
    jagged.load_operators(device)
    if options.settings:
        about["settings"] = " ".join(options.settings)
    about |= checks(options.cases, device, options.attention)
    print(about, flush=True)
    users, rows = data(), []
    for case in options.cases:
        config = config_of(case, options.attention, options.workers, options.settings)
        rows.append({**measure(case, config, users, device, options.steps), "commit": options.commit})
        print(json.dumps(rows[-1]), flush=True)
        gc.collect()
        _of(device).empty_cache()
        text = report(rows, about)
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / f"training-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"
        file.with_suffix(".md").write_text(text)
        file.with_suffix(".json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
