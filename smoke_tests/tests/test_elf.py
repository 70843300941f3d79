import shutil
import subprocess
from pathlib import Path

import pytest

from smoke_tests.check import Context
from smoke_tests.checks import elf


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """liba.so needs libb.so, which lies in another folder."""
    assert shutil.which("cc"), "the images have a C compiler"
    (tmp_path / "b").mkdir()
    source = tmp_path / "x.c"
    source.write_text("int x;")
    build = ["cc", "-shared", "-fPIC", str(source)]
    with_b = [f"-L{tmp_path}/b", "-lb"]
    for name, options in (
        ("b/libb.so", ["-Wl,-soname,libb.so"]),
        ("liba.so", ["-Wl,--no-as-needed", *with_b]),
        ("libc_.so", ["-Wl,--no-as-needed,-rpath,$ORIGIN/b", *with_b]),
    ):
        subprocess.run([*build, "-o", str(tmp_path / name), *options], check=True)
    (tmp_path / "script.so").write_text("INPUT(libb.so)")
    return tmp_path


def test_missing_library_is_named(libraries):
    objects = list(elf.shared_objects(libraries))
    assert sorted(o.path.name for o in objects) == ["liba.so", "libb.so", "libc_.so"]
    system = elf.system_directories()
    faults, left = elf.unresolved(objects, system, ())
    assert faults == [f"{libraries}/liba.so: libb.so is not found"] and left == set()
    assert elf.unresolved(objects, system, {"libb.so": "host"}) == ([], {"libb.so"})
    assert elf.unresolved(objects, [libraries / "b", *system], ()) == ([], set())


def test_library_that_an_import_has_loaded(libraries):
    lib = libraries / "torch" / "lib"
    lib.mkdir(parents=True)
    shutil.move(libraries / "b/libb.so", lib)
    faults, _ = elf.unresolved(elf.shared_objects(libraries), elf.system_directories(), ())
    assert faults == []


def test_library_that_a_library_of_torch_has_loaded(libraries):
    """As fbgemm_gpu relies on libcudart, which torch's own libraries find beside the packages of CUDA."""
    lib = libraries / "torch" / "lib"
    lib.mkdir(parents=True)
    shutil.move(libraries / "libc_.so", lib)
    shutil.move(libraries / "b", lib / "b")
    faults, _ = elf.unresolved(elf.shared_objects(libraries), elf.system_directories(), ())
    assert faults == []
    (lib / "libc_.so").unlink()
    faults, _ = elf.unresolved(elf.shared_objects(libraries), elf.system_directories(), ())
    assert faults == [f"{libraries}/liba.so: libb.so is not found"]


def test_library_of_another_machine(libraries):
    path = libraries / "b/libb.so"
    data = bytearray(path.read_bytes())
    data[18:20] = (183 if data[18] == 62 else 62).to_bytes(2, "little")  # e_machine: aarch64 and x86_64 swapped
    path.write_bytes(data)
    faults, _ = elf.unresolved([elf.read(libraries / "libc_.so")], elf.system_directories(), ())
    assert len(faults) == 1 and "libb.so is found for" in faults[0]


def test_vendors_beside_the_toolkit_are_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the toolkit's own libraries where they are ours, not where they are CANN's."""
    for name in ("lib64", "opp/vendors", "one", "two"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_OPP_PATH", f"{tmp_path}/opp")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path}/one::{tmp_path}/absent:{tmp_path}/two")
    for emulated, names in ((False, ("opp/vendors", "one", "two")), (True, ("lib64", "opp/vendors", "one", "two"))):
        found = [place for place in elf.roots(emulated=emulated) if tmp_path in place.parents]
        assert found == [tmp_path / name for name in names]


def test_what_torch_npu_s_plug_in_for_nnal_wants_is_no_fault_on_cann(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """set_env.sh of the toolkit does not name the folder of NNAL, which has its own."""
    source = tmp_path / "x.c"
    source.write_text("int x;")
    for folder in ("nnal", "plugin"):
        (tmp_path / folder).mkdir()
    build = ["cc", "-shared", "-fPIC", str(source), "-o"]
    subprocess.run([*build, str(tmp_path / "nnal/libatb.so"), "-Wl,-soname,libatb.so"], check=True)
    linked = [f"-L{tmp_path}/nnal", "-Wl,--no-as-needed", "-latb"]
    subprocess.run([*build, str(tmp_path / "plugin/libop_plugin_atb.so"), *linked], check=True)
    monkeypatch.setattr(elf, "roots", lambda **settings: [tmp_path / "plugin"])
    outcome = elf.run(Context(tmp_path, tmp_path, {}, {"target": "npu", "emulated": False}))
    assert outcome.details == ["left out: libatb.so (Ascend Transformer Boost, of CANN's package NNAL)"]
