"""Component outputs on the host: finished directories appear by rename, so a half-built one is never taken."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from grstack import ascend, keys
from grstack.engines.base import Inputs
from grstack.errors import StepError
from grstack.files import sha256_of
from grstack.paths import Paths
from grstack.plan import Plan, Step

MANIFEST = "manifest.json"
PUBLISHED = ".published.json"  # names of what is ours among the packages


class Artefacts:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    def directory(self, step: Step) -> Path:
        return self.paths.artefacts / step.name / step.short_key

    def exists(self, step: Step) -> bool:
        return (self.directory(step) / MANIFEST).is_file()

    def manifest(self, step: Step) -> dict[str, str]:
        """File name -> sha256 of a finished component."""
        content: dict[str, str] = json.loads((self.directory(step) / MANIFEST).read_text())
        return content

    def mark_used(self, step: Step) -> None:
        """Another checkout's `inv clean` leaves alone what was used lately."""
        os.utime(self.directory(step))

    def begin(self, step: Step) -> Path:
        """A fresh place for the output of a build."""
        out = self.paths.scratch / f"{step.name.replace('/', '-')}-{step.short_key}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        return out

    def finish(self, step: Step, out: Path) -> None:
        """Checks that everything promised is there, then moves it into place in one step."""
        assert step.recipe is not None
        for pattern in step.recipe.outputs:
            if not any(out.glob(pattern)):
                raise StepError(
                    f"{step.name} was built, but its recipe promises '{pattern}' and nothing matches",
                    where=f"recipes/{step.recipe.folder}/recipe.yaml",
                    next_command=f"less {self.paths.logs}/{step.name.replace('/', '-')}.log",
                )
        files = {f.relative_to(out).as_posix(): sha256_of(f) for f in keys.files_under(out) if f.is_file()}
        (out / MANIFEST).write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")
        os.sync()  # a power cut after the rename must not show an empty file
        final = self.directory(step)
        final.parent.mkdir(parents=True, exist_ok=True)
        arrived = final.with_name(f".{final.name}-{os.getpid()}")
        shutil.rmtree(arrived, ignore_errors=True)
        shutil.move(out, arrived)  # the cache may be on another file system
        if not self.exists(step):  # another checkout may have built the same meanwhile
            shutil.rmtree(final, ignore_errors=True)
            arrived.rename(final)
        shutil.rmtree(arrived, ignore_errors=True)

    def publish(self, steps: tuple[Step, ...]) -> None:
        """Copies the packages of these steps to one place with plain names. What is there stays where one is gone.

        Of what is there already, those go that an earlier build has put there.
        """
        if not all(self.exists(step) for step in steps):
            return
        place = self.paths.packages
        place.mkdir(parents=True, exist_ok=True)
        listing = place / PUBLISHED
        for name in _listed(listing):
            (place / Path(name).name).unlink(missing_ok=True)
        packages = [self.directory(step) / name for step in steps for name in self.manifest(step)]
        packages = [path for path in packages if path.name.endswith((".run", ".whl"))]
        listing.write_text(json.dumps(sorted(path.name for path in packages)) + "\n")
        for path in packages:
            shutil.copy2(path, place)


def _listed(listing: Path) -> list[str]:
    """What an earlier build put there; nothing where its list is not whole, so that no file of others is removed."""
    try:
        names = json.loads(listing.read_text())
    except (FileNotFoundError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def stage_sources(root: Path, step: Step, into: Path) -> Path:
    """A copy of exactly the files that a recipe declares: what it does not declare it cannot read.

    Raises where a file was edited since the plan was made: the result would stand under the wrong key.
    """
    recipe = step.recipe
    assert recipe is not None
    shutil.rmtree(into, ignore_errors=True)
    ignored = shutil.ignore_patterns(*keys.IGNORED)
    planned = dict(step.inputs)
    for path in recipe.sources:
        source, destination = root / path, into / path
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, destination, ignore=ignored, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, destination)
        else:
            raise StepError(
                f"{step.name} declares the input '{path}', which does not exist",
                where=f"recipes/{recipe.folder}/recipe.yaml",
                next_command=f"git status {path}",
            )
        if keys.of_tree(destination) != planned[path]:
            raise StepError(f"{path} was edited while the build ran", next_command="the same command again")
    return into


def build_environment(step: Step, platform: str, arch: str, places: dict[str, str], home: str = "") -> dict[str, str]:
    """The variables of a recipe's build.sh. `places` maps source, out, deps, wheels, python to paths; `home` is where
    the machine that builds has CANN's toolkit."""
    assert step.recipe is not None
    variables = {
        "GRSTACK_SOURCE": places["source"],
        "GRSTACK_OUT": places["out"],
        "GRSTACK_DEPS": places["deps"],
        "GRSTACK_WHEELS": places["wheels"],
        "GRSTACK_PYTHON": places["python"],
        "GRSTACK_JOBS": str(os.cpu_count() or 2),
        "GRSTACK_PLATFORM": platform,
        "GRSTACK_ARCH": arch,
        "SOURCE_DATE_EPOCH": "1700000000",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(ascend.variables(home) if home else {}),
    }
    if step.recipe.operator:
        variables["GRSTACK_OPERATOR"] = step.recipe.operator
        variables["GRSTACK_SOCS"] = ",".join(step.recipe.socs)
    if step.recipe.wheel:
        variables["GRSTACK_WHEEL"] = step.recipe.wheel
    return variables


def needed_wheels(step: Step, inputs: Inputs) -> dict[str, Path]:
    """The wheel files that a recipe asked for by package name."""
    recipe = step.recipe
    assert recipe is not None
    fetched = inputs.beside.get(recipe.beside, {}) if recipe.beside else inputs.wheels_all
    chosen = {name: path for name, path in fetched.items() if recipe.reads(name)}
    if len(chosen) < len(recipe.wheels):
        raise StepError(
            f"{step.name} reads the wheels {sorted(recipe.wheels)}, of which the lock has {sorted(chosen)}",
            next_command="inv lock",
        )
    return chosen


def manifest(
    plan: Plan,
    artefacts: Artefacts,
    base_packages: Mapping[str, str] | None = None,
    devel_packages: Collection[str] = (),
) -> dict[str, Any]:
    """What the image was made from; written into it as /opt/grstack/manifest.json."""
    return {
        "target": plan.target,
        "platform": plan.platform,
        "image": f"grstack/{plan.target}:{plan.tag or plan.platform}",
        "emulated": plan.platform == "twin",
        "python": plan.python,
        "arch": plan.arch,
        "key": plan.image.key,
        "base": {"reference": plan.base, "packages": dict(base_packages or {})},
        "devel_packages": sorted(devel_packages),  # locked, and in the devel variant alone
        "steps": {step.name: step.key for step in plan.steps},
        "operators": [s.recipe.operator for s in plan.components if s.recipe and s.recipe.operator],
        "files": {step.name: artefacts.manifest(step) for step in plan.components},
    }


def constraints(plan: Plan) -> str:
    """What pip in the image may not change: each locked version, without its local part (2.6.0 is also 2.6.0+cpu)."""
    wheels = [parse_wheel_filename(name) for name, _ in plan.step("wheels").inputs]
    lines = sorted(f"{name}=={version.public}" for name, version, _, _ in wheels)
    return "\n".join(["# The versions that this image was tested with.", *lines]) + "\n"
