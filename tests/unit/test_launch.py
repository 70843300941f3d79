"""Devices for a container: what is seen, which are chosen, what keeps them from being used."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from grstack import spec
from grstack.errors import DeviceError, UsageError
from grstack.launch import drivers, gpu, npu
from grstack.launch.daemon import Daemon
from grstack.launch.machine import Machine
from grstack.launch.prepare import Prepared, numbers, prepare
from tests.machines import atlas, docker, gpu_host, npu_smi_info, program

ROOT = Path(__file__).resolve().parents[2]
CANN, TORCH = "8.3.RC1", "2.8.0"


def on_npus(machine: object, wanted: str = "", **more: object) -> Prepared:
    return prepare("npu", wanted, machine, release=CANN, **more)  # type: ignore[arg-type]


def on_gpus(machine: object, wanted: str = "", **more: object) -> Prepared:
    return prepare("cuda", wanted, machine, release=TORCH, **more)  # type: ignore[arg-type]


# npu-smi and nvidia-smi ----------------------------------------------------------------------------------------------


def test_a_board_with_one_chip_has_its_device_s_number_in_the_first_line() -> None:
    text = npu_smi_info([0, 3, 7], {(3, 0): [(1333928, "python3"), (41, "")]}, health={7: "Warning"})
    found = {device.id: device for device in npu.parse(text)}
    assert list(found) == [0, 3, 7] and {d.name for d in found.values()} == {"910B3"}
    assert found[0].busy == "" and found[3].busy == "process 1333928 (python3), process 41"
    assert [found[n].health for n in (0, 3, 7)] == ["OK", "OK", "Warning"]


def test_a_board_with_two_chips_has_a_column_of_their_own() -> None:
    found = npu.parse(npu_smi_info(range(8), {(6, 1): [(7, "train")]}, name="Ascend910", chips=2))
    assert [device.id for device in found] == list(range(16))
    assert [device.id for device in found if device.busy] == [13]


@pytest.mark.parametrize(
    "text", ["", "dcmi model initialized failed, because the device is used. ret is -8020\n", "| |\n"]
)
def test_what_is_no_table_shows_no_device(text: str) -> None:
    assert npu.parse(text) == []


def test_nvidia_smi_s_processes_belong_to_a_gpu_by_its_uuid() -> None:
    devices = "0, GPU-a, NVIDIA H100 80GB HBM3, 570.124.06\n1, GPU-b, NVIDIA H100 80GB HBM3, 570.124.06\n"
    found, driver = gpu.parse(devices, "GPU-b, 4242, /usr/bin/python3.11\n")
    assert driver == "570.124.06" and [device.busy for device in found] == ["", "process 4242 (python3.11)"]
    assert gpu.parse("No devices were found\n", "") == ([], "")


# Which devices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("typed", "found"), [("0", (0,)), ("0,2-4", (0, 2, 3, 4)), ("7, 1", (7, 1))])
def test_numbers_and_ranges(typed: str, found: tuple[int, ...]) -> None:
    assert numbers(typed) == found


@pytest.mark.parametrize("typed", ["x", "1,", "3-1", "-1", "0,0", "0-2,1", "ALL"])
def test_what_names_no_devices_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="--devices") as error:
        numbers(typed)
    assert error.value.next_command.startswith("inv run --platform cann --devices")


def test_without_a_word_one_device_is_taken_the_first_that_is_free(tmp_path: Path) -> None:
    machine = atlas(tmp_path, info=npu_smi_info(range(8), {(0, 0): [(5, "a")], (1, 0): [(6, "b")]}))
    done = on_npus(machine)
    assert done.access.ids == (2,) and "NPU 2 is used, the first that is free" in done.notes[0]
    assert [node for node in done.access.nodes if node[12:].isdigit()] == ["/dev/davinci2"]


def test_all_are_those_of_the_machine_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    machine = atlas(tmp_path, devices=[0, 1, 2, 10, 11])
    assert on_npus(machine, "all").access.ids == (0, 1, 2, 10, 11)


@pytest.mark.parametrize(("shown", "following"), [(False, "inv doctor"), (True, "--devices 0-7: ")])
def test_all_of_a_machine_that_has_none_says_how_to_name_those_of_another(
    tmp_path: Path, shown: bool, following: str
) -> None:
    with pytest.raises(DeviceError, match="--devices all: this machine shows no NPU") as error:
        on_npus(atlas(tmp_path, devices=[], driver=None), "all", shown=shown)
    assert error.value.next_command.startswith(following)


# What keeps them from being used -------------------------------------------------------------------------------------


def refusal(function: object, *args: object, **more: object) -> DeviceError:
    with pytest.raises(DeviceError) as error:
        function(*args, **more)  # type: ignore[operator]
    assert error.value.exit_code == 15 and "--force" in error.value.next_command
    return error.value


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    error = refusal(on_npus, atlas(tmp_path, devices=range(2)), "1,8")
    assert error.what == "no NPU 8: this machine has NPUs 0, 1" and error.next_command.startswith("npu-smi info")


def test_a_busy_device_names_the_process_and_the_free_ones(tmp_path: Path) -> None:
    machine = atlas(tmp_path, devices=range(3), info=npu_smi_info(range(3), {(1, 0): [(1333928, "python3")]}))
    error = refusal(on_npus, machine, "0,1")
    assert error.what == "NPU 1 is busy: process 1333928 (python3)" and "--devices 0,2" in error.next_command
    done = on_npus(machine, "0,1", force=True)
    assert done.access.ids == (0, 1) and error.what in done.notes


def test_where_all_are_busy_none_is_taken_unasked(tmp_path: Path) -> None:
    busy = npu_smi_info(range(1), {(0, 0): [(9, "x")]})
    assert "NPU 0 is busy" in refusal(on_npus, atlas(tmp_path, devices=[0], info=busy)).what


@pytest.mark.parametrize("found", ["24.1.rc3", "24.1.0", "23.0.6.1"])
def test_a_driver_that_is_too_old(tmp_path: Path, found: str) -> None:
    error = refusal(on_npus, atlas(tmp_path, driver=found))
    assert f"driver {found} is too old: CANN 8.3.RC1 needs 25.0.RC1" in error.what
    assert "install driver 25.3.RC1" in error.next_command


def test_a_driver_between_the_oldest_and_the_paired_one_is_said(tmp_path: Path) -> None:
    assert any("driver 25.2.0 works" in note for note in on_npus(atlas(tmp_path, driver="25.2.0")).notes)
    newer = on_npus(atlas(tmp_path / "newer", driver="25.5.2"))
    assert len(newer.notes) == 1, newer.notes


def test_versions_are_ordered_as_their_makers_do() -> None:
    rising = [
        "23.0.6.1",
        "24.1.rc3",
        "24.1.0",
        "25.0.RC1",
        "25.0.rc1.1",
        "25.0.0",
        "25.2.0",
        "25.3.RC1",
        "25.3.rc1.2",
        "25.5.2",
    ]
    assert sorted(set(rising), key=drivers.order) == rising
    assert drivers.older("525.60.12", "525.60.13") and not drivers.older("570.26", "525.60.13")
    with pytest.raises(ValueError, match="is not a driver's version"):
        drivers.order("unknown")


def test_a_version_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    assert any("'custom' is not a driver's version" in n for n in on_npus(atlas(tmp_path, driver="custom")).notes)


def test_the_table_has_what_versions_yaml_names() -> None:
    versions = spec.load(ROOT / "versions.yaml")
    assert versions.targets["npu"].platforms["cann"].cann in drivers.NPU
    assert versions.targets["cuda"].packages["torch"] in drivers.GPU
    for needs in (*drivers.NPU.values(), *drivers.GPU.values()):
        assert drivers.older(needs.oldest, needs.paired) and needs.source


def test_the_page_has_every_row_of_the_table() -> None:
    page = (ROOT / "docs/devices.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| CANN", "| CUDA"))]
    found = {row[0]: (re.search(r"\d\S*", row[1]), row[2]) for row in rows}
    for needs in (*drivers.NPU.values(), *drivers.GPU.values()):
        oldest, paired = found.pop(needs.toolkit)
        assert oldest is not None and (oldest[0], paired) == (needs.oldest, needs.paired)
    assert not found


def test_nodes_that_every_npu_needs(tmp_path: Path) -> None:
    machine = atlas(tmp_path)
    (tmp_path / "dev/hisi_hdc").unlink()
    assert refusal(on_npus, machine, "0").what == "/dev/hisi_hdc is missing"


def test_npu_smi_that_does_not_answer(tmp_path: Path) -> None:
    machine = atlas(tmp_path)
    program(tmp_path, "/usr/local/bin/npu-smi", "echo 'dcmi model initialized failed, ret is -8020'; exit 1")
    assert refusal(on_npus, machine, "0").what == "npu-smi info says: dcmi model initialized failed, ret is -8020"


def test_without_npu_smi_it_is_said_that_nobody_looked(tmp_path: Path) -> None:
    machine = atlas(tmp_path)
    (tmp_path / "usr/local/bin/npu-smi").unlink()
    assert any("no npu-smi: whether the NPU is busy" in note for note in on_npus(machine, "0").notes)


def test_a_sick_device_is_said(tmp_path: Path) -> None:
    machine = atlas(tmp_path, info=npu_smi_info(range(8), health={1: "Alarm"}))
    assert "NPU 1 reports health Alarm" in on_npus(machine, "1").notes


def test_a_gpu_is_refused_for_the_same_reasons(tmp_path: Path) -> None:
    machine = gpu_host(tmp_path / "a", processes=[(0, 77, "/usr/bin/python3")], driver="470.57.02")
    error = refusal(on_gpus, machine, "0,5")
    assert "no GPU 5: this machine has GPUs 0, 1" in error.what and "GPU 0 is busy: process 77 (python3)" in error.what
    assert "driver 470.57.02 is too old: CUDA 12.8 needs 525.60.13" in error.what
    assert on_gpus(gpu_host(tmp_path / "b", processes=[(0, 77, "p")])).access.ids == (1,)


def test_a_driver_of_gpus_that_is_down_says_so_itself(tmp_path: Path) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert refusal(on_gpus, gpu_host(tmp_path, broken=said), "0").what == f"nvidia-smi says: {said}"


def test_gpus_need_a_toolkit_or_cdi(tmp_path: Path) -> None:
    bare = gpu_host(tmp_path / "bare", toolkit=False)
    assert "nvidia-container-toolkit" in refusal(on_gpus, bare, "0").next_command
    assert on_gpus(gpu_host(tmp_path / "cdi", toolkit=False, cdi=True), "0").access.cdi == ("nvidia.com/gpu=0",)
    error = refusal(on_gpus, gpu_host(tmp_path / "podman"), "0", flavour="podman")
    assert error.next_command.startswith("sudo nvidia-ctk cdi generate")


# What a container is given -------------------------------------------------------------------------------------------


def test_a_user_gets_the_groups_of_closed_nodes_and_a_home(tmp_path: Path) -> None:
    machine = atlas(tmp_path, uid=1234)
    closed = tmp_path / "dev/davinci1"
    closed.chmod(0o660)
    group = closed.stat().st_gid
    options = on_npus(machine, "1").access.options()
    assert "--user=1234:1234" in options and on_npus(machine, "1").access.environment["HOME"] == "/tmp"
    assert ([f"--group-add={group}"] if group else []) == [o for o in options if "group-add" in o]
    assert "HOME" not in on_npus(atlas(tmp_path / "root"), "1").access.environment


@pytest.mark.parametrize(("bounds", "raised"), [("000001ffffffffff", True), ("00000000a80425fb", False), ("", True)])
def test_locked_memory_is_raised_where_that_is_allowed(tmp_path: Path, bounds: str, raised: bool) -> None:
    """A container's bounds lack CAP_SYS_RESOURCE: an engine in it could not start what asks for more."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(f"Name:\tx\nCapBnd:\t{bounds}\nSeccomp:\t2\n")
    options = on_npus(atlas(tmp_path), "0").access.options()
    assert ("--ulimit=memlock=-1:-1" in options) is raised and "--ulimit=stack=67108864:67108864" in options


def test_a_line_for_another_machine_has_that_one_s_limits(tmp_path: Path) -> None:
    """A laptop's container may not raise them; the Atlas or GPU host that the line is for may."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("CapBnd:\t00000000a80425fb\n")
    shown = on_npus(atlas(tmp_path, devices=[], driver=None), "0", shown=True).access
    assert "--ulimit=memlock=-1:-1" in shown.options()
    here = Machine(root=tmp_path, uid=0, gid=0)
    assert "--ulimit=memlock=-1:-1" in on_gpus(here, "0", shown=True).access.options()
    assert "--ulimit=memlock=-1:-1" not in on_gpus(here, "0", force=True).access.options()


def test_only_the_devices_asked_for_are_passed(tmp_path: Path) -> None:
    nodes = on_npus(atlas(tmp_path), "2-3").access.nodes
    assert nodes == ("/dev/davinci2", "/dev/davinci3", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


def test_under_force_what_is_there_is_passed(tmp_path: Path) -> None:
    nodes = on_npus(atlas(tmp_path / "a", devices=range(2)), "1,5", force=True).access.nodes
    assert nodes == ("/dev/davinci1", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
    none = on_gpus(Machine(root=tmp_path / "b", uid=0, gid=0), "0", force=True).access
    assert none.gpus == "" and none.cdi == ()


def test_without_a_container_no_toolkit_is_needed(tmp_path: Path) -> None:
    bare = gpu_host(tmp_path, toolkit=False)
    assert dict(on_gpus(bare, "1", contained=False).access.process_env) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "1",
    }


def test_the_runtime_s_own_mounts_are_not_given_twice(tmp_path: Path) -> None:
    given = on_npus(atlas(tmp_path, runtime=True), "0,1").access
    assert given.runtime == "ascend" and dict(given.env) == {"ASCEND_VISIBLE_DEVICES": "0,1"} and given.nodes == ()
    assert given.files == ("/usr/local/Ascend/driver/version.info", "/etc/ascend_install.info", "/etc/hccn.conf")


def test_what_is_shown_where_there_is_no_driver_has_its_usual_places(tmp_path: Path) -> None:
    given = on_npus(atlas(tmp_path, devices=[], driver=None), "0", shown=True).access
    assert "/usr/local/bin/npu-smi" in given.files and "/etc/hccn.conf" in given.files
    assert on_npus(atlas(tmp_path / "b", devices=[], driver=None), "0", force=True).access.files == ()


# The engine ----------------------------------------------------------------------------------------------------------


def test_rootless_docker_runs_as_root_who_is_the_user(tmp_path: Path) -> None:
    """Seen with Docker 20.10: as 1001 /out is closed, `memlock` is refused, a group of the host is none of its own."""
    machine = atlas(tmp_path, uid=1234, runtime=True)
    assert on_npus(machine, "0").access.runtime == "ascend"  # and without an engine that answers
    docker(tmp_path, rootless=True)
    given = on_npus(Machine(root=tmp_path, uid=1234, gid=1234), "0").access
    options = given.options()
    assert given.user == "0:0" and given.environment == {} and given.runtime == "" and given.nodes
    assert [o for o in options if o.startswith("--ulimit")] == ["--ulimit=stack=67108864:67108864"]
    assert not [o for o in options if o.startswith(("--group-add", "--userns"))]
    podman = on_npus(Machine(root=tmp_path, uid=1234, gid=1234), "0", flavour="podman").access
    assert podman.user == "1234:1234" and podman.keep_id


@pytest.mark.parametrize("kind", ["npu", "cuda"])
def test_rootless_docker_cannot_open_what_a_group_may(tmp_path: Path, kind: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give a file to another group")
    machine = atlas(tmp_path, uid=7) if kind == "npu" else gpu_host(tmp_path, nodes=True, uid=7)
    docker(tmp_path, rootless=True)
    node = tmp_path / ("dev/davinci1" if kind == "npu" else "dev/nvidiactl")
    use = on_npus if kind == "npu" else on_gpus
    use(machine, "1")
    os.chown(node, -1, 4321)
    node.chmod(0o660)
    error = refusal(use, machine, "1")
    assert error.what.startswith(f"/dev/{node.name} is open to a group alone") and "podman" in error.next_command
    assert use(machine, "1", force=True).access.groups == ()
    assert use(machine, "1", flavour="podman", force=True).access.groups == (4321,)


def test_the_engine_is_asked_once(tmp_path: Path) -> None:
    machine = gpu_host(tmp_path, toolkit=False, cdi=True)
    docker(tmp_path, cdi=True, calls=tmp_path / "calls")
    on_gpus(machine, "0")
    on_gpus(machine, "1")
    assert (tmp_path / "calls").read_text() == "\n"


def test_an_engine_that_does_not_answer_is_not_known(tmp_path: Path) -> None:
    program(tmp_path, "/usr/bin/docker", 'echo \'{"ServerVersion": "27"}\'; exit 1')
    assert Machine(root=tmp_path).docker == Daemon()
    program(tmp_path, "/usr/bin/docker", "echo no json")
    assert Machine(root=tmp_path).docker == Daemon()


def test_cdi_needs_an_engine_that_takes_it(tmp_path: Path) -> None:
    """Docker 20.10 of Debian 12 says `could not select device driver "cdi"`."""
    machine = gpu_host(tmp_path / "old", toolkit=False, cdi=True)
    docker(tmp_path / "old", version="20.10.24+dfsg1")
    error = refusal(on_gpus, machine, "0")
    assert "Docker 20.10.24+dfsg1 takes no devices by CDI" in error.what
    assert "nvidia-container-toolkit" in error.next_command and '"cdi": true' in error.next_command
    new = gpu_host(tmp_path / "new", toolkit=False, cdi=True)
    docker(tmp_path / "new", version="28.2.2", cdi=True)
    assert on_gpus(new, "0").access.cdi == ("nvidia.com/gpu=0",) and len(on_gpus(new, "0").notes) == 0
    asked = gpu_host(tmp_path / "none", toolkit=False, cdi=True)
    assert any("by CDI (Docker 25 or newer) was not looked at" in note for note in on_gpus(asked, "0").notes)
    podman = gpu_host(tmp_path / "podman", toolkit=False, cdi=True)
    docker(tmp_path / "podman", version="20.10.24")
    assert on_gpus(podman, "0", flavour="podman").access.cdi == ("nvidia.com/gpu=0",)


def test_rootless_docker_prefers_cdi_and_else_says_what_the_toolkit_needs(tmp_path: Path) -> None:
    for name, cdi in (("new", True), ("old", False)):
        machine = gpu_host(tmp_path / name, cdi=True, uid=5)
        docker(tmp_path / name, rootless=True, cdi=cdi)
        done = on_gpus(machine, "0")
        assert bool(done.access.cdi) is cdi and bool(done.access.gpus) is not cdi
        assert any("no-cgroups" in note for note in done.notes) is not cdi


def test_a_user_gets_the_groups_of_closed_gpu_nodes(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give a file to another group")
    machine = gpu_host(tmp_path, nodes=True, uid=1234)
    assert on_gpus(machine, "0").access.groups == ()
    for group, name in enumerate(("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), 4320):
        os.chown(tmp_path / "dev" / name, -1, group)
        (tmp_path / "dev" / name).chmod(0o660)
    options = on_gpus(machine, "0").access.options()
    assert [o for o in options if "group" in o] == ["--group-add=4320", "--group-add=4322", "--group-add=4323"]


def test_the_example_is_of_the_kind_that_was_asked_for() -> None:
    with pytest.raises(UsageError) as error:
        prepare("cuda", "x", Machine(), release="2.8.0")
    assert error.value.next_command == 'inv run --target cuda --devices 0 "COMMAND"'
