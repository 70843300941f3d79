"""`inv opp ACTION`: the place that is looked at, and the answer."""

from __future__ import annotations

import os
from pathlib import Path

from grstack.engines import Mount
from grstack.errors import StepError, UsageError
from grstack.opp import show
from grstack.opp.remove import remove
from grstack.opp.scan import State, scan
from grstack.opp.search import Environment, which
from grstack.session import Session

ACTIONS = {
    "list": "every vendor, in the order in which the runtime asks them",
    "which": "which vendor serves an operator, and why: inv opp which AsynchronousCompleteCumsum",
    "verify": "hashes, ELF libraries, undefined symbols, conflicts; exit code 1 if something must be mended",
    "remove": "uninstall a vendor from an opp directory of this host: inv opp remove mxrec_dense_to_jagged",
}
VARIABLES = ("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH")


def opp(
    s: Session,
    action: str,
    name: str = "",
    *,
    into: str = "",
    image: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> int:
    """Carries out one action; returns the exit code."""
    if action not in ACTIONS:
        raise UsageError.unknown("action", action, ACTIONS, next_command="inv --help opp")
    if (action in ("which", "remove")) != bool(name):
        what = {"which": "an operator", "remove": "a vendor"}.get(action, "no name")
        raise UsageError(f"inv opp {action} takes {what}", next_command="inv opp list")
    host = bool(into) or (not image and any(os.environ.get(variable) for variable in VARIABLES))
    if action == "remove" and not host:
        raise UsageError(
            "the vendors of an image come from its build and cannot be removed from it",
            next_command="take the operator out of versions.yaml, or name an opp directory of this host: --into DIR",
        )
    place, state = _host(into, action) if host else _image(s, action)
    return _answer(s, action, name, place, state, force=force, as_json=as_json)


def _host(into: str, action: str) -> tuple[str, State]:
    opp = str(Path(into).expanduser().resolve()) if into else ""
    environment = Environment.of(os.environ, opp=opp)
    if environment.opp and not Path(environment.opp).is_dir():
        raise UsageError(
            f"{environment.opp} is not a directory",
            next_command=f"inv install-ops --into {environment.opp}, or correct --into or ASCEND_OPP_PATH",
        )
    return environment.opp or "ASCEND_CUSTOM_OPP_PATH", scan(environment, verified=action == "verify")


def _image(s: Session, action: str) -> tuple[str, State]:
    """Looks from inside the image, with this checkout's scanner."""
    image = s.engine.locate(s.plan, s.plan.image)
    if not s.engine.is_built(s.plan, s.plan.image):
        raise UsageError(f"{image} is not built from these sources yet", next_command="inv build-image")
    out = s.paths.build / "opp"
    out.mkdir(parents=True, exist_ok=True)
    answer = out / "state.json"
    answer.unlink(missing_ok=True)
    source, mount = Mount(source=s.paths.root, name="source"), Mount(source=out, name="out", writable=True)
    argv = ["python", "-m", "grstack.opp.scan", "--out", f"{s.engine.path_of(mount)}/{answer.name}"]
    argv += ["--verify"] if action == "verify" else []
    env = {
        "PYTHONPATH": s.engine.path_of(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    code = s.engine.run(s.plan, argv, mounts=[source, mount], env=env)
    if code or not answer.is_file():
        raise StepError(
            f"the vendors of the image could not be read (exit code {code})",
            where=str(s.paths.logs / "run.log"),
            next_command="inv smoke-test",
        )
    return image, State.from_json(answer.read_text())


def _answer(s: Session, action: str, name: str, place: str, state: State, *, force: bool, as_json: bool) -> int:
    console = s.console
    failed = any(problem.severity == "error" for problem in state.problems or ())
    if action == "remove":
        gone = remove(state.found, name, s.runner, force=force)
        console.print(f"removed {gone}", soft_wrap=True)
        return 0
    if as_json:
        print(state.to_json())
        return int(failed)
    if action == "list":
        show.vendors(state, place, console)
    elif action == "verify":
        show.problems(state.problems or (), place, len(state.found), console)
        return int(failed)
    else:
        answer = which(state.found, name)
        if answer is None:
            known = sorted({o for c in state.found for o in c.vendor.operators})
            raise UsageError.unknown("operator", name, known or ["none"], next_command="inv opp list")
        show.serving(answer, console)
        return int(answer.by is None)
    return 0
