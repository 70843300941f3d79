"""msprof of the twin (emulated): what torch_npu.profiler calls to read the part of a profile that the device wrote.

msprof --export=on|--analyze=on [--type=text] --output=PROF_...

No counter of a device is emulated, so the timeline has a name and no kernel, and torch_npu adds its operators.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROCESS = 2**31 - 1  # no process of Linux has this number
# torch_npu looks for a table in this folder ten times a second while msprof runs; should it not have seen one when
# msprof ends, it leaves the trace unfinished.
SEEN = 2.0  # seconds
NAME = "emulated NPU: nothing is measured on it"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="msprof", description="msprof of the twin (emulated)")
    parser.add_argument("--export", choices=["on", "off"], default="off")
    parser.add_argument("--analyze", choices=["on", "off"], default="off")
    parser.add_argument("--type", choices=["text"], default="text", help="no database is emulated")
    parser.add_argument("--output", type=Path, required=True, metavar="PROF_...", help="the folder of a profile")
    options = parser.parse_args(argv)
    if not options.output.is_dir():
        parser.error(f"--output={options.output} is not the folder of a profile")
    if options.export == "on":
        export(options.output / "mindstudio_profiler_output")
    return 0


def export(folder: Path) -> None:
    folder.mkdir(mode=0o750, exist_ok=True)
    now = time.strftime("%Y%m%d%H%M%S")
    timeline = [{"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "args": {"name": NAME}}]
    (folder / f"msprof_{now}.json").write_text(json.dumps(timeline))
    (folder / f"emulated_{now}.csv").write_text("no counter of a device is emulated\n")
    time.sleep(SEEN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
