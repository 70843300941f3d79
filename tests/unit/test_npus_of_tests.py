"""Tests of several ranks on NPUs say how many they need (the mark `npus`), and are skipped where fewer are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from grstack.accept.parts import PARTS
from grstack.ask import ask

ROOT = Path(__file__).resolve().parents[2]
# A group of the backend "fake" has one process, whatever its world size says.
A_RANK = re.compile(r"environ\[\"RANK\"\]|\branks import run\b|init_process_group\((?!\"fake\")|world\.join\(")
MARK, PARAMETER = re.compile(r"mark\.npus\("), re.compile(r"(parametrize\(.*\b(world|processes)\b|params=\[2, 4\])")
TORCHREC, HYBRID = "recipes/torchrec/tests", "embeddings/hybrid_torchrec/tests/distributed"
# Each program that is a rank, and the files of tests that start it on NPUs.
PROGRAMS: dict[str, tuple[str, ...]] = {
    f"{TORCHREC}/cpu_runner.py": (),
    f"{TORCHREC}/cuda_program.py": (f"{TORCHREC}/test_cuda_scripts.py",),
    f"{TORCHREC}/equality_program.py": (f"{TORCHREC}/test_equality.py",),
    f"{TORCHREC}/grid_faults.py": (),  # on the CPU
    f"{TORCHREC}/late_import.py": (),  # a group of one
    f"{TORCHREC}/long_sharded.py": (f"{TORCHREC}/test_long_sharded.py",),
    f"{TORCHREC}/sharded_training.py": (f"{TORCHREC}/test_sharded_npu.py",),
    f"{TORCHREC}/shipped_sharding.py": (f"{TORCHREC}/test_shipped_sharding.py",),
    "recipes/torchrec/grid/check.py": (f"{TORCHREC}/test_grid.py",),
    "recipes/torchrec/grid/ranks.py": (f"{TORCHREC}/test_grid.py",),
    "kernels/gr_ops/tests/cuda_recommender.py": ("kernels/gr_ops/tests/test_cuda_recommender.py",),
    f"{HYBRID}/sharded_program.py": (f"{HYBRID}/test_equivalence.py", f"{HYBRID}/test_scenarios.py"),
    f"{HYBRID}/documents_program.py": (f"{HYBRID}/test_documents.py",),
    "embeddings/hybrid_torchrec/tests/checkpoint/children.py": (),  # on the CPU
    "embeddings/torchrec_embcache/tests/sharded_program.py": ("embeddings/torchrec_embcache/tests/test_sharded.py",),
    "gr_model/tests/distributed_program.py": ("gr_model/tests/test_distributed.py",),
    "gr_model/tests/counted_hash_processes.py": ("gr_model/tests/test_npu_hash_processes.py",),
    "twin/tests/hccl/torch_checks.py": ("twin/tests/hccl/test_torch.py",),
    "twin/tests/hccl/torch_failures.py": ("twin/tests/hccl/test_torch.py",),
}
# Ranks whose test is none of `inv accept`'s.
OTHERS = {"twin/tests/hccl/loader_ranks.py", "twin/tests/hccl/strict_collectives.py"}


def test_every_program_of_ranks_is_listed() -> None:
    places = {word.removeprefix("SOURCE/") for part in PARTS for word in part.argv if word.startswith("SOURCE/")}
    folders = {ROOT / place if (ROOT / place).is_dir() else (ROOT / place).parent for place in places}
    files = {file for folder in {*folders, ROOT / "recipes/torchrec/grid"} for file in folder.rglob("*.py")}
    programs = {file for file in files if not file.name.startswith("test_") and A_RANK.search(file.read_text())}
    found = {str(file.relative_to(ROOT)) for file in programs if "/cuda/" not in str(file)}
    assert found - OTHERS == set(PROGRAMS)


@pytest.mark.parametrize("file", sorted({file for files in PROGRAMS.values() for file in files}))
def test_who_starts_them_says_how_many_npus_it_needs(file: str) -> None:
    text = (ROOT / file).read_text()
    assert MARK.search(text) or PARAMETER.search(text)


@pytest.mark.parametrize(("here", "ran"), [("", 9), ("1", 3), ("2", 6), ("3", 6), ("4", 9), ("8", 9)])
def test_tests_of_more_npus_than_there_are_are_skipped(tmp_path: Path, here: str, ran: int) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.twin\n@pytest.mark.parametrize('processes', [2, 4])\ndef test_a(processes): pass\n"
        "@pytest.mark.parametrize('kind, world', [('npu', 4), ('cpu', 4), ('npu', 1)])\n"
        "def test_b(kind, world): pass\n"
        "def test_c(): pass\n"
        "@pytest.mark.npus(2)\ndef test_d(): pass\n"
        "@pytest.mark.twin\n@pytest.mark.npus(2)\n@pytest.mark.parametrize('world', [2])\ndef test_e(world): pass\n"
        "@pytest.mark.twin\n@pytest.mark.npus(4)\ndef test_f(): pass\n"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    said = ask([*argv, str(tmp_path)], env={"GRSTACK_NPUS": here}).output
    skipped = f"{9 - ran} skipped" if ran < 9 else "passed"
    assert f"{ran} passed" in said and skipped in said, said
    assert here != "1" or "4 NPUs are needed, this machine has 1" in said, said
