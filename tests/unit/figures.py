"""The figures that pages quote, read from committed results: each function gives name -> figure as it is written."""

from __future__ import annotations

import ast
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = "benchmarks/results"
H100 = "nvidia-h100-80gb-hbm3"
Values = dict[str, str]


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
    rows = [row["ms"] for row in result(root, f"hstu-layer-{H100}")["rows"]]
    eager, compiled = ([ms[peer] / ms["ours"] for ms in rows] for peer in ("eager", "compiled"))
    return dict(zip("abcd", [*span(eager), *span(compiled)], strict=True))


def paged(root: Path) -> Values:
    return dict(zip("ab", span([row["gathered_over_paged"][1] for row in result(root, f"hstu-paged-{H100}")["rows"]])))


def over_nccl(root: Path, processes: int, name: str = "training-nccl") -> dict[tuple[str, str], tuple[float, float]]:
    """(table, dense part) -> tokens/s to one GPU's in a row, and with each step waited for; as many users a GPU."""
    found = result(root, name)
    rows = [row for row in (found["four"] if processes == 4 else found)["rows"] if row["of"] == "each"]
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


def operators_cpu(root: Path) -> Values:
    """Rows that reach what is asked for, cold and warm, and how many there are, of four modules."""
    figures: Values = {}
    for module, names in (("sparse", "ab"), ("jagged", "cd"), ("embedding", "ef"), ("layer", "gh")):
        rows = [row for row in result(root, f"operators-cpu-{module}")["rows"] if row["target"]]
        met = sum(min(row[at]["ratio"] for at in ("cold", "warm")) >= row["target"] for row in rows)
        figures |= dict(zip(names, (str(met), str(len(rows))), strict=True))
    return figures


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


def smoke_settings() -> str:
    """Those of the smoke test, as smoke_quality.py names them."""
    program = ast.parse((Path(__file__).parents[2] / "smoke_tests/checks/quality.py").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for node in program.body:
        if isinstance(node, ast.Assign):
            names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = ast.literal_eval(node.value)
            found.update(
                zip((ast.unparse(name) for name in names), values if len(names) > 1 else [values], strict=True)
            )
    return " ".join([*found["SETTINGS"], f"train.steps={found['STEPS']}"])


def smoke_quality(root: Path) -> Values:
    """The settings and the steps that the smoke test has, on the targets where it looks."""
    settings = smoke_settings()
    runs = [run for run in result(root, "smoke-quality") if (run["targets"], run["settings"]) == ("test", settings)]
    found = [run["average"] for run in runs]
    below = statistics.mean(found) - 3 * statistics.stdev(found)
    return {"seeds": str(len(found)), "least": f"{min(found):.2f}", "below": f"{below:.2f}"}


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


def step_counts(root: Path) -> Values:
    rows = [row for row in result(root, "step-counts") if row.get("aten", "override") == "override"]
    waits = {(row["steps with a wait"], row["steps"]) for row in rows}
    (found,) = waits  # the same in all rows
    names = dict(zip("abc", (str(row["launches"]) for row in rows), strict=True))
    return {"waits": str(found[0]), "steps": str(found[1]), **names}


def cold_build(root: Path) -> Values:
    cold = next(f for f in result(root, "toolchain")["figures"] if f["name"].startswith("cold image build"))
    whole = result(root, "from-nothing")
    return {
        "old": f"{cold['seconds']:.0f}",
        "now": f"{whole['build']:.0f}",
        "commit": whole["commit"],
    }


def from_nothing(root: Path) -> Values:
    found = result(root, "from-nothing")
    return {
        "minutes": f"{found['seconds'] / 60:.1f}",
        "commit": found["commit"],
        "asked": f"{found['limit'] / 60:.0f}",
        "verdict": verdict(found["seconds"] <= found["limit"]),
    }


def step_of(name: str, case: str, digits: int = 0) -> Callable[[Path], Values]:
    def values(root: Path) -> Values:
        row = next(row for row in result(root, name)["rows"] if row["case"] == case)
        return {"a": f"{row['ms']:.{digits}f}"}

    return values


def compiled_cpu(root: Path) -> Values:
    return dict(zip("ab", span([m["eager / compiled"] for m in result(root, "compile-cpu")["models"].values()])))


def compiled_h100(root: Path) -> Values:
    found = result(root, f"compile-{H100}")["models"].values()
    return dict(zip("ab", span([model["eager / compiled"] for model in found])))


def equivalence(root: Path) -> Values:
    """The largest relative difference of all ranks, and that of AdamW."""
    found = result(root, "embeddings-equivalence")
    errors = [(name.split(".")[1], error) for case in found["ranks"].values() for name, error in case.items()]
    largest, adamw = max(errors, key=lambda e: e[1]), max(error for kind, error in errors if kind == "adamw")
    return {
        "allowed": f"{found['allowed']:.0e}".replace("e-0", "e-"),
        "largest": f"{largest[1]:.1e}".replace("e-0", "e-"),
        "kind": largest[0],
        "adamw": f"{adamw:.1e}".replace("e-0", "e-"),
        "verdict": verdict(largest[1] < found["allowed"]),
    }


def image_sizes(root: Path) -> Values:
    """GB of the images of cpu and cuda, of CUDA's libraries in each, and of the second Triton."""
    found = result(root, "images")
    sizes = {target: found[target]["MB"] for target in ("cpu", "cuda")}
    for target, layers in ((target, found[target]["layers"]) for target in ("cpu", "cuda")):
        (sizes[f"{target}_libraries"],) = (each["MB"] for each in layers if each["made by"].endswith('" cuda'))
    (sizes["triton"],) = (each["MB"] for each in found["cuda"]["layers"] if each["made by"].endswith(" gluon"))
    return {name: f"{size / 1000:.1f}" for name, size in sizes.items()}
