"""Build the patched torchrec wheel: upstream wheel + patches/torchrec -> torchrec-<version>-<tag>.whl.

The result depends on the upstream wheel, the patches and SOURCE_DATE_EPOCH only: members are sorted,
stored without compression (zlib versions differ) and dated alike. The version is what the patched
METADATA says, so it stands in one place.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import re
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from strict_patch import PatchError, apply_series

_WHEEL = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)-(?P<tag>[^-]+-[^-]+-[^-]+)\.whl$")
_ZIP_EPOCH = 315532800  # 1980-01-01, the earliest date a zip archive can hold


class WheelError(Exception):
    """The upstream wheel is missing, damaged or not what its name says."""


def record_hash(data: bytes) -> str:
    """A RECORD entry's hash field."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def find_wheel(folder: Path, python: str) -> Path:
    """The one upstream torchrec wheel for `python` ("3.11") in `folder`."""
    pattern = f"torchrec-*-py{python.replace('.', '')}-none-any.whl"
    found = sorted(path for path in folder.glob(pattern) if "+" not in path.name)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise WheelError(f"expected one {pattern} in {folder}, found {names}; run: inv lock")
    return found[0]


def unpack(wheel: Path, root: Path) -> None:
    """Unpack `wheel`; every member must be in RECORD with the hash it has."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    except (zipfile.BadZipFile, OSError) as error:
        raise WheelError(f"{wheel}: {error}") from error
    record_name = next((name for name in members if name.endswith(".dist-info/RECORD")), None)
    if record_name is None:
        raise WheelError(f"{wheel.name}: no RECORD in it")
    recorded = {row[0]: row[1] for row in csv.reader(io.StringIO(members[record_name].decode())) if row}
    for name, data in members.items():
        if name != record_name and recorded.get(name) != record_hash(data):
            raise WheelError(f"{wheel.name}: {name} is not the file that RECORD lists")
        target = root / name
        if not target.resolve().is_relative_to(root.resolve()):
            raise WheelError(f"{wheel.name}: {name} leaves the source tree")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    missing = sorted(set(recorded) - set(members))
    if missing:
        raise WheelError(f"{wheel.name}: RECORD lists {missing[0]}, which is not in it")


def metadata_version(root: Path) -> tuple[Path, str]:
    """The tree's dist-info folder and the version in its METADATA."""
    folders = list(root.glob("*.dist-info"))
    if len(folders) != 1:
        raise WheelError(f"expected one dist-info folder, found {len(folders)}")
    match = re.search(r"^Version: (\S+)$", (folders[0] / "METADATA").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise WheelError(f"{folders[0].name}/METADATA has no Version")
    return folders[0], match[1]


def pack(root: Path, out: Path, name: str, tag: str, epoch: int) -> Path:
    """Rename the dist-info folder after its METADATA, write RECORD, and zip the tree reproducibly."""
    info, version = metadata_version(root)
    info = info.rename(root / f"{name}-{version}.dist-info")
    record = info / "RECORD"
    record.unlink(missing_ok=True)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    rows = [(path.relative_to(root).as_posix(), path.read_bytes()) for path in paths]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((member, record_hash(data), len(data)) for member, data in rows)
    writer.writerow((record.relative_to(root).as_posix(), "", ""))
    rows.append((record.relative_to(root).as_posix(), text.getvalue().encode()))

    date = time.gmtime(max(epoch, _ZIP_EPOCH))[:6]
    wheel = out / f"{name}-{version}-{tag}.whl"
    partial = wheel.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        # RECORD last, as the wheel format advises
        for member, data in rows:
            entry = zipfile.ZipInfo(member, date)
            entry.create_system = 3  # Unix, whatever the build host
            entry.external_attr = (0o100644) << 16
            archive.writestr(entry, data)
    partial.replace(wheel)
    return wheel


def build(wheel: Path, patches: Path, out: Path, epoch: int) -> Path:
    """Returns the patched wheel's path in `out`."""
    match = _WHEEL.match(wheel.name)
    if match is None:
        raise WheelError(f"{wheel.name} is not a wheel's file name")
    with tempfile.TemporaryDirectory(prefix="torchrec-") as scratch:
        root = Path(scratch)
        unpack(wheel, root)
        _, version = metadata_version(root)
        if version != match["version"]:
            raise WheelError(f"{wheel.name} says version {version} inside")
        written = apply_series(patches, root)
        _, patched = metadata_version(root)
        if patched == version:
            raise PatchError(f"{patches}: no patch changes the version {version}; two builds would share a name")
        for path in written:
            if path.endswith(".py"):
                compile((root / path).read_bytes(), path, "exec")
        result = pack(root, out, match["name"], match["tag"], epoch)
    print(f"{result.name}: {len(written)} files patched, sha256 {hashlib.sha256(result.read_bytes()).hexdigest()}")
    return result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="build the patched torchrec wheel")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--wheel", type=Path, help="the upstream wheel")
    source.add_argument("--wheels", type=Path, help="folder that holds the upstream wheel")
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}", help="e.g. 3.11")
    parser.add_argument("--patches", type=Path, required=True, help="folder with series and *.patch")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        wheel = options.wheel or find_wheel(options.wheels, options.python)
        build(wheel, options.patches, options.out, int(os.environ.get("SOURCE_DATE_EPOCH", _ZIP_EPOCH)))
    except (PatchError, WheelError) as error:
        print(f"torchrec: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
