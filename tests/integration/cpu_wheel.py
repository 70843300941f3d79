"""A stand-in for the `+cpu` wheel of torch, made of the plain one of the package index.

What it has is the release's own: its Python, its CPU library, its headers. In place of the 1 GB of CUDA kernels is a
small library with the same symbols, each of which ends the process with its name when it is called, so that nothing
can quietly use CUDA. libcudart, libcupti and libcudnn stay as far as libtorch_cpu and libtorch_python are linked to
them (8 MB). Needs a C compiler.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

KERNELS = "libtorch_cuda.so"
GONE = (KERNELS, "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")
CALLED_AT_IMPORT = {"_ZN4c10d15get_gil_checkerEv": "place"}  # gives the address of a variable
SLOTS = 64  # of a virtual table

Symbols = dict[str, str]  # name -> FUNC, OBJECT or TLS


def make(plain: Path, cuda: Iterable[Path], filename: str, work: Path) -> Path:
    """The wheel `filename` (torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl) in `work`, of the plain one.

    cuda: the wheels of CUDA's libraries that it is linked to.
    """
    version = filename.split("-")[1]
    tree = work / "tree"
    with zipfile.ZipFile(plain) as archive:
        archive.extractall(tree)
    lib = tree / "torch/lib"
    _replace_kernels(lib)
    for wheel in cuda:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.search(r"/lib/lib(cudart|cupti|cudnn)\.so\.\d+$", name):
                    (lib / name.rpartition("/")[2]).write_bytes(archive.read(name))
    _edit(tree / "torch/version.py", (r"__version__ = .*", f"__version__ = '{version}'"), (r"'12\.\d'", "None"))
    info = next(tree.glob("torch-*.dist-info"))
    _edit(
        info / "METADATA",
        (r"(?m)^Version: .*$", f"Version: {version}"),
        (r"(?m)^Requires-Dist: (nvidia-|triton).*\n", ""),
    )
    _edit(info / "WHEEL", (r"(?m)^Tag: .*$", f"Tag: {'-'.join(filename.removesuffix('.whl').split('-')[2:])}"))
    info = info.rename(tree / f"torch-{version}.dist-info")
    wheel = work / filename
    _pack(tree, info, wheel)
    return wheel


def _edit(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text)
        assert count, f"{file.name} has no {pattern}"
    file.write_text(text, encoding="utf-8")


def _symbols(file: Path, *, defined: bool) -> Symbols:
    with file.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        return {
            symbol.name: symbol["st_info"]["type"].removeprefix("STT_")
            for symbol in table.iter_symbols()
            if symbol.name and (symbol["st_shndx"] != "SHN_UNDEF") == defined
        }


def _replace_kernels(lib: Path) -> None:
    given = _symbols(lib / KERNELS, defined=True)
    for name in GONE:
        (lib / name).unlink()
    kept = sorted(lib.glob("lib*.so*"))
    wanted = {name for file in kept for name in _symbols(file, defined=False)}
    elsewhere = {name for file in kept for name in _symbols(file, defined=True)}
    missing = {name: given[name] for name in sorted((wanted & given.keys()) - elsewhere)}
    assert len(missing) > 50, "libtorch_python calls CUDA in many places"
    source = lib / "stand_in.S"
    source.write_text(_assembly(missing), encoding="utf-8")
    options = ("-shared", "-fPIC", f"-Wl,-soname,{KERNELS}", "-Wl,-z,noexecstack", "-Wl,-z,lazy")
    subprocess.run(["gcc", *options, "-o", str(lib / KERNELS), str(source), "-lstdc++"], check=True)
    source.unlink()


def _assembly(symbols: Symbols) -> str:
    """A function says its name and aborts; a type_info has its name; a virtual table leads to abort()."""
    lines = [".data", "place: .zero 64"]
    for number, (name, kind) in enumerate(symbols.items()):
        lines += [f".globl {name}", f".type {name}, @{'function' if kind == 'FUNC' else 'object'}"]
        if name in CALLED_AT_IMPORT:
            lines += [".text", f"{name}: leaq {CALLED_AT_IMPORT[name]}(%rip), %rax", "ret"]
        elif kind == "FUNC":
            text = f"{name} was called: this torch has no CUDA"
            lines += [".section .rodata", f'text{number}: .asciz "{text}"']
            lines += [".text", f"{name}: subq $8, %rsp", f"leaq text{number}(%rip), %rdi", "call puts@PLT"]
            lines += ["xorl %edi, %edi", "call fflush@PLT", "call abort@PLT"]
        elif name.startswith("_ZTI"):
            lines += [".section .rodata", f'text{number}: .asciz "{name.removeprefix("_ZTI")}"', ".data", ".balign 16"]
            lines += [f"{name}: .quad _ZTVN10__cxxabiv117__class_type_infoE+16, text{number}"]
        else:
            assert name.startswith("_ZTV"), f"{name} is a {kind}"
            lines += [".data", ".balign 16", f"{name}: .quad 0, 0", f".rept {SLOTS}", ".quad abort", ".endr"]
    return "\n".join(lines) + "\n"


def _pack(tree: Path, info: Path, wheel: Path) -> None:
    """RECORD as PEP 427 has it; fast rather than small."""
    record = info / "RECORD"
    record.unlink()
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(path for path in tree.rglob("*") if path.is_file()):
            content, name = file.read_bytes(), file.relative_to(tree).as_posix()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            archive.write(file, name)
        own = record.relative_to(tree).as_posix()
        archive.writestr(own, "\n".join([*lines, f"{own},,", ""]))
