"""Pages for contributors are true of the code: the places that they name exist, and none is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from grstack import recipes, spec
from grstack.changed import PARTS

ROOT = Path(__file__).resolve().parents[2]
DEVELOP = ROOT / "docs/develop"
SPEC = spec.load(ROOT / "versions.yaml")

# The places that a page must send its reader to, as it writes them.
PLACES = {
    "target.md": (
        "grstack/spec/_models.py",
        "grstack/spec/_checks.py",
        "versions.yaml",
        "docker/npu",
        "docker/npu/install-component.sh",
        "docker/npu/entrypoint.sh",
        "smoke_tests/registry.py",
        "smoke_tests/checks/collectives.py",
        "tests/golden/test_plans.py",
        "tests/unit/test_session.py",
        "tests/unit/test_locks.py",
        "tests/unit/test_spec.py",
        "tests/unit/test_tasks.py",
        "tasks.py",
        "smoke_tests/check.py",
        "gr_model/config/checks.py",
        "gr_model/runtime/world.py",
        "gr_model/runtime/device.py",
        "gr_model/model/flops.py",
    ),
    "platform-version.md": (
        "versions.yaml",
        "twin/runtime/version.info",
        "recipes/twin/build.sh",
        "twin/runtime/acl/settings.cpp",
        "recipes/operators/build.sh",
        "recipes/operators/cann",
        "docs/twin.md",
        "tests/unit/test_agreement.py",
        "tests/unit/test_doctor.py",
        "tests/golden/test_cann_commands.py",
        "twin/tests/runtime/test_runtime_device.py",
        "twin/tests/runtime/test_runtime_loader.py",
        "twin/tests/package/test_commands.py",
        "tests/unit/test_spec.py",
        "grstack/new/templates/outside/README.md",
        "recipes/operators/cann/CMakeLists.txt",
    ),
    "torchrec-bump.md": (
        "versions.yaml",
        "patches/torchrec",
        "recipes/torchrec",
        "embeddings/hybrid_torchrec/hybrid_torchrec/distributed/pipeline.py",
        "recipes/torchrec/grid/report.py",
        "recipes/torchrec/tests/test_wheel.py",
        "smoke_tests/checks/traps.py",
        "smoke_tests/tests/test_traps.py",
        "smoke_tests/tests/test_versions.py",
        "tests/unit/test_spec.py",
        "docs/torchrec-cpu.md",
    ),
    "metric.md": (
        "gr_model/tasks/metrics.py",
        "gr_model/tasks/retrieval.py",
        "gr_model/tasks/ranking.py",
        "gr_model/tests/test_metrics.py",
    ),
    "data-set.md": (
        "versions.yaml",
        "gr_model/data/source.py",
        "gr_model/data/__init__.py",
        "gr_model/data/synthetic.py",
        "gr_model/config/advice.py",
        "gr_model/config/presets.py",
        "gr_model/tests/data_files.py",
        "gr_model/tests/test_datasets.py",
        "docs/training.md",
        "README.md",
        "tests/unit/test_data_sets.py",
        "tests/unit/test_agreement.py",
    ),
    "eviction-policy.md": (
        "embeddings/hybrid_torchrec/hybrid_torchrec/kinds.py",
        "embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/eviction.py",
        "gr_model/config/embedding.py",
        "gr_model/embedding/dynamic_tables.py",
        "docs/training.md",
        "docs/dynamic-embeddings.md",
    ),
    "optimizer.md": ("gr_model/config/embedding.py", "docs/training.md"),
    "recipe.md": ("recipes/hybrid_torchrec", "recipes/twin", "versions.yaml", "grstack/changed.py"),
    "smoke-check.md": (
        "smoke_tests/check.py",
        "smoke_tests/checks/resume.py",
        "smoke_tests/registry.py",
        "smoke_tests/report.py",
        "smoke_tests/tests/test_versions.py",
        "smoke_tests/tests/test_runner.py",
    ),
    "aclnn-function.md": (
        "twin/runtime/opapi",
        "twin/runtime/opapi/types.cpp",
        "twin/tests/aten/test_protocol.py",
        "twin/tests/aten/programs/protocol.py",
        "twin/python/ascend_twin/conformance/recommender.py",
    ),
    "emulated-cores.md": (
        "twin/include/ascendc",
        "twin/include/kernel_operator.h",
        "twin/tests/ascendc/correct.h",
        "twin/tests/ascendc/mutants.h",
        "docs/twin-checks.md",
        "docs/ascend-c-subset.md",
    ),
    "installer.md": (
        "kernels/packaging",
        "kernels/packaging/tests/test_install.py",
        "kernels/packaging/tests/test_upgrade.py",
        "tests/integration/test_opp_install.py",
        "tests/integration/test_opp_damage.py",
        "tests/integration/test_opp_image.py",
    ),
}
# Names inside of a file that a page speaks of.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "grstack/spec/_models.py": {"target.md": ("TARGETS", "PLATFORMS")},
    "smoke_tests/checks/collectives.py": {"target.md": ("BACKENDS",)},
    "tasks.py": {"target.md": ("OPTIONS",)},
    "gr_model/config/checks.py": {"target.md": ("KINDS",)},
    "gr_model/runtime/world.py": {"target.md": ("BACKENDS",)},
    "gr_model/runtime/device.py": {"target.md": ("describe",)},
    "gr_model/model/flops.py": {"target.md": ("PEAKS",)},
    "gr_model/tasks/metrics.py": {"metric.md": ("OF_RANKS", "OF_SCORES")},
    "gr_model/data/__init__.py": {"data-set.md": ("DATASETS",)},
    "gr_model/config/advice.py": {"data-set.md": ("PLANTED",)},
    "gr_model/config/presets.py": {"data-set.md": ("PRESETS",)},
    "gr_model/config/embedding.py": {"eviction-policy.md": ("eviction", "faults"), "optimizer.md": ("OPTIMIZERS",)},
    "gr_model/embedding/dynamic_tables.py": {"eviction-policy.md": ("_eviction",)},
    "embeddings/hybrid_torchrec/csrc/ids/index.h": {"eviction-policy.md": ("Ranking", "RowStats")},
    "embeddings/hybrid_torchrec/csrc/ids/eviction.cpp": {"eviction-policy.md": ("key_of",)},
    "embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/eviction.py": {"eviction-policy.md": ("keys", "check")},
    "embeddings/hybrid_torchrec/hybrid_torchrec/backends/cuda/update_kernels.py": {
        "optimizer.md": ("_step", "KERNEL_KINDS")
    },
    "embeddings/hybrid_torchrec/hybrid_torchrec/backends/torch_steps.py": {"optimizer.md": ("STEPS",)},
    "kernels/row_math/row_kernels.h": {"optimizer.md": ("Updates",)},
    "kernels/row_math/optimizer_steps.inl": {"optimizer.md": ("updates",)},
    "twin/runtime/acl/settings.cpp": {"platform-version.md": ("TWIN_CANN_VERSION",)},
    "grstack/changed.py": {"recipe.md": ("PARTS",)},
    "smoke_tests/check.py": {"smoke-check.md": ("Context", "Outcome", "CheckFailed")},
    "twin/runtime/opapi/call.h": {"aclnn-function.md": ("ACLNN", "ACLNN_CHECKED")},
    "twin/runtime/opapi/patterns.h": {"aclnn-function.md": ("UNARY",)},
    "twin/runtime/opapi/types.cpp": {"aclnn-function.md": ("RULES",)},
    "twin/tests/ascendc/run_case.cpp": {"emulated-cores.md": ("CORRECT", "BROKEN")},
    "twin/tests/ascendc/test_correct_kernels.py": {"emulated-cores.md": ("KERNELS",)},
    "kernels/packaging/install.sh": {
        "installer.md": (
            "check_installed",
            "check_upgrade",
            "install_vendors",
            "parse_options",
            "settle",
            "stage_vendor",
            "swap_vendor",
        )
    },
}
PACKAGE = ROOT / "embeddings/hybrid_torchrec/hybrid_torchrec"


def page(name: str) -> str:
    return (DEVELOP / name).read_text(encoding="utf-8")


@cache
def spans(name: str) -> frozenset[str]:
    """What a page has between backquotes, outside of blocks of code."""
    return frozenset(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page(name), flags=re.M | re.S)))


def words(path: Path) -> set[str]:
    return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def left_out(name: str, wanted: set[str]) -> list[str]:
    return sorted(wanted - spans(name))


def files(folder: str, *patterns: str) -> set[str]:
    found = {path.name for pattern in patterns for path in (ROOT / folder).glob(pattern)}
    assert found, folder
    return found


@pytest.mark.parametrize("name", PLACES)
def test_a_page_names_its_places_and_they_exist(name: str) -> None:
    named = {span.rstrip("/") for span in spans(name)}
    assert [place for place in PLACES[name] if place not in named] == []
    assert [place for place in PLACES[name] if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in NAMES.items() for name in names])
def test_a_name_that_a_page_speaks_of_is_in_its_file(file: str, name: str) -> None:
    text = page(name)
    assert [word for word in NAMES[file][name] if not re.search(rf"\b{word}\b", text)] == []
    assert set(NAMES[file][name]) - words(ROOT / file) == set()


def test_every_page_is_in_the_map() -> None:
    names = {path.name for path in DEVELOP.glob("*.md")} - {"README.md"}
    assert set(PLACES) <= names
    assert [name for name in sorted(names) if f"({name})" not in page("README.md")] == []


# target.md, recipe.md


def test_the_targets_with_an_image_are_those_that_the_page_says() -> None:
    assert set(SPEC.targets) == set(spec.TARGETS)
    with_image = {name for name in spec.TARGETS if (ROOT / "docker" / name).is_dir()}
    (having,) = re.findall(r"\*\*(.+) have an image\.\*\*", page("target.md"))
    assert set(re.findall(r"`(\w+)`", having)) == with_image
    locked = {path.name.partition("-")[0] for path in (ROOT / "locks").glob("*.json")}
    assert locked == {*spec.TARGETS, *spec.BESIDE}


def test_a_target_s_components_have_recipes_for_its_platforms() -> None:
    for name, target in SPEC.targets.items():
        for platform in target.platforms or (name,):
            there = recipes.load_all(ROOT, platform, target.components, dict.fromkeys(SPEC.operators, ()))
            assert bool(there) == bool(target.components), (name, platform)
    folders = {path.parent.name for path in (ROOT / "recipes").glob("*/recipe.yaml")}
    listed = {component for target in SPEC.targets.values() for component in target.components}
    assert folders == listed
    assert listed <= set(PARTS)
    platforms = {name for recipe in folders for name in platforms_of(recipe)}
    built = {name: target for name, target in SPEC.targets.items() if target.components}
    assert platforms == {platform for name, target in built.items() for platform in target.platforms or (name,)}


def platforms_of(recipe: str) -> list[str]:
    text = (ROOT / "recipes" / recipe / "recipe.yaml").read_text(encoding="utf-8")
    (names,) = re.findall(r"^platforms: \[(.*)\]$", text, re.MULTILINE)
    return str(names).split(", ")


# platform-version.md


def test_every_platform_says_the_same_cann_as_the_twin() -> None:
    info = (ROOT / "twin/runtime/version.info").read_text(encoding="utf-8")
    platforms = SPEC.targets["npu"].platforms
    assert set(platforms) == set(spec.PLATFORMS)
    assert {f"Version={platform.cann}" for platform in platforms.values()} <= set(info.splitlines())


def test_the_worked_example_is_a_row_of_the_table_and_still_ahead() -> None:
    old, old_npu, new, new_npu = re.findall(
        r"CANN (\S+) with torch_npu (\S+) to CANN (\S+) with (\S+)\.", page("platform-version.md")
    )[0]
    pairs = {(row.cann, row.version) for row in SPEC.compatibility if row.package == "torch_npu"}
    assert {(old, old_npu), (new, new_npu)} <= pairs
    npu = SPEC.targets["npu"]
    assert (npu.platforms["twin"].cann, npu.packages["torch_npu"]) == (old, old_npu)


def test_texts_beside_the_readme_name_the_versions_of_the_spec() -> None:
    npu = SPEC.targets["npu"]
    outside = (ROOT / "grstack/new/templates/outside/README.md").read_text(encoding="utf-8")
    for name in ("torch", "torch_npu"):
        assert f"`{name}=={npu.packages[name]}`" in outside
    message = (ROOT / "recipes/operators/cann/CMakeLists.txt").read_text(encoding="utf-8")
    assert f"toolkit package {npu.platforms['cann'].cann} " in message
    assert f'"torch_npu": "{npu.packages["torch_npu"]}"' in (ROOT / "twin/tests/package/test_commands.py").read_text(
        encoding="utf-8"
    )


# torchrec-bump.md


def test_private_names_of_torchrec_are_in_the_file_that_the_page_names() -> None:
    """And every file of ours that imports a private name of torchrec is named."""
    (pipeline,) = [path for path in (ROOT / "gr_model").rglob("pipeline.py") if "tests" not in path.parts]
    cached = ROOT / "embeddings/torchrec_embcache/torchrec_embcache/pipeline.py"
    users = {pipeline: "gr_model/**/pipeline.py", PACKAGE / "distributed/pipeline.py": "", cached: ""}
    bullets = dict(re.findall(r"^ +- `([\w/*]+\.py)`: (.*);?$", page("torchrec-bump.md"), re.MULTILINE))
    for path, label in users.items():
        names = re.findall(r"`(?:utils\.)?(_\w+)`", bullets[label or str(path.relative_to(ROOT))])
        assert names and set(names) <= words(path), path
        assert set(private_names_of_others(path)) - private_names_of_ours(users) <= set(names), path
    importers = {path for path in sources() if any(private_imports(path))}
    assert importers <= set(users)


def sources() -> Iterator[Path]:
    for folder in ("gr_model", "embeddings", "smoke_tests", "kernels/gr_ops"):
        yield from (path for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts[len(ROOT.parts) + 1 :])


def private_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torchrec":
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))


def private_names_of_others(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            yield node.attr


def private_names_of_ours(paths: Iterable[Path]) -> set[str]:
    """Methods that these files define and attributes that they assign. What torchrec calls is in the page's list."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    stored = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return stored | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_the_release_of_torchrec_is_named_where_its_patches_are() -> None:
    version = SPEC.targets["npu"].packages["torchrec"]
    assert f"torchrec {version} wheel" in (ROOT / "patches/torchrec/series").read_text(encoding="utf-8").splitlines()[0]


def test_tests_that_name_torchrec_s_version_are_listed() -> None:
    version = str(SPEC.targets["npu"].packages["torchrec"])
    candidates = [*(ROOT / "recipes/torchrec").rglob("*.py"), *(ROOT / "smoke_tests").rglob("*.py")]
    naming = [path for path in candidates if re.search(rf"torchrec-{version}|{version}\+npu", path.read_text())]
    assert len(naming) > 2
    assert left_out("torchrec-bump.md", {str(path.relative_to(ROOT)) for path in naming}) == []
    assert SPEC.targets["cpu"].packages["torchrec"] == version


# smoke-check.md


def registry() -> list[ast.Call]:
    tree = ast.parse((ROOT / "smoke_tests/registry.py").read_text(encoding="utf-8"))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Check"]
    assert len(calls) > 5
    return calls


def test_every_smoke_check_has_its_module_and_known_targets() -> None:
    for call in registry():
        name, function = ast.literal_eval(call.args[0]), ast.unparse(call.args[2])
        assert function == f"{name}.run"
        module = ast.parse((ROOT / f"smoke_tests/checks/{name}.py").read_text(encoding="utf-8"))
        assert "run" in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    text = (ROOT / "smoke_tests/registry.py").read_text(encoding="utf-8")
    targets = {name for group in re.findall(r'\(((?:"\w+",? ?)+)\)', text) for name in re.findall(r'"(\w+)"', group)}
    assert targets and targets <= set(spec.TARGETS)


def test_a_module_of_the_smoke_test_that_runs_is_registered() -> None:
    names = {ast.literal_eval(call.args[0]) for call in registry()}
    for path in (ROOT / "smoke_tests/checks").glob("*.py"):
        runs = "\ndef run(context: Context) -> Outcome:" in path.read_text(encoding="utf-8")
        assert runs == (path.stem in names), path.name


# aclnn-function.md


def test_every_family_of_aclnn_functions_is_listed() -> None:
    folder = "twin/runtime/opapi"
    assert left_out("aclnn-function.md", files(folder, "*.cpp")) == []
    families = {
        path.name for path in (ROOT / folder).glob("*.cpp") if re.search(r"^\w*\((acl\w+)", path.read_text(), re.M)
    }
    table = set(re.findall(r"^\|.*\| `(\w+\.cpp)` \|$", page("aclnn-function.md"), re.MULTILINE))
    assert table == families
    assert "aclnnAbs, at::abs" in (ROOT / folder / "elementwise.cpp").read_text(encoding="utf-8")


# emulated-cores.md


def test_every_header_source_and_room_of_the_twin_is_listed() -> None:
    name = "emulated-cores.md"
    headers = files("twin/include/ascendc", "*.h")
    included = re.findall(r'"ascendc/(\w+\.h)"', (ROOT / "twin/include/kernel_operator.h").read_text(encoding="utf-8"))
    assert included and set(included) <= headers
    assert left_out(name, headers) == []
    sources = files("twin/cores", "*.cpp") | files("twin/cores/opcall", "*.cpp")
    sources -= {"fiber.cpp"}  # stacks, below the scheduler
    assert left_out(name, sources) == []
    rooms = {path.name for path in (ROOT / "twin").iterdir() if path.is_dir()} - {"tests", "__pycache__"}
    assert left_out(name, {f"{room}/" for room in rooms}) == []
    libraries = {path.parent.name for path in (ROOT / "twin/runtime").glob("*/CMakeLists.txt")}
    assert left_out(name, libraries) == []
    suites = {path.name for path in (ROOT / "twin/tests").iterdir() if any(path.glob("test_*.py"))}
    assert left_out(name, suites) == []


def test_every_kernel_of_the_cores_tests_is_run() -> None:
    tests = ROOT / "twin/tests/ascendc"
    kernels = re.findall(r"^ +(CORRECT|BROKEN)\((\w+)\)", (tests / "run_case.cpp").read_text(encoding="utf-8"), re.M)
    assert len(kernels) > 50
    for kind, file in (("CORRECT", "test_correct_kernels.py"), ("BROKEN", "test_broken_kernels.py")):
        assert {name for sort, name in kernels if sort == kind} - words(tests / file) == set()


# installer.md


def test_every_script_of_the_installer_is_listed() -> None:
    folder = ROOT / "kernels/packaging"
    assert left_out("installer.md", files("kernels/packaging", "*.sh", "help.info", "VERSION")) == []
    carried = re.search(r"for file in (.*); do", (folder / "pack.sh").read_text(encoding="utf-8"))
    assert carried
    table = re.findall(r"^\| `([\w.]+)` \| (when built|there|first)", page("installer.md"), re.MULTILINE)
    assert {name for name, when in table if when == "there"} == set(carried[1].split())
    upgrade = (folder / "upgrade.sh").read_text(encoding="utf-8")
    assert len(upgrade.splitlines()) == 5 and "`upgrade.sh` | there | five lines" in page("installer.md")


@pytest.mark.parametrize("room", ["twin", "kernels", "tests", "smoke_tests"])
def test_a_room_s_readme_names_what_lies_in_it(room: str) -> None:
    text = (ROOT / room / "README.md").read_text(encoding="utf-8")
    inside = {p.stem for p in (ROOT / room).iterdir() if not p.name.startswith(("_", ".")) and p.name != "README.md"}
    assert [name for name in sorted(inside) if not re.search(rf"\b{name}\b", text)] == []


def _programs(file: Path) -> set[str]:
    """Whose absence a test looks for: the text in shutil.which(), else what its file's tuple of names has."""
    text = file.read_text(encoding="utf-8")
    named = set(re.findall(r'which\("([\w+-]+)"\)', text))
    if "which(name)" in text:
        listed = re.search(r"for name in \(([^)]*)\)|^COMMANDS = \(([^)]*)\)", text, re.MULTILINE)
        assert listed is not None, file
        named |= set(re.findall(r'"([\w-]+)"', listed[1] or listed[2]))
    return named - {"sbatch", "scancel", "scontrol", "squeue"}  # of the package that has slurmctld


def test_testing_names_each_program_that_tests_on_the_host_look_for() -> None:
    page = (DEVELOP / "testing.md").read_text(encoding="utf-8")
    rows = "".join(line for line in page.splitlines() if line.startswith("| `"))
    wanted = {
        name: file
        for part in ("unit", "integration")
        for file in (ROOT / "tests" / part).glob("test_*.py")
        for name in _programs(file)
        if file != Path(__file__).resolve()
    }
    assert {"kubectl", "slurmctld", "docker-registry"} <= set(wanted)
    assert [name for name in wanted if f"`{name}`" not in rows] == []
