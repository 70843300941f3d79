#!/usr/bin/env bash
# Unpacks the wheel: the environment has no pip, and nothing is to be resolved. PIP_TARGET, if set, says where to.
set -euo pipefail

"$GRSTACK_PYTHON" - "$GRSTACK_ARTEFACT" <<'PYTHON'
import compileall
import csv
import os
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

(wheel,) = Path(sys.argv[1]).glob("torchrec-*+npu-py*-none-any.whl")
tag = f"py{sys.version_info[0]}{sys.version_info[1]}"
if f"-{tag}-" not in wheel.name:
    sys.exit(f"torchrec: {wheel.name} is not for this Python ({tag}); build it with the same Python version")
target = Path(os.environ.get("PIP_TARGET") or sysconfig.get_path("purelib"))
for info in target.glob("torchrec-*.dist-info"):
    with (info / "RECORD").open(newline="") as record:
        for path, *_ in csv.reader(record):
            (target / path).unlink(missing_ok=True)
    shutil.rmtree(info)
target.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(target)
    (info,) = (target / name for name in {member.split("/")[0] for member in archive.namelist()} if ".dist-" in name)
(info / "INSTALLER").write_text("grstack\n")
with (info / "RECORD").open("a", newline="") as record:
    csv.writer(record, lineterminator="\n").writerow((f"{info.name}/INSTALLER", "", ""))
compileall.compile_dir(target / "torchrec", quiet=1)
print(f"installed {wheel.name} in {target}")
PYTHON
