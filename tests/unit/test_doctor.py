"""The doctor's checks on invented machines, and the doctor itself with checks that hang or break."""

from __future__ import annotations

import io
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opp_tree import make_vendor, set_priority
from rich.console import Console

from grstack.doctor import CHECKS, Finding, Severity, examine, run_doctor
from grstack.doctor.facts import EngineState, HostFacts, OppState
from grstack.doctor.finding import ok
from grstack.errors import SpecError
from grstack.host import Cann
from grstack.launch.seen import Device, Process, Seen
from grstack.needs import DISK_LEFT, DISK_NEEDED, GIB, MEMORY_COMFORTABLE, MEMORY_NEEDED
from grstack.run import CommandFailed, Runner
from grstack.spec import Versions, load

ROOT = Path(__file__).resolve().parents[2]
CANN_HOME = Path("/opt/cann")


def npus(count: int = 2, *, driver: str = "25.2.0", tool: str = "/usr/local/bin/npu-smi", **more: Any) -> Seen:
    devices = more.pop("devices", tuple(Device(id=number, name="910B3") for number in range(count)))
    return Seen(noun="NPU", command="npu-smi info", devices=devices, driver=driver, tool=tool, **more)


def gpus(count: int = 1, *, driver: str = "570.124.06", tool: str = "/usr/bin/nvidia-smi", **more: Any) -> Seen:
    devices = tuple(Device(id=number, name="H100") for number in range(count))
    more.setdefault("helper", "NVIDIA Container Toolkit")
    return Seen(noun="GPU", command="nvidia-smi", devices=devices, driver=driver, tool=tool, **more)


@dataclass(kw_only=True)
class Machine:
    """A machine with everything; each test takes something away."""

    versions: Versions = field(default_factory=lambda: load(ROOT / "versions.yaml"))
    arch: str = "x86_64"
    memory: int = 16 * GIB
    python: tuple[int, int] = (3, 11)
    pythons: tuple[str, ...] = ("3.11",)
    disks: dict[str, int] = field(default_factory=lambda: {"/build": 100 * GIB, "/cache": 100 * GIB})
    shared_disk: bool = False
    engine_state: EngineState = EngineState(version="27.5.1")
    npu_state: Seen = field(default_factory=lambda: npus())
    gpu_state: Seen = field(default_factory=lambda: gpus())
    cann_state: Cann | None = Cann(home=CANN_HOME, version="8.3.RC1")
    opp_state: OppState | None = OppState(place="/opp", vendors=3)
    problem: str | None = None
    torch_problem: str | None = None
    no_registry: dict[str, str] = field(default_factory=dict)  # by platform
    cached_wheels: int = 0

    @property
    def places(self) -> tuple[Path, ...]:
        return tuple(Path(path) for path in self.disks)

    def has_python(self, version: str) -> bool:
        return version in self.pythons

    def filesystem(self, path: Path) -> int:
        return 1 if self.shared_disk else list(self.disks).index(str(path))

    def free(self, path: Path) -> int:
        return self.disks[str(path)]

    def engine(self) -> EngineState:
        return self.engine_state

    def npu(self) -> Seen:
        return self.npu_state

    def gpu(self) -> Seen:
        return self.gpu_state

    def cann(self) -> Cann | None:
        return self.cann_state

    def opp(self) -> OppState | None:
        return self.opp_state

    def index_problem(self) -> str | None:
        return self.problem

    def torch_index_problem(self) -> str | None:
        return self.torch_problem

    def registry_problem(self, platform: str) -> str | None:
        return self.no_registry.get(platform)


def run(machine: Machine, **options: object) -> tuple[int, str]:
    out = io.StringIO()
    code = run_doctor(ROOT, facts=machine, console=Console(file=out, width=200), **options)  # type: ignore[arg-type]
    return code, out.getvalue()


def test_a_complete_machine_is_healthy() -> None:
    findings = examine(Machine(), CHECKS)
    assert [f.check for f in findings] == list(CHECKS)
    assert {f.severity for f in findings} == {Severity.OK}
    assert run(Machine())[0] == 0


NO_NPU = npus(0, driver="", tool="")
CASES = [
    ("engine", {"engine_state": EngineState(version=None)}, Severity.WARNING, "no container engine", "--engine none"),
    (
        "engine",
        {"engine_state": EngineState(version=None, host="ssh://h", chosen_by="docker context far", undo="UNDO")},
        Severity.ERROR,
        "no container engine answers at ssh://h, which docker context far names",
        "UNDO, or start that engine",
    ),
    (
        "engine",
        {"engine_state": EngineState(version=None, can_install=True)},
        Severity.NOTE,
        "the first build installs",
        "--engine none",
    ),
    (
        "engine",
        {"engine_state": EngineState(version="29", problem="no buildx", remedy="apt-get install docker-buildx")},
        Severity.WARNING,
        "no buildx",
        "docker-buildx",
    ),
    (
        "engine",
        {"engine_state": EngineState(version="29", problem="no buildx", remedy="x", can_install=True)},
        Severity.NOTE,
        "the first build installs one",
        "x",
    ),
    (
        "disk",
        {"disks": {"/build": 90 * GIB, "/cache": 3 * GIB}},
        Severity.ERROR,
        "3.0 GiB free at /cache",
        "GRSTACK_CACHE",
    ),
    ("disk", {"disks": {"/build": 9 * GIB, "/cache": 90 * GIB}}, Severity.WARNING, "9.0 GiB free at /build", "prune"),
    ("disk", {"disks": {"/build": 30 * GIB, "/cache": 90 * GIB}}, Severity.NOTE, "30.0 GiB free at /build", "prune"),
    (
        "disk",
        {"disks": {"/build": 90 * GIB, "/cache": 90 * GIB, "/var/lib/docker": 2 * GIB}},
        Severity.ERROR,
        "2.0 GiB free at /var/lib/docker",
        "inv clean, then docker builder prune",
    ),
    ("memory", {"memory": 2 * GIB}, Severity.ERROR, "2.0 GiB of memory, a build needs 4 GiB", "memory limit"),
    ("memory", {"memory": 6 * GIB}, Severity.WARNING, "6.0 GiB", "memory limit"),
    ("architecture", {"arch": "riscv64"}, Severity.ERROR, "riscv64", "x86_64 or aarch64"),
    ("python", {"python": (3, 9)}, Severity.ERROR, "Python 3.9, the toolchain needs 3.10", "apt-get"),
    ("python", {"python": (3, 12), "pythons": ()}, Severity.NOTE, "without 3.11", "python3.11-venv"),
    ("NPU driver", {"npu_state": NO_NPU}, Severity.NOTE, "platform twin", "driver"),
    (
        "NPU driver",
        {"npu_state": npus(0, tool="")},
        Severity.WARNING,
        "/dev/davinci",
        "--device",
    ),
    (
        "NPU driver",
        {"npu_state": npus(1, driver="", tool="")},
        Severity.WARNING,
        "1 NPU (910B3), but no driver",
        "mount",
    ),
    (
        "NPU driver",
        {"npu_state": npus(1, tool="")},
        Severity.WARNING,
        "no npu-smi",
        "npu-smi",
    ),
    ("NPU driver", {"npu_state": npus(driver="24.1.0")}, Severity.WARNING, "CANN 8.3.RC1 needs 25.0.RC1", "25.3.RC1"),
    ("NPU driver", {"npu_state": npus(problem="ret is -8020")}, Severity.WARNING, "says: ret is -8020", "npu-smi info"),
    (
        "NPU driver",
        {"npu_state": npus(devices=(Device(id=3, health="Alarm"),))},
        Severity.WARNING,
        "NPU 3: Alarm",
        "npu-smi info",
    ),
    ("GPU driver", {"gpu_state": gpus(0, driver="", tool="")}, Severity.NOTE, "no nvidia-smi", "driver"),
    ("GPU driver", {"gpu_state": gpus(0)}, Severity.WARNING, "driver 570.124.06, but no GPU", "nvidia-smi"),
    (
        "GPU driver",
        {"gpu_state": gpus(driver="470.57.02")},
        Severity.WARNING,
        "CUDA 12.8 needs 525.60.13",
        "570.124.06",
    ),
    ("GPU driver", {"gpu_state": gpus(helper="")}, Severity.WARNING, "neither NVIDIA", "nvidia-container-toolkit"),
    (
        "GPU driver",
        {"gpu_state": gpus(0, driver="", problem="NVIDIA-SMI has failed")},
        Severity.WARNING,
        "NVIDIA-SMI has failed",
        "nvidia-smi",
    ),
    ("CANN", {"cann_state": None}, Severity.NOTE, "no CANN", ""),
    ("CANN", {"cann_state": Cann(home=CANN_HOME, version="8.1.RC1")}, Severity.WARNING, "8.3.RC1", "build-image"),
    ("CANN", {"cann_state": Cann(home=CANN_HOME, version="8.5.0")}, Severity.OK, "--base cann-8.5.0-910b", ""),
    (
        "CANN",
        {"cann_state": Cann(home=CANN_HOME, version=None)},
        Severity.WARNING,
        "no readable version",
        "ASCEND",
    ),
    ("operators", {"opp_state": None}, Severity.NOTE, "images bring their operators", "inv opp list"),
    ("operators", {"opp_state": OppState(place="/a", vendors=0)}, Severity.NOTE, "no operator package in /a", "'/a'"),
    (
        "operators",
        {"opp_state": OppState(place="/a", vendors=2, faults=("AddOne is in 2 vendors",))},
        Severity.WARNING,
        "/a: AddOne is in 2 vendors",
        "inv opp verify",
    ),
    ("network", {"problem": "timed out"}, Severity.ERROR, "timed out", "PIP_INDEX_URL"),
    ("network", {"problem": "timed out", "cached_wheels": 7}, Severity.WARNING, "7 wheels are cached", "network.yaml"),
    ("PyTorch index", {"torch_problem": "no such host"}, Severity.NOTE, "no such host", "torch_index_url"),
    ("registry", {"no_registry": {"twin": "no such host"}}, Severity.NOTE, "bootstrapped", "set registry"),
    (
        "registry of CANN",
        {"no_registry": {"cann": "no such host"}},
        Severity.NOTE,
        "platform cann cannot be built: no such host",
        "set registry",
    ),
]


@pytest.mark.parametrize(("check", "change", "severity", "message", "remedy"), CASES)
def test_each_lack_has_a_severity_and_a_remedy(
    check: str, change: dict[str, object], severity: Severity, message: str, remedy: str
) -> None:
    machine = Machine(**change)  # type: ignore[arg-type]
    findings = {f.check: f for f in examine(machine, CHECKS)}
    found = findings.pop(check)
    assert found.severity is severity
    assert message in found.message
    assert remedy in found.remedy
    assert {f.severity for f in findings.values()} == {Severity.OK}, "one lack, one finding"
    assert run(machine)[0] == (1 if severity is Severity.ERROR else 0)


def test_a_toolkit_is_installed_and_named_to_docker() -> None:
    """Without both of these `--gpus` goes on failing."""
    finding = CHECKS["GPU driver"](Machine(gpu_state=gpus(helper="")))
    for word in ("nvidia-container-toolkit", "nvidia-ctk runtime configure", "restart docker"):
        assert word in finding.remedy


def test_what_is_seen_is_named() -> None:
    devices = (Device(id=0, name="910B3", processes=(Process(pid=7),)), Device(id=1, name="910B3"))
    machine = Machine(npu_state=npus(devices=devices, helper="Ascend Docker Runtime"))
    finding = CHECKS["NPU driver"](machine)
    assert finding.message == "2 NPUs (910B3), driver 25.2.0, Ascend Docker Runtime; in use: 0"
    assert CHECKS["GPU driver"](machine).message == "1 GPU (H100), driver 570.124.06, NVIDIA Container Toolkit"


def test_both_spellings_of_a_cann_release_are_known() -> None:
    for version in ("8.3.RC1", "8.3.RC1.alpha003", "8.3.0.1.200"):
        assert CHECKS["CANN"](Machine(cann_state=Cann(home=CANN_HOME, version=version))).severity is Severity.OK


def test_places_on_one_disk_are_named_once() -> None:
    machine = Machine(disks={"/build": 2 * GIB, "/cache": 2 * GIB}, shared_disk=True)
    assert "/build" in CHECKS["disk"](machine).message


def test_json_is_machine_readable() -> None:
    code, text = run(Machine(memory=GIB), as_json=True)
    document = json.loads(text)
    assert code == 1 and document["healthy"] is False
    assert document["counts"] == {"ok": len(CHECKS) - 1, "note": 0, "warning": 0, "error": 1}
    (bad,) = (row for row in document["findings"] if row["severity"] == "error")
    assert bad["check"] == "memory" and bad["remedy"]


def test_table_shows_brackets_and_remedies() -> None:
    _, text = run(Machine(problem="[Errno 111] refused"))
    assert "[Errno 111] refused" in text and "PIP_INDEX_URL" in text and "network" in text


def test_checks_run_at_once() -> None:
    """Every check waits for all the others: one after the other they would never finish."""
    barrier = threading.Barrier(5)

    def check(machine: object) -> Finding:
        barrier.wait(timeout=20)
        return ok("met")

    findings = examine(Machine(), {str(n): check for n in range(5)}, limit=20)
    assert [f.message for f in findings] == ["met"] * 5


def test_a_hanging_check_is_reported_and_holds_nobody_up() -> None:
    release = threading.Event()

    def hangs(machine: object) -> Finding:
        release.wait(30)
        return ok("too late")

    started = time.monotonic()
    findings = examine(Machine(), {"stuck": hangs, "fine": lambda machine: ok("fine")}, limit=0.5)
    assert time.monotonic() - started < 5
    release.set()
    assert [(f.check, f.severity) for f in findings] == [("stuck", Severity.WARNING), ("fine", Severity.OK)]
    assert "no answer within 0.5 s" in findings[0].message


def test_a_broken_check_is_an_error() -> None:
    def breaks(machine: object) -> Finding:
        raise OSError("no such device")

    def names(machine: object) -> Finding:
        raise SpecError("unknown key 'x'", where="versions.yaml:3", next_command="edit versions.yaml")

    broken, named = examine(Machine(), {"broken": breaks, "named": names})
    assert broken.severity is Severity.ERROR and "OSError: no such device" in broken.message
    assert named.severity is Severity.ERROR
    assert "versions.yaml:3" in named.message and named.remedy == "edit versions.yaml"


class Refusing(Runner):
    """Every command fails with what uv says when a host refuses."""

    def capture(self, argv, *, env=None, timeout=60):  # type: ignore[no-untyped-def]
        raise CommandFailed(argv, 2, ["error: Failed to fetch", "  at https://user:hunter2@index.invalid/simple"], None)


def test_index_credentials_are_not_shown(clean_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:hunter2@index.invalid/simple")
    problem = HostFacts(ROOT, Refusing(Console(file=io.StringIO()))).index_problem()
    assert problem is not None and "Failed to fetch" in problem and "hunter2" not in problem


def test_cann_version_is_read_from_the_install_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = HostFacts(ROOT, Refusing(Console(file=io.StringIO())))
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "absent"))
    assert facts.cann() is None
    record = tmp_path / "x86_64-linux" / "ascend_toolkit_install.info"
    record.parent.mkdir()
    record.write_text("package_name=Ascend-cann-toolkit\nversion=8.3.RC1\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert facts.cann() == Cann(home=tmp_path, version="8.3.RC1")


def test_operator_packages_are_those_of_the_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = HostFacts(ROOT, Refusing(Console(file=io.StringIO())))
    monkeypatch.delenv("ASCEND_OPP_PATH", raising=False)
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH", raising=False)
    assert facts.opp() is None
    make_vendor(tmp_path, "one", "AddOne", "AddBoth")
    make_vendor(tmp_path, "two", "AddTwo", "AddBoth")
    set_priority(tmp_path, "one")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    assert facts.opp() == OppState(place=str(tmp_path), vendors=1)
    set_priority(tmp_path, "one", "two", "gone")
    state = facts.opp()
    assert state is not None and state.vendors == 2
    assert state.faults == ("gone: the directory is not there", "AddBoth is in 2 vendors")


def test_facts_of_the_real_machine_are_plausible() -> None:
    facts = HostFacts(ROOT, Refusing(Console(file=io.StringIO())))
    assert facts.memory > GIB // 2
    assert all(facts.free(path) > 0 for path in facts.places)
    assert facts.has_python(f"{facts.python[0]}.{facts.python[1]}")


def test_the_readme_states_the_figures_that_are_checked() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert DISK_LEFT < DISK_NEEDED and MEMORY_NEEDED < MEMORY_COMFORTABLE
    assert f"{MEMORY_COMFORTABLE // GIB} GiB of memory and {DISK_NEEDED // GIB} GiB of free disk" in readme


class Recording(Runner):
    """Runs nothing; keeps the arguments and the environment of each command."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def capture(self, argv, *, env=None, timeout=60):  # type: ignore[no-untyped-def]
        self.calls.append((list(argv), dict(env)))
        return ""


def test_the_torch_index_is_asked_for_the_locked_cpu_wheel(
    clean_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRSTACK_TORCH_INDEX_URL", "https://mirror.invalid/cpu")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    runner = Recording()
    assert HostFacts(ROOT, runner).torch_index_problem() is None
    ((argv, env),) = runner.calls
    assert "torch==2.6.0+cpu" in argv and argv[argv.index("--default-index") + 1] == "https://mirror.invalid/cpu"
    assert env["https_proxy"] == "http://proxy.invalid:1"


def test_a_narrow_terminal_shows_the_whole_remedy() -> None:
    out = io.StringIO()
    run_doctor(
        ROOT,
        facts=Machine(problem="/".join(["path"] * 20), no_registry={"twin": "no"}),
        console=Console(file=out, width=80),
    )
    shown = "".join(line.split("│")[4].strip() for line in out.getvalue().splitlines() if line.count("│") == 5)
    assert shown.count("~/.config/grstack/network.yaml") == 2 and "…" not in out.getvalue()
