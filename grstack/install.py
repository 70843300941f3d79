"""Installs built operator packages into an opp directory of this host."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from grstack.engines.artefacts import Artefacts
from grstack.errors import PackageError, UsageError
from grstack.run import CommandFailed
from grstack.session import Session


def check_soc(s: Session, operators: tuple[str, ...], soc: str) -> None:
    """Refuses a SoC for which one of the operators is not built."""
    built = {name for operator in operators for name in s.versions.operators[operator].socs}
    known = [name for name in s.versions.socs if name in built]
    if soc in known:
        return
    reasons = {s.versions.operators[operator].refused.get(soc) for operator in operators} - {None}
    if reasons:
        raise UsageError(
            f"nothing is built for {soc}: {'; '.join(sorted(filter(None, reasons)))}",
            next_command=f"inv install-ops --into DIR --soc {known[0]}" if known else "inv install-ops --into DIR",
        )
    raise UsageError.unknown("SoC", soc, known)


def check_target(target: Path) -> None:
    """Refuses a directory that cannot be written, before anything is built for it."""
    place = next(path for path in (target, *target.parents) if path.exists())
    if ":" in str(target) and not is_toolkits(target):
        raise PackageError(
            f"{target} cannot be an entry of ASCEND_CUSTOM_OPP_PATH, whose entries colons part",
            next_command="inv install-ops --into another directory",
        )
    vendors = target / "vendors"
    for path in (place, vendors):
        if path.exists() and not (path.is_dir() and os.access(path, os.W_OK)):
            raise PackageError(
                f"{path} cannot be written by user {os.geteuid()}",
                next_command="the same command with --into ~/opp, which ASCEND_CUSTOM_OPP_PATH then names"
                " (source ~/opp/vendors/set_env.bash), or the same command by root",
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


def is_toolkits(target: Path) -> bool:
    """Whether this is the opp directory of a toolkit, which finds its vendors without another variable."""
    named = (os.environ.get("ASCEND_OPP_PATH"), f"{os.environ.get('ASCEND_HOME_PATH', '')}/opp")
    places = [Path(path).resolve() for path in named if path and path != "/opp"]
    return target.resolve() in places or (target / "built-in").is_dir()


def use(target: Path) -> str:
    """What to type so that programs find what is installed. ASCEND_OPP_PATH=target would hide the toolkit's own."""
    return "" if is_toolkits(target) else f"source {shlex.quote(str(target / 'vendors/set_env.bash'))}"


def install(s: Session, files: list[Path], target: Path, *, force: bool = False) -> None:
    """Runs each package's own installer. What the variables of this shell name is not where it goes."""
    target.mkdir(parents=True, exist_ok=True)
    # An installer takes a custom directory for one that needs a set_env.bash, and the toolkit's for one that does not.
    toolkits = is_toolkits(target)
    variables = ("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH")
    env = dict(zip(variables, (str(target), "") if toolkits else ("", str(target))))
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
