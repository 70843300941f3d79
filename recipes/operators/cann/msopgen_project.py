"""Makes CANN's classic operator project (msopgen), puts our sources into it and runs its build.sh."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

# msopgen wants one SoC version for its skeleton; the preset that is written below says what is built.
SKELETON_UNIT = "ai_core-ascend910b1"
OP_ADD = re.compile(r"\bOP_ADD\(\s*(\w+)\s*\)")


def run(command: list[str], folder: Path) -> None:
    print(f"+ {shlex.join(command)}", flush=True)
    subprocess.run(command, cwd=folder, check=True)


def describe(operator: Path) -> list[dict[str, object]]:
    """msopgen's input: only the types count, since the files that it writes from the rest are replaced."""
    sources = sorted((operator / "op_host").glob("*.cpp"))
    types = [name for source in sources for name in OP_ADD.findall(source.read_text())]
    if not types:
        sys.exit(f"msopgen_project: {operator}/op_host registers no operator (OP_ADD)")

    def tensor(name: str) -> dict[str, object]:
        return {"name": name, "param_type": "required", "format": ["ND"], "type": ["fp32"]}

    return [{"op": name, "input_desc": [tensor("x")], "output_desc": [tensor("y")]} for name in types]


def place_sources(project: Path, operator: Path, common: Path) -> None:
    """The skeleton has one flat folder for the host and one for the kernel, each with its own CMakeLists.txt."""
    headers = [*sorted((operator / "op_kernel").glob("*.h")), *sorted(common.glob("*.h"))]
    for part in ("op_host", "op_kernel"):
        folder = project / part
        for old in [*folder.glob("*.cpp"), *folder.glob("*.h")]:
            old.unlink()
        for source in [*sorted((operator / part).glob("*.cpp")), *sorted((operator / part).glob("*.h")), *headers]:
            shutil.copy2(source, folder / source.name)


def set_preset(project: Path, values: dict[str, str]) -> None:
    file = project / "CMakePresets.json"
    content = json.loads(file.read_text())
    preset = next(p for p in content["configurePresets"] if p["name"] == "default")
    for name, value in values.items():
        variable = preset["cacheVariables"].setdefault(name, {"type": "STRING", "value": ""})
        if isinstance(variable, dict):
            variable["value"] = value
        else:
            preset["cacheVariables"][name] = value
    file.write_text(json.dumps(content, indent=4) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--msopgen", "--operator", "--common", "--toolkit", "--out"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--compute-unit", required=True, help="SoCs, separated by ;")
    parser.add_argument("--vendor", required=True)
    parser.add_argument("--python", required=True, help="what the toolkit's compilers run on")
    options = parser.parse_args()

    project: Path = options.out / "project"
    shutil.rmtree(project, ignore_errors=True)
    description = options.out / "operator.json"
    description.write_text(json.dumps(describe(options.operator), indent=2) + "\n")
    argv = [str(options.msopgen), "gen", "-i", str(description), "-f", "pytorch", "-c", SKELETON_UNIT]
    run([*argv, "-lan", "cpp", "-out", str(project)], options.out)
    place_sources(project, options.operator, options.common)
    preset = {
        "ASCEND_COMPUTE_UNIT": options.compute_unit,
        "ASCEND_CANN_PACKAGE_PATH": str(options.toolkit),
        "ASCEND_PYTHON_EXECUTABLE": options.python,
        "vendor_name": options.vendor,
        "ENABLE_SOURCE_PACKAGE": "True",
        "ENABLE_BINARY_PACKAGE": "True",
        "CMAKE_BUILD_TYPE": "Release",
    }
    set_preset(project, preset)
    run(["bash", "build.sh"], project)
    packages = sorted((project / "build_out").glob("*.run"))
    if len(packages) != 1:
        sys.exit(f"msopgen_project: {project}/build_out holds {len(packages)} .run packages, expected one")
    shutil.copy2(packages[0], options.out)


if __name__ == "__main__":
    main()
