"""Runs the checks of the image's target; exit code 0 if all hold, 1 if one does not, 2 for wrong arguments."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gr_model.common import files
from smoke_tests import report, runner, side_by_side
from smoke_tests.check import Context
from smoke_tests.registry import CHECKS

MANIFEST_KEYS = ("target", "platform", "python", "arch")


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    lock, manifest = _read(parser, options.lock), _read(parser, options.manifest)
    missing = [key for key in MANIFEST_KEYS if key not in manifest]
    if missing:
        parser.error(f"{options.manifest}: lacks {', '.join(missing)}")
    if "packages" not in lock:
        parser.error(f"{options.lock}: not a lock file")
    checks = {check.name: check for check in CHECKS if manifest["target"] in check.targets}
    unknown = [name for name in options.only if name not in checks]
    if unknown:
        parser.error(f"no check {', '.join(unknown)} for target {manifest['target']}; valid: {', '.join(checks)}")

    if options.worker:
        context = Context(options.data_dir, options.result.parent, lock, manifest)
        return runner.work(checks[options.worker], context, options.result)

    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [checks[name] for name in options.only] or list(checks.values())
    print(f"smoke test: {report.platform_line(manifest)}, {len(chosen)} checks", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smoke-") as scratch:
        context = Context(options.data_dir, Path(scratch), lock, manifest)
        results = side_by_side.run(chosen, context, arguments, at_once=side_by_side.at_once(context))
    seconds = time.monotonic() - begin
    print("\n" + report.text_table(results))
    files.write_text(
        options.out / "smoke-report.json", json.dumps(report.json_report(results, manifest, seconds), indent=1) + "\n"
    )
    files.write_text(options.out / "smoke-report.html", report.html_report(results, manifest))
    print(f"\n{report.count(results)}; {options.out / 'smoke-report.html'}")
    return 0 if all(result.passed or result.skipped for result in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m smoke_tests", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for smoke-report.json and smoke-report.html")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder that holds ml-100k/")
    parser.add_argument("--lock", type=Path, required=True, help="lock file of the image")
    parser.add_argument("--manifest", type=Path, required=True, help="what the image was made from")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CHECK",
        help=f"run only this one; repeatable: {', '.join(check.name for check in CHECKS)}",
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    return parser


def _read(parser: argparse.ArgumentParser, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        parser.error(f"{path}: {error}")
    if not isinstance(data, dict):
        parser.error(f"{path}: not a JSON object")
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
