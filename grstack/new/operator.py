"""A new Ascend C operator: in this repository, or as a project of its own."""

from __future__ import annotations

import re
from pathlib import Path

from grstack.errors import UsageError
from grstack.new.name import Name
from grstack.new.plan import Insertion, Plan
from grstack.new.render import TEMPLATE, TEMPLATES, rendered

INSIDE = TEMPLATES / "operator"
OUTSIDE = TEMPLATES / "outside"
SOCS = "[ascend910b, ascend910_93]"  # as the template's op_host declares them (AddConfig)
OPERATORS = Path("kernels/operators")
PLUGIN = Path("kernels/gr_ops/csrc")
# What an outside project takes from this repository as it is: the way torch calls an aclnn operator, and the build by
# the toolkit.
SHARED = {
    "binding/aclnn": PLUGIN / "aclnn",
    "cann": Path("recipes/operators/cann"),
}


def inside(root: Path, name: Name) -> Plan:
    """The operator in the checkout `root`: sources, plugin, tests, and its row in versions.yaml."""
    _refuse_known(root, name)
    return Plan(
        files=rendered(INSIDE, root, name),
        insertions=(_row(root / "versions.yaml", name),),
        next_commands=(
            "inv install-ops --op " + name.snake,
            "inv build-image",
            f'inv run "python -m pytest -q kernels/operators/{name.snake}"',
            f'inv run "python -m pytest -q kernels/gr_ops/tests/test_{name.snake}.py"',
            "PYTHONPATH=$PWD .venv/bin/python -m pytest -q tests/golden --snapshot-update   # plans name operators",
            "inv test",
        ),
    )


def beside(root: Path, name: Name, folder: Path) -> Plan:
    """The same operator as a project in `folder`, with a torch binding of its own."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty; name a folder that is not there yet",
            next_command=f"inv new operator {name.snake} --outside {folder / name.snake}",
        )
    files = rendered(OUTSIDE, folder, name)
    operator = INSIDE / OPERATORS / TEMPLATE.snake
    for part in ("op_host", "op_kernel"):
        files |= rendered(operator / part, folder / part, name)
    for place, source in SHARED.items():
        for file in sorted(path for path in (root / source).iterdir() if path.is_file()):
            files[folder / place / file.name] = file.read_text(encoding="utf-8")
    files[folder / "LICENSE"] = (root / "LICENSE").read_text(encoding="utf-8")
    return Plan(
        files=files,
        executable=frozenset({folder / "build.sh"}),
        next_commands=(
            f"cd {folder}",
            "python -m ascend_twin run ./build.sh   # or, with CANN: source set_env.sh && ./build.sh",
            "python -m ascend_twin run python -m pytest -q tests",
        ),
    )


def _refuse_known(root: Path, name: Name) -> None:
    for folder in (root / OPERATORS / name.snake, root / PLUGIN / name.snake):
        if folder.exists():
            raise UsageError(
                f"there is an operator or a folder '{name.snake}' already: {folder}", next_command=f"ls {folder}"
            )
    schema = re.compile(rf'"{name.snake}[(.]')
    for file in sorted((root / PLUGIN).rglob("schemas*.cpp")):
        if schema.search(file.read_text(encoding="utf-8")):
            raise UsageError(f"mxrec::{name.snake} is registered already: {file}", next_command=f"less {file}")


def _row(versions: Path, name: Name) -> Insertion:
    """The operator's row behind the last one of `operators:`."""
    lines = versions.read_text(encoding="utf-8").splitlines()
    try:
        last = lines.index("operators:")
    except ValueError:
        raise UsageError(f"{versions} has no line 'operators:'", next_command="inv lock --check") from None
    for number in range(last + 1, len(lines)):
        if not lines[number].startswith("  "):
            break
        last = number
    return Insertion(versions, last + 1, f"  {name.snake}: {{socs: {SOCS}}}")
