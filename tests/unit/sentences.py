"""Sentences of pages with figures of committed results in them, each with what the result says.

    python tests/unit/sentences.py

writes the figures of the present results into the pages; test_figures.py compares them. {a} in a sentence stands for a
figure. White space counts as any other, since pages wrap their lines.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"
INDEX, OPERATORS, TRAINING = "benchmarks/README.md", "kernels/gr_ops/README.md", "docs/training.md"
H100 = "nvidia-h100-80gb-hbm3"
Values = dict[str, str]


class Sentence(NamedTuple):
    page: str
    text: str
    values: Callable[[Path], Values]


def result(root: Path, name: str) -> Any:
    return json.loads((root / RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def span(numbers: list[float], digits: int = 2) -> tuple[str, str]:
    return f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"


def verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def attention(root: Path) -> Values:
    beside = [row for row in result(root, f"hstu-attention-{H100}")["rows"] if row["of_cudnn"]]
    ratios = [row["of_cudnn"][1] for row in beside]
    low, high = span(ratios)
    return {"low": low, "high": high, "met": str(sum(ratio >= 1.1 for ratio in ratios)), "rows": str(len(ratios))}


def relative(root: Path) -> Values:
    rows = result(root, f"hstu-relative-{H100}")["rows"]
    of = {way: [x for row in rows if row["direction"] == way for x in row["ratio"].values()] for way in _WAYS}
    return dict(zip("abcd", [*span(of["forward"]), *span(of["backward"])], strict=True))


_WAYS = ("forward", "backward")


def layer(root: Path) -> Values:
    rows = [row["ms"] for row in result(root, f"hstu-layer-{H100}")["rows"] if "fp32" not in row["shape"]]
    eager, compiled = ([ms[peer] / ms["ours"] for ms in rows] for peer in ("eager", "compiled"))
    return dict(zip("abcd", [*span(eager), *span(compiled)], strict=True))


def paged(root: Path) -> Values:
    return dict(zip("ab", span([row["gathered_over_paged"][1] for row in result(root, f"hstu-paged-{H100}")["rows"]])))


def over_nccl(root: Path, processes: int, name: str = "training-nccl") -> dict[tuple[str, str], tuple[float, float]]:
    """(table, dense part) -> tokens/s to one GPU's in a row, and with each step waited for; as many users a GPU."""
    rows = [row for row in result(root, name)["rows"] if row["of"] == "each"]
    one = {row["table"]: row for row in rows if row["processes"] == 1}
    return {
        (row["table"], row["parallel"]): (
            row["in_a_row"]["tokens_per_s"] / one[row["table"]]["in_a_row"]["tokens_per_s"],
            row["tokens_per_s"] / one[row["table"]]["tokens_per_s"],
        )
        for row in rows
        if row["processes"] == processes
    }


def two_gpus(root: Path, name: str = "training-nccl") -> Values:
    found = over_nccl(root, 2, name).values()
    return dict(zip("abcd", [*span([row for row, _ in found]), *span([each for _, each in found])], strict=True))


def two_h200(root: Path) -> Values:
    return two_gpus(root, "training-nccl-nvidia-h200")


def several_gpus(root: Path) -> Values:
    kinds = [(table, part) for table in ("static", "hash") for part in ("ddp", "fsdp")]
    return {
        name: f"{over_nccl(root, processes)[kind][0]:.2f}"
        for processes, names in ((2, "abcd"), (4, "efgh"))
        for name, kind in zip(names, kinds, strict=True)
    }


def twin_cost(root: Path) -> Values:
    found = result(root, "twin-cost")
    return {
        "a": f"{found['ratio']:.3f}",
        "asked": f"{found['target']:g}",
        "verdict": verdict(found["ratio"] <= found["target"]),
    }


def cached_step(root: Path) -> Values:
    ratio = result(root, "embcache-step")["result"]["ratio"]["process"]["median"]
    return {"a": f"{ratio:.2f}", "verdict": verdict(ratio <= 1.2)}


def workers(root: Path) -> Values:
    found = result(root, "embcache-workers")["result"]
    wall, processor = found["speedup"]["median"], found["speedup by processor time"]["median"]
    return {"a": f"{wall:.2f}", "b": f"{processor:.3f}", "verdict": verdict(wall >= 1.8)}


def stores(root: Path) -> Values:
    ours, rocks, lmdb = (
        {what: row[what]["rows_per_s"] for what in ("fill", "read", "rewrite", "absent")}
        for row in result(root, "embcache-stores")["results"]
    )
    return {
        "read": f"{ours['read'] / rocks['read']:.1f}",
        "lmdb": f"{ours['read'] / lmdb['read']:.1f}",
        "absent": f"{ours['absent'] / rocks['absent']:.1f}",
        "rewrite": f"{rocks['rewrite'] / ours['rewrite']:.1f}",
    }


def hash_tables(root: Path) -> Values:
    rows = [row for row in result(root, "embeddings-cpu")["rows"] if row["asked"]]

    def both(name: str) -> tuple[str, str]:
        return span([row[at]["ratio"] for row in rows if name in row["name"] for at in ("cold", "warm")])

    met = sum(min(row["cold"]["ratio"], row["warm"]["ratio"]) >= row["asked"] for row in rows)
    new, step = both(" new ids"), both("rowwise_adagrad")
    return {"met": str(met), "rows": str(len(rows)), **dict(zip("abcd", [*new, *step], strict=True))}


def on_gpu(root: Path) -> Values:
    rows = result(root, "embeddings-cuda")["rows"]
    alone = [row["ratio"] for row in rows if "one by one" in row["name"]]
    return dict(zip("abc", [*span([r["ratio"] for r in rows if r["ratio"] not in alone]), f"{max(alone):.2f}"]))


def checkpoints(root: Path) -> Values:
    found = result(root, "checkpoints")
    stall = found["stall"]
    return {
        "stall": f"{stall['stall_ms']:.1f}",
        "slower": f"{stall['step_during_save_ms'] / stall['step_alone_ms']:.1f}",
        "latency": f"{found['latency']['largest_s']:.2f}",
    }


def smoke_quality(root: Path) -> Values:
    """The setting that the smoke test has, on the targets where it looks."""
    runs = [run for run in result(root, "smoke-quality") if run["targets"] == "test"]
    by = [[r["average"] for r in runs if r["settings"] == settings] for settings in {r["settings"] for r in runs}]
    least, below = min(min(found) for found in by), min(statistics.mean(f) - 3 * statistics.stdev(f) for f in by)
    return {"seeds": str(min(len(found) for found in by)), "least": f"{least:.2f}", "below": f"{below:.2f}"}


def planted(root: Path) -> Values:
    """Of the seeds that chose no learning rate."""
    runs = [run for run in result(root, "planted") if run["run"] == "sequences" and run["backbone"] == "hstu"]
    ratios = [run["ndcg@10"] / run["oracle"] for run in runs if run["seed"] < 100]
    return {"a": f"{statistics.mean(ratios):.3f}"}


def processes(root: Path) -> Values:
    speed = {row["processes"]: row["tokens_per_processor_s"] for row in result(root, "training-processes")["rows"]}
    return {"two": f"{speed[2] / speed[1]:.2f}", "four": f"{speed[4] / speed[1]:.2f}"}


def counts(root: Path) -> Values:
    rows = result(root, "operators-counts")
    products = [row["computes"] / row["must compute"] for row in rows if row["must compute"]]
    hbm = [row["operator"] for row in rows if row["moves in HBM"] > 1.3 * row["must move"]]
    asked = [row["operator"] for row in rows if row["moves"] > 1.3 * row["must move"]]
    return {"products": f"{max(products):.2f}", "hbm": str(len(hbm)), "asked": str(len(asked)), "rows": str(len(rows))}


ASKED, HBM = "moves", "moves in HBM"  # of operators-counts


def counted(**figures: tuple[str, str, int]) -> Callable[[Path], Values]:
    """name -> (operator, what of it, digits), over the bytes that must move."""

    def values(root: Path) -> Values:
        rows = {row["operator"]: row for row in result(root, "operators-counts")}
        return {
            name: f"{rows[operator][what] / rows[operator]['must move']:.{digits}f}"
            for name, (operator, what, digits) in figures.items()
        }

    return values


def of_operator(folder: str, text: str, **figures: tuple[str, str, int]) -> Sentence:
    return Sentence(f"kernels/operators/{folder}/README.md", text, counted(**figures))


def step_counts(root: Path) -> Values:
    rows = result(root, "step-counts")
    waits = {(row["steps with a wait"], row["steps"]) for row in rows}
    (found,) = waits  # the same in all rows
    names = dict(zip("abc", (str(row["launches"]) for row in rows), strict=True))
    return {"waits": str(found[0]), "steps": str(found[1]), **names}


def cold_build(root: Path) -> Values:
    cold = next(f for f in result(root, "toolchain")["figures"] if f["name"].startswith("cold image build"))
    whole = result(root, "from-nothing")
    return {
        "old": f"{cold['seconds']:.0f}",
        "now": f"{sum(seconds for step, seconds in whole['steps'].items() if step != 'wheels'):.0f}",
        "commit": whole["commit"],
    }


def step_of(name: str, case: str, digits: int = 0) -> Callable[[Path], Values]:
    def values(root: Path) -> Values:
        row = next(row for row in result(root, name)["rows"] if row["case"] == case)
        return {"a": f"{row['ms']:.{digits}f}"}

    return values


def compiled_cpu(root: Path) -> Values:
    return dict(zip("ab", span([m["eager / compiled"] for m in result(root, "compile-cpu")["models"].values()])))


SENTENCES: tuple[Sentence, ...] = (
    Sentence(INDEX, "on a Hopper GPU is {low} to {high} times as fast as cuDNN's", attention),
    Sentence(INDEX, "1.10 was asked, and {met} of {rows} rows reach it", attention),
    Sentence(INDEX, "the same kernels take {a} to {b} times as long forward, {c} to {d} times backward", relative),
    Sentence(
        INDEX, "runs at {a} to {b} times the speed of PyTorch's operators in bf16, {c} to {d} of Inductor's", layer
    ),
    Sentence(INDEX, "reads them at {a} to {b} of the speed of the same keys gathered", paged),
    Sentence(
        INDEX, "two H100 train {a} to {b} times the tokens/s of one, {c} to {d} where each step is waited", two_gpus
    ),
    Sentence(INDEX, "two H200 {a} to {b} and {c} to {d}", two_h200),
    Sentence(INDEX, "a step on an emulated NPU costs {a} times the CPU's; {asked} was asked: {verdict}", twin_cost),
    Sentence(
        INDEX, "takes {a} times the processor time of a resident one in a step; 1.2 was asked: {verdict}", cached_step
    ),
    Sentence(INDEX, "{a} times as fast as one, {b} times by processor time; 1.8 was asked: {verdict}", workers),
    Sentence(INDEX, "reads rows {read} and {lmdb} times as fast as RocksDB and LMDB", stores),
    Sentence(INDEX, "RocksDB overwrites rows {rewrite} times as fast", stores),
    Sentence(INDEX, "cost {a} to {b} of static ones; one by one they are bound by the host's launches, {c}", on_gpu),
    Sentence(
        INDEX,
        "{met} of {rows} rows reach what is asked for. 20 times the transformer is missed (a bound forbids it), "
        "new ids are taken at {a} to {b} of the speed of a map sized at first, and a step of row-wise Adagrad at "
        "{c} to {d} of fbgemm's",
        hash_tables,
    ),
    Sentence(
        INDEX, "stops training for {stall} ms, and steps take {slower} times as long until it is done", checkpoints
    ),
    Sentence(INDEX, "servers have a change within {latency} s", checkpoints),
    Sentence(
        INDEX,
        "the least of {seeds} seeds is {least} times popularity, three deviations below the mean {below}",
        smoke_quality,
    ),
    Sentence(INDEX, "the model reaches {a} of the best possible NDCG@10", planted),
    Sentence(INDEX, "two processes {two} times one, four {four} times, by processor time", processes),
    Sentence(INDEX, "make at most {products} of the products that must be", counts),
    Sentence(
        INDEX,
        "HBM moves more than 1.3 times what must be moved in {hbm} of {rows} rows, cores ask for more in {asked}",
        counts,
    ),
    Sentence(INDEX, "took {old} s of that day: the steps took {now} s on {commit}", cold_build),
    Sentence(
        INDEX,
        "{waits} of {steps} steps, with {a} launches and a static table, {b} with a hash table, {c} with batches made "
        "ahead",
        step_counts,
    ),
    Sentence(OPERATORS, "`benchmarks/results/hstu-paged-*.md`: at {a} to {b} of the speed of keys in one piece", paged),
    Sentence(OPERATORS, "{a} to {b} times as fast in bf16 ({c} to {d} of Inductor's speed)", layer),
    Sentence(
        TRAINING,
        "the article's steps in a row make {a} times the tokens of one GPU with copies and {b} with FSDP at 32 "
        "users a GPU, with a hash table of items {c} and {d}, and on four {e}, {f}, {g} and {h} times",
        several_gpus,
    ),
    Sentence(TRAINING, "the article's step in {a} ms, 98 with PyTorch's layer", step_of(f"training-{H100}", "article")),
    Sentence(
        TRAINING, "the article's float32 step takes {a} ms for 1,003", step_of(f"training-{H100}", "article tf32")
    ),
    Sentence(TRAINING, "On a CPU it is no faster ({a} to {b} of eager's speed", compiled_cpu),
)


SENTENCES += (
    Sentence(
        "embeddings/torchrec_embcache/README.md",
        "were {read} times as fast as RocksDB's and {lmdb} times LMDB's, looking for absent rows {absent} times "
        "RocksDB's. RocksDB overwrote rows that nobody had read {rewrite} times faster",
        stores,
    ),
    of_operator(
        "backward_codegen_adagrad_unweighted_exact",
        "{a} times what must be moved is asked for with SGD, {b} with Adagrad, {c} with Adam",
        a=("embedding_update (SGD)", ASKED, 2),
        b=("embedding_update (Adagrad)", ASKED, 2),
        c=("embedding_update (Adam)", ASKED, 2),
    ),
    of_operator(
        "bounds_check_indices",
        "for {a} times what must be read once; HBM moves {b} times",
        a=("bounds_check_indices", ASKED, 2),
        b=("bounds_check_indices", HBM, 2),
    ),
    of_operator(
        "gather_for_rank1",
        "{a} times that is asked for, as every core reads x, 80 KB; L2 serves it, and HBM moves {b} times",
        a=("gather_for_rank1", ASKED, 2),
        b=("gather_for_rank1", HBM, 2),
    ),
    of_operator(
        "index_select_for_rank1_backward",
        "{a} times that is asked for, each core's image of x once each way, and HBM moves {b} times",
        a=("index_select_for_rank1_backward", ASKED, 2),
        b=("index_select_for_rank1_backward", HBM, 2),
    ),
    of_operator(
        "hstu_dense_backward",
        "{a} times the bound's bytes are asked for",
        a=("hstu_dense_backward", ASKED, 1),
    ),
    of_operator("hstu_dense_backward", "HBM moves {a} times the bound's bytes", a=("hstu_dense_backward", HBM, 1)),
    of_operator("hstu_dense_forward", "{a} times the bytes of q, k, v", a=("hstu_dense", ASKED, 1)),
    of_operator(
        "hstu_gated_output",
        "{a} times its bytes are asked for forward, {b} times backward",
        a=("hstu_gated_output", ASKED, 1),
        b=("hstu_gated_output_backward", ASKED, 1),
    ),
    of_operator(
        "hstu_projection",
        "{a} times its bytes are asked for forward, {b} times backward",
        a=("hstu_projection", ASKED, 1),
        b=("hstu_projection_backward", ASKED, 1),
    ),
    of_operator(
        "permute2d_sparse_data",
        "weights asks for {a} times what must be moved",
        a=("permute_2D_sparse_data", ASKED, 2),
    ),
    of_operator(
        "split_embedding_codegen_forward_unweighted",
        "{a} times these bytes are asked for; HBM moves {b} times",
        a=("embedding_pool (SUM)", ASKED, 2),
        b=("embedding_pool (SUM)", HBM, 1),
    ),
)


def places(sentence: Sentence, page: str) -> Iterator[tuple[str, int, int]]:
    """(name, begin, end) of its figures in the page. ValueError unless the sentence stands there just once."""
    parts = re.split(r"\{(\w+)\}", sentence.text)
    words = [r"\s+".join(re.escape(word) for word in re.split(r"\s+", part)) for part in parts[::2]]
    names = parts[1::2]
    found = list(re.finditer(r"([\w.,]*\w)".join(words), page))
    if len(found) != 1:
        raise ValueError(f"{sentence.page} has {len(found)} times: {sentence.text}")
    for at, name in enumerate(names, 1):
        yield name, *found[0].span(at)


def main(root: Path = ROOT) -> None:
    for sentence in SENTENCES:
        file = root / sentence.page
        page, values = file.read_text(encoding="utf-8"), sentence.values(root)
        for name, begin, end in sorted(places(sentence, page), key=lambda place: -place[1]):
            page = page[:begin] + values[name] + page[end:]
        file.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
