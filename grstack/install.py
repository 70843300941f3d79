"""Installs built operator packages into an opp directory of this host."""

from __future__ import annotations

import os
from pathlib import Path

from grstack.engines.artefacts import Artefacts
from grstack.errors import PackageError, UsageError
from grstack.run import CommandFailed
from grstack.session import Session


def check_soc(s: Session, operators: tuple[str, ...], soc: str) -> None:
    """Refuses a SoC for which one of the operators is not built."""
    known = sorted({name for operator in operators for name in s.versions.operators[operator].socs})
    if soc not in known:
        raise UsageError.unknown("SoC", soc, known)


def check_target(target: Path) -> None:
    """Refuses a directory that cannot be written, before anything is built for it."""
    place = next(path for path in (target, *target.parents) if path.exists())
    vendors = target / "vendors"
    for path in (place, vendors):
        if path.exists() and not (path.is_dir() and os.access(path, os.W_OK)):
            raise PackageError(
                f"{path} cannot be written by user {os.geteuid()}",
                next_command="the same as its owner, or --into another directory",
            )


def packages(s: Session, operators: tuple[str, ...], soc: str) -> list[Path]:
    """The .run files to install: those of the operators, or those of one SoC."""
    artefacts = Artefacts(s.paths)
    found = []
    for step in s.plan.components:
        assert step.recipe is not None
        if not soc and step.recipe.operator and (not operators or step.recipe.operator in operators):
            found += sorted(artefacts.directory(step).glob("*.run"))
        if soc and step.name == "packages":
            names = operators or ("all",)
            found += [p for n in names for p in sorted(artefacts.directory(step).glob(f"mxrec_opp_{n}_{soc}_*.run"))]
    return found


def install(s: Session, files: list[Path], target: Path, *, force: bool = False) -> None:
    """Runs each package's own installer. What the variables of this shell name is not where it goes."""
    target.mkdir(parents=True, exist_ok=True)
    # With a toolkit the installer opens the libraries; ASCEND_CUSTOM_OPP_PATH would be another target.
    env = {"ASCEND_OPP_PATH": str(target), "ASCEND_CUSTOM_OPP_PATH": ""}
    for file in files:
        argv = ["bash", str(file), "--quiet", *(["--force"] if force else [])]
        try:
            s.runner.stream(argv, log=s.paths.logs / "install-ops.log", env=env)
        except CommandFailed as error:
            said = [line.removeprefix("ERROR: ") for line in error.tail if line.startswith("ERROR: ")]
            raise PackageError(
                f"{file.name} was not installed: {' '.join(said) or error.what}",
                where=str(target),
                next_command=f"inv opp list --into '{target}'",
            ) from error
    _warn_of_custom_path(s, target)


def _warn_of_custom_path(s: Session, target: Path) -> None:
    from grstack.opp.search import Environment, candidates, serving

    found = candidates(Environment.of(os.environ, opp=str(target)))
    for answer in serving(found):
        ours = [c for c in answer.shadowed if c.vendor.path.startswith(f"{target}/")]
        if ours and answer.by is not None:
            s.console.print(
                f"[yellow]warning[/yellow]: {answer.operator} is still taken from {answer.by.vendor.path}"
                f" ({answer.by.found_by}); next: inv opp which {answer.operator} --into '{target}'",
                soft_wrap=True,
            )
