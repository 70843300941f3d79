"""`python -m ascend_twin env | info | run CMD | selftest`: the emulated Ascend platform in any virtual environment."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from ascend_twin.conformance import command as conformance
from ascend_twin.home import NoHome, find_home, variables
from ascend_twin.info import RuntimeFault, check_settings, gather, text

NOT_FOUND = 127  # as a shell says that there is no such command
USAGE = 2
OPTIONS = {"devices": "TWIN_NPU_COUNT", "soc": "TWIN_NPU_SOC", "aten": "TWIN_ATEN", "streams": "TWIN_STREAMS"}  # of run


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(words)
    arguments.words = words[1:]  # behind the name of the command
    try:
        return int(arguments.act(arguments))
    except (NoHome, RuntimeFault) as error:
        print(f"ascend-twin: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `env | head`
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ascend_twin", description="An emulated Ascend NPU for torch_npu.")
    commands = parser.add_subparsers(required=True, metavar="env|info|run|selftest")
    env = commands.add_parser("env", help='shell exports: eval "$(python -m ascend_twin env)"')
    env.set_defaults(act=_env)
    info = commands.add_parser("info", help="versions and devices")
    info.add_argument("--json", action="store_true")
    info.set_defaults(act=_info)
    run = commands.add_parser("run", help="a command with the emulated NPU in place")
    run.add_argument("--devices", type=_positive, help="how many NPUs to emulate (TWIN_NPU_COUNT)")
    run.add_argument("--soc", help="the chip to answer as, such as Ascend910B2 (TWIN_NPU_SOC)")
    run.add_argument("--aten", choices=["override", "aclnn"], help="how ATen operators run (TWIN_ATEN)")
    run.add_argument(
        "--streams", choices=["free", "strict"], help="strict: uses of memory that nothing orders fail (TWIN_STREAMS)"
    )
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD ...")
    run.set_defaults(act=_run)
    selftest = commands.add_parser(
        "selftest",
        help="does it work here? with --full: the conformance run over every operator",
        description="Without options: tensors, a training, streams and a collective of two processes, compared with "
        f"the CPU; seconds. With any option the conformance run. {conformance.DESCRIPTION}",
        parents=[conformance.options()],
    )
    selftest.set_defaults(act=_selftest)
    return parser


def _positive(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number of devices")
    return int(value)


def _env(arguments: argparse.Namespace) -> int:
    for name, value in variables(find_home(os.environ), os.environ).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _log_nothing() -> None:
    """Of this process alone: the library's log would tell a fault that is told here."""
    os.environ.setdefault("TWIN_LOG", "off")


def _info(arguments: argparse.Namespace) -> int:
    _log_nothing()
    found = gather(find_home(os.environ))
    print(json.dumps(found.as_data(), indent=1) if arguments.json else text(found))
    return 0


def _run(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        print("ascend-twin: run what? python -m ascend_twin run python train.py", file=sys.stderr)
        return USAGE
    asked = {variable: getattr(arguments, option) for option, variable in OPTIONS.items()}
    given = {variable: str(value) for variable, value in asked.items() if value is not None}
    try:
        return _become(command, given)
    except RuntimeFault as error:
        said = str(error)
        for option, variable in OPTIONS.items():
            if variable in given:
                said = said.replace(f"{variable}='", f"--{option} '")
        print(f"ascend-twin: {said}\nnext: python -m ascend_twin run --help", file=sys.stderr)
        return 1


def _selftest(arguments: argparse.Namespace) -> int:
    module = "ascend_twin.conformance" if arguments.words else "ascend_twin.smoke"
    return _become([sys.executable, "-m", module, *arguments.words], {"OMP_NUM_THREADS": "1"})


def _become(command: Sequence[str], settings: dict[str, str]) -> int:
    """Replaces this process, so that signals and the exit code are the command's own."""
    home = find_home(os.environ)
    os.environ.update(settings)
    environment = {**os.environ, **variables(home, os.environ)}
    _log_nothing()
    check_settings(home)  # a chip that does not exist is told now, not when the program first uses a device
    program = shutil.which(command[0], path=environment["PATH"])
    if program is not None:
        sys.stdout.flush()
        os.execve(program, list(command), environment)
    print(f"ascend-twin: {command[0]}: no such command", file=sys.stderr)
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main())
