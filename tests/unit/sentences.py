"""Sentences of pages with figures of committed results in them, each with what the result says.

    python tests/unit/sentences.py

writes the figures of the present results into the pages; test_figures.py compares them. {a} in a sentence stands for a
figure. White space counts as any other, since pages wrap their lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from figures import (
    ASKED,
    H100,
    HBM,
    Values,
    attention,
    cached_step,
    checkpoints,
    cold_build,
    compiled_cpu,
    compiled_h100,
    counted,
    counts,
    equivalence,
    from_nothing,
    hash_tables,
    image_sizes,
    layer,
    on_gpu,
    operators_cpu,
    paged,
    planted,
    processes,
    relative,
    result,
    several_gpus,
    smoke_quality,
    step_counts,
    step_of,
    stores,
    twin_cost,
    two_gpus,
    two_h200,
    workers,
)

ROOT = Path(__file__).resolve().parents[2]
INDEX, OPERATORS, TRAINING = "benchmarks/README.md", "kernels/gr_ops/README.md", "docs/training.md"


class Sentence(NamedTuple):
    page: str
    text: str
    values: Callable[[Path], Values]


def of_operator(folder: str, text: str, **figures: tuple[str, str, int]) -> Sentence:
    return Sentence(f"kernels/operators/{folder}/README.md", text, counted(**figures))


def takes(**figures: tuple[str, str]) -> Callable[[Path], Values]:
    """name -> (operator, one of `L2`, `HBM` and `products`), in microseconds of benchmarks/operators_counts.py."""
    counts_of = {"L2": ("moves", 7e6), "HBM": ("moves in HBM", 1.6e6), "products": ("computes", 376e6)}

    def values(root: Path) -> Values:
        rows = {row["operator"]: row for row in result(root, "operators-counts")}
        return {
            name: f"{rows[operator][counts_of[what][0]] / counts_of[what][1]:.0f}"
            for name, (operator, what) in figures.items()
        }

    return values


SENTENCES: tuple[Sentence, ...] = (
    Sentence(
        INDEX,
        "{a} of {b}, {c} of {d} and {e} of {f} rows of permutations, of jagged rows and of lookups "
        "reach it, and {g} of {h} of a layer's operators",
        operators_cpu,
    ),
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
    Sentence(INDEX, "steps have {a} to {b} of eager's speed on a Hopper GPU", compiled_h100),
    Sentence(INDEX, "a layer that is one function as it is, and {a} to {b} on a CPU", compiled_cpu),
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
    Sentence(
        INDEX,
        "torchrec's collections do: {allowed} is asked of every optimizer, {verdict}; the largest difference is "
        "{largest} ({kind}), AdamW's {adamw}",
        equivalence,
    ),
    Sentence(INDEX, "the model reaches {a} of the best possible NDCG@10", planted),
    Sentence(INDEX, "two processes {two} times one, four {four} times, by processor time", processes),
    Sentence(INDEX, "make at most {products} of the products that must be", counts),
    Sentence(
        INDEX,
        "HBM moves more than 1.3 times what must be moved in {hbm} of {rows} rows, cores ask for more in {asked}",
        counts,
    ),
    Sentence(INDEX, "downloads included: {minutes} minutes on {commit}, {asked} asked: {verdict} |", from_nothing),
    Sentence(INDEX, "took {old} s of that day: the build, wheels included, took {now} s on {commit}", cold_build),
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
    Sentence(
        TRAINING, "the article's step in {a} ms: `benchmarks/results/training", step_of(f"training-{H100}", "article")
    ),
    Sentence(
        TRAINING, "the article's float32 step takes {a} ms for 1,003", step_of(f"training-{H100}", "article tf32")
    ),
    Sentence(TRAINING, "On a CPU it is no faster ({a} to {b} of eager's speed", compiled_cpu),
    Sentence(TRAINING, "steps have {a} to {b} of eager's speed on one H100", compiled_h100),
)


SENTENCES += (
    Sentence("README.md", "It is {cpu} GB, of which {cpu_libraries} are the CUDA libraries that", image_sizes),
    Sentence(
        "README.md",
        "(`/opt/grstack/triton`, {triton} GB). It is {cuda} GB, of which {cuda_libraries} are CUDA's libraries",
        image_sizes,
    ),
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
        "backward_codegen_adagrad_unweighted_exact",
        "HBM moves {a} times the bound with SGD, {b} with Adagrad and Adam",
        a=("embedding_update (SGD)", HBM, 2),
        b=("embedding_update (Adam)", HBM, 2),
    ),
    of_operator(
        "backward_codegen_adagrad_unweighted_exact",
        "Row-wise Adagrad has {a}",
        a=("embedding_update (row-wise Adagrad)", HBM, 2),
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
    of_operator("hstu_dense_forward", "HBM moves {a} times the bound's bytes", a=("hstu_dense", HBM, 2)),
    of_operator("hstu_dense_forward", "and {a} times the bytes of the bound", a=("hstu_relative", ASKED, 1)),
    of_operator("hstu_dense_forward", "HBM moves {a} times the bound: times", a=("hstu_relative", HBM, 2)),
    Sentence("kernels/operators/hstu_dense_forward/README.md", "L2 has {a} us", takes(a=("hstu_relative", "L2"))),
    of_operator("hstu_dense_backward", "and {a} times the bytes of the bound", a=("hstu_relative_gradients", ASKED, 1)),
    of_operator("hstu_dense_backward", "HBM moves {a} times the bound, for", a=("hstu_relative_gradients", HBM, 2)),
    Sentence(
        "kernels/operators/hstu_dense_backward/README.md",
        "L2 has {a} us",
        takes(a=("hstu_relative_gradients", "L2")),
    ),
    of_operator(
        "hstu_gated_output",
        "{a} times its bytes are asked for forward, {b} times backward",
        a=("hstu_gated_output", ASKED, 1),
        b=("hstu_gated_output_backward", ASKED, 1),
    ),
    Sentence(
        "kernels/operators/hstu_gated_output/README.md",
        "All of it over L2's 7 TB/s takes {a} and {b} us",
        takes(a=("hstu_gated_output", "L2"), b=("hstu_gated_output_backward", "L2")),
    ),
    of_operator(
        "hstu_gated_output",
        "lets {a} times the bound's bytes through forward",
        a=("hstu_gated_output", HBM, 2),
    ),
    of_operator(
        "hstu_gated_output",
        "Backward it is {a} times, the gated rows",
        a=("hstu_gated_output_backward", HBM, 2),
    ),
    of_operator(
        "hstu_projection",
        "{a} times its bytes are asked for forward, {b} times backward",
        a=("hstu_projection", ASKED, 1),
        b=("hstu_projection_backward", ASKED, 1),
    ),
    Sentence(
        "kernels/operators/hstu_projection/README.md",
        "All of it over L2's 7 TB/s takes {a} us forward, beside the cube's {b}, and {c} us backward, beside {d}",
        takes(
            a=("hstu_projection", "L2"),
            b=("hstu_projection", "products"),
            c=("hstu_projection_backward", "L2"),
            d=("hstu_projection_backward", "products"),
        ),
    ),
    of_operator("hstu_projection", "lets {a} times the bound's bytes through", a=("hstu_projection", HBM, 2)),
    Sentence(
        "kernels/operators/hstu_projection/README.md", "through forward ({a} us)", takes(a=("hstu_projection", "HBM"))
    ),
    of_operator("hstu_projection", "Backward it is {a} times (", a=("hstu_projection_backward", HBM, 2)),
    Sentence(
        "kernels/operators/hstu_projection/README.md",
        "times ({a} us): `normed`",
        takes(a=("hstu_projection_backward", "HBM")),
    ),
    of_operator(
        "permute2d_sparse_data",
        "weights asks for {a} times what must be moved",
        a=("permute_2D_sparse_data", ASKED, 2),
    ),
    of_operator(
        "permute2d_sparse_data",
        "26 features asks for {a} times what must be moved, and HBM moves {b} times",
        a=("permute_sparse_data_backward", ASKED, 2),
        b=("permute_sparse_data_backward", HBM, 2),
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
    found = list(re.finditer(r"([\d.]+e-\d+|[\w.,]*\w)".join(words), page))
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
