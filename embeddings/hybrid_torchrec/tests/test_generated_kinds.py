"""Each kind of hybrid_torchrec/kinds.py stands wherever the pages of docs/develop say that it must.

By reading the files: what a kind means is tested by test_kinds.py.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import hybrid_torchrec
import pytest
from hybrid_torchrec import initializers, policies
from hybrid_torchrec.backends import npu
from hybrid_torchrec.backends.torch_steps import STEPS
from hybrid_torchrec.kinds import EVICTIONS, GR_OPS_NUMBERS, INITIALIZERS, OPTIMIZERS, OptimizerKind, by_name

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = REPOSITORY / "embeddings/hybrid_torchrec"


def text(place: str) -> str:
    return (REPOSITORY / place).read_text(encoding="utf-8")


def gr_model_setting(name: str) -> tuple[str, ...]:
    """What gr_model lets the setting embedding.<name> be: the `choices` of that field, by the file's constants."""
    tree = ast.parse(text("gr_model/config/embedding.py"))
    constants: dict[str, object] = {}
    exec(ast.unparse([node for node in tree.body if isinstance(node, ast.Assign)]), constants)
    (field,) = [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name]
    assert isinstance(field.value, ast.Call)
    (choices,) = [keyword.value for keyword in field.value.keywords if keyword.arg == "choices"]
    found: tuple[str, ...] = eval(ast.unparse(choices), constants)
    return found


def test_what_is_generated_is_up_to_date() -> None:
    """By the command that writes it, where neither torch nor the package can be imported."""
    command = [sys.executable, "-S", "-I", str(PACKAGE / "generate_kinds.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"run python embeddings/hybrid_torchrec/generate_kinds.py: {done.stdout}{done.stderr}"


def test_a_number_or_name_cannot_stand_twice() -> None:
    rows = [OptimizerKind(name=name, number=number, step="", reference="") for name, number in (("a", 0), ("b", 0))]
    with pytest.raises(ValueError, match="distinct"):
        by_name(*rows)


def kernel_kinds() -> list[str]:
    """KERNEL_KINDS of the Triton kernels, on one line or on several."""
    kernels = text("embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/update_kernels.py")
    listed = re.search(r"^KERNEL_KINDS = \(([^)]*)\)", kernels, re.M)
    assert listed
    return re.findall(r'"(\w+)"', listed[1])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_a_step_in_each_back_end(name: str) -> None:
    kind = OPTIMIZERS[name]
    assert name in STEPS
    steps = text("kernels/row_math/optimizer_steps.inl")
    assert re.search(rf"^  all\.{kind.cpu or name} = \{{&update_", steps, re.M), (
        "no step in row_math/optimizer_steps.inl"
    )
    kernels = text("embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/update_kernels.py")
    assert name in kernel_kinds() and re.search(rf"KIND == {name.upper()}\b", kernels)


def test_no_back_end_has_a_step_of_no_kind() -> None:
    assert set(STEPS) == set(OPTIMIZERS)
    assert kernel_kinds() == list(OPTIMIZERS)


def test_numbers_of_gr_ops_are_those_of_its_own_list() -> None:
    header = text("kernels/gr_ops/csrc/embedding/optimizers.h")
    listed = {name: int(number) for number, name in re.findall(r'^    \{(\d+), "(\w+)", ', header, re.M)}
    assert listed == GR_OPS_NUMBERS
    assert {kind.gr_ops for kind in OPTIMIZERS.values()} - {None} <= set(listed)
    assert npu.KINDS == {"sgd": 0, "adagrad": 1, "rowwise_adagrad": 2, "adam": 3, "adamw": 3}


def test_gr_model_offers_every_optimizer() -> None:
    assert set(gr_model_setting("optimizer")) == set(OPTIMIZERS)
    row = re.search(r"^\| `embedding\.optimizer` \| (.*) \|$", text("docs/training.md"), re.M)
    assert row and set(OPTIMIZERS) <= set(re.findall(r"`(\w+)`", row[1]))


def test_gr_model_offers_policies_that_there_are() -> None:
    """Not Score, whose clicks it does not have."""
    offered = set(gr_model_setting("eviction")) - {"none"}
    assert offered == {name.lower() for name in EVICTIONS} - {"score"}
    row = re.search(r"^\| `embedding\.max_rows`, `eviction` \| (.*) \|$", text("docs/training.md"), re.M)
    assert row and offered <= set(re.findall(r"`(\w+)`", row[1]))
    made = text("gr_model/embedding/dynamic_tables.py").partition("def _eviction(")[2].partition("\n\n\n")[0]
    assert set(re.findall(r'"(\w+)": ', made)) == set(gr_model_setting("eviction")), (
        "gr_model/embedding/dynamic_tables.py"
    )


@pytest.mark.parametrize("name", EVICTIONS)
def test_a_policy_has_a_class_and_an_order_on_each_device(name: str) -> None:
    assert getattr(policies, name).kind is EVICTIONS[name]
    assert getattr(hybrid_torchrec, name) is getattr(policies, name)
    assert f"case Eviction::k{name}:" in text("embeddings/hybrid_torchrec/csrc/ids/eviction.cpp")
    cuda = "".join(
        path.read_text(encoding="utf-8") for path in (PACKAGE / "hybrid_torchrec/backends/cuda").glob("*.py")
    )
    assert re.search(rf'EVICTIONS\[.*"{name}"', cuda), "no order in backends/cuda"
    for page in ("embeddings/hybrid_torchrec/README.md", "docs/dynamic-embeddings.md"):
        assert f"`{name}(" in text(page), page


@pytest.mark.parametrize("name", EVICTIONS)
@pytest.mark.parametrize(("file", "several"), [("copied_tables.py", "EVICTIONS"), ("cuda/test_tables.py", "POLICIES")])
def test_the_lists_that_tests_run_over_have_every_policy(file: str, several: str, name: str) -> None:
    source = text(f"embeddings/hybrid_torchrec/tests/{file}")
    listed = re.search(rf"^{several}\b.*?^[\])}}]?$", source, re.M | re.S)
    assert listed and f"{name}(" in listed[0], f"{several} of {file}"


def test_policies_say_whether_they_count_occurrences_and_expire() -> None:
    made = [policies.LFU(), policies.LRU(), policies.Score(), policies.TTL(steps=3), policies.CustomScore(score=abs)]
    assert [policy.counts_occurrences for policy in made] == [True, False, True, False, True]
    assert [policy.expires for policy in made] == [False, False, False, True, False]


@pytest.mark.parametrize("name", INITIALIZERS)
def test_an_initialiser_has_a_class_and_is_drawn_on_each_device(name: str) -> None:
    assert getattr(initializers, name).kind == INITIALIZERS[name].number
    assert getattr(hybrid_torchrec, name) is getattr(initializers, name)
    assert f"case Distribution::k{name}:" in text("embeddings/hybrid_torchrec/csrc/rows/initializers.cpp")
    assert importlib.util.find_spec("triton") is None or name in text(
        "embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/row_kernels.py"
    )


PAGES = {
    "optimizer": [
        "embeddings/hybrid_torchrec/hybrid_torchrec/kinds.py",
        "embeddings/hybrid_torchrec/generate_kinds.py",
        "kernels/row_math/optimizer_steps.inl",
        "kernels/row_math/row_kernels.h",
        "embeddings/hybrid_torchrec/hybrid_torchrec/backends/torch_steps.py",
        "embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/update_kernels.py",
        "docs/training.md",
        "embeddings/hybrid_torchrec/tests/kinds_reference.py",
        "embeddings/hybrid_torchrec/tests/reference.py",
    ],
    "eviction-policy": [
        "gr_model/config/embedding.py",
        "gr_model/embedding/dynamic_tables.py",
        "docs/dynamic-embeddings.md",
        "embeddings/hybrid_torchrec/hybrid_torchrec/kinds.py",
        "embeddings/hybrid_torchrec/generate_kinds.py",
        "embeddings/hybrid_torchrec/hybrid_torchrec/policies.py",
        "embeddings/hybrid_torchrec/csrc/ids/eviction.cpp",
        "embeddings/hybrid_torchrec/tests/test_kinds.py",
    ],
}


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_for_contributors_name_files_that_there_are(page: str) -> None:
    written = text(f"docs/develop/{page}.md")
    for place in PAGES[page]:
        assert re.search(rf"`(python )?{re.escape(place)}`", written), place
    for place in re.findall(r"`((?:embeddings|kernels|docs|gr_model|grstack)/[\w./-]+)`", written):
        assert (REPOSITORY / place).exists(), place
