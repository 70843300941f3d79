"""`inv notebook` and `inv ssh` in every target's image as a user has them: the page in a browser, the session over SSH.

The image of target cuda is tried as far as this machine goes: without a GPU its notebook trains on the CPU.
Slow: `python -m pytest -m slow tests/integration/test_notebook.py`, with `chromium-driver` and `openssh-client` of the
distribution, and `inv fetch-data ml-100k` before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grstack import spec
from grstack.launch import gpu
from grstack.launch.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 1800.0  # a first build of the image is part of it
TORCH = {name: target.packages["torch"] for name, target in spec.load(ROOT / "versions.yaml").targets.items()}
IMAGES = {"npu": "npu-notebook:twin", "cpu": "cpu-notebook:cpu", "cuda": "cuda-notebook:cuda"}
TRAINING = 900.0  # seconds for all cells: half a minute on two idle cores, 279 beside builds and other suites
NOTEBOOK = "train-hstu.ipynb"
OUTPUT = ".jp-OutputArea-output"
ERROR = '[data-mime-type="application/vnd.jupyter.stderr"]'  # tracebacks too
pytestmark = [pytest.mark.image, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Served:
    process: subprocess.Popen[str]
    port: int
    said: str
    target: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        match = re.search(r"token=([0-9a-f]{48})", self.said)
        assert match, self.said
        return match[1]


@contextmanager
def served(target: str, *words: str) -> Iterator[Served]:
    """What `inv notebook` or `inv ssh` serves in the image of `target`, ended by Ctrl-C."""
    port = free_port()
    argv = [str(Path(sys.executable).parent / "inv"), *words, "--target", target, "--port", str(port)]
    process = subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    said, end = "", time.monotonic() + PATIENCE
    try:
        for line in process.stdout:
            said += line
            if line.startswith("ready: "):
                break
            assert time.monotonic() < end, said
        assert "ready: " in said, said
        yield Served(process, port, said, target)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        left = subprocess.run(["docker", "ps", "--all", "--quiet", f"--filter=publish={port}"], capture_output=True)
        assert left.stdout == b"", "the container outlived the command"


@pytest.fixture(scope="module", params=TORCH)
def lab(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param, "notebook") as server:
        yield server


def device_of(target: str) -> str:
    """What the notebook trains on in this target's image."""
    return "cpu" if target == "cuda" and gpu.absent(Machine()) else target


def ask(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_without_the_token_nothing_is_served(lab: Served) -> None:
    for path in ("contents", "kernels", "terminals", "sessions"):
        assert ask(f"{lab.url}/api/{path}")[0] == 403, path
        assert ask(f"{lab.url}/api/{path}", Authorization=f"token {'0' * 48}")[0] == 403, path
    assert b"Token authentication is enabled" in ask(f"{lab.url}/lab")[1]
    status, body = ask(f"{lab.url}/api/contents", Authorization=f"token {lab.token}")
    assert status == 200 and NOTEBOOK in {entry["name"] for entry in json.loads(body)["content"]}


def test_only_this_machine_reaches_it(lab: Served) -> None:
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{lab.port}"], capture_output=True, text=True, check=True)
    assert [line.split()[3] for line in listening.stdout.splitlines()] == [f"127.0.0.1:{lab.port}"]


def test_the_token_is_on_no_command_line(lab: Served) -> None:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert lab.token.encode() not in file.read_bytes(), file
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_nothing_runs_as_root(lab: Served) -> None:
    found = subprocess.run(
        ["docker", "ps", "--quiet", f"--filter=publish={lab.port}"], capture_output=True, text=True, check=True
    )
    users = subprocess.run(["docker", "top", found.stdout.strip(), "-o", "pid,uid"], capture_output=True, text=True)
    expected = os.getuid() or 1000
    assert {line.split()[1] for line in users.stdout.splitlines()[1:]} == {str(expected)}, users


def test_it_says_what_it_computes_on(lab: Served) -> None:
    device = {
        "npu": r"npu, emulated on this CPU \(correctness, not speed\)",
        "cpu": "cpu",
        "cuda": r"\d+ GPUs?, driver for CUDA .*"
        if device_of("cuda") == "cuda"
        else "cpu: this container was given no GPU",
    }[lab.target]
    assert re.search(f"^device: {device}$", lab.said, re.MULTILINE), lab.said


def texts(browser: Any, selector: str) -> list[str]:
    return [str(element.text) for element in browser.find_elements("css selector", selector)]


@pytest.fixture
def copy(lab: Served) -> Iterator[str]:
    """The example under a name of its own: the user may have changed theirs."""
    place = ROOT / f"build/out/notebooks/test-{os.getpid()}.ipynb"
    shutil.copyfile(ROOT / "docker/notebook/examples" / NOTEBOOK, place)
    os.chown(place, place.parent.stat().st_uid, place.parent.stat().st_gid)
    yield place.name
    place.unlink()


def kernel_is_idle(lab: Served) -> bool:
    sessions = json.loads(ask(f"{lab.url}/api/sessions", Authorization=f"token {lab.token}")[1])
    return [session["kernel"]["execution_state"] for session in sessions] == ["idle"]


def test_the_notebook_runs_to_its_last_cell(lab: Served, copy: str) -> None:
    if shutil.which("chromedriver") is None:
        pytest.fail("this test needs a browser; type: apt-get install chromium-driver")
    assert (ROOT / "data/ml-100k").is_dir(), "type: inv fetch-data ml-100k"
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,3600"):
        options.add_argument(word)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        browser.get(f"{lab.url}/lab/tree/{copy}?token={lab.token}")
        wait = WebDriverWait(browser, 180)
        menu = "//div[contains(@class, 'lm-MenuBar-itemLabel') and text()='Run']"
        wait.until(lambda b: b.find_elements(By.CSS_SELECTOR, ".jp-NotebookPanel .jp-CodeCell"))
        wait.until(lambda _: kernel_is_idle(lab))
        wait.until(lambda b: b.find_elements(By.CSS_SELECTOR, "[data-status=idle]"))
        browser.find_element(By.XPATH, menu).click()
        entry = "//div[contains(@class, 'lm-Menu-itemLabel') and text()='Run All Cells']"
        wait.until(lambda b: b.find_elements(By.XPATH, entry))[0].click()
        training = WebDriverWait(browser, TRAINING)
        training.until(lambda b: any("finished: hr@10" in text for text in texts(b, OUTPUT)) or texts(b, ERROR))
        assert texts(browser, ERROR) == []
        said = "\n".join(texts(browser, OUTPUT))
        device = device_of(lab.target)
        assert re.search(rf"^torch {TORCH[lab.target]}\S* on {device}$", said, re.MULTILINE), said
        assert {"npu": "smoke on npu:0 (emulated)", "cpu": "smoke on cpu", "cuda": "smoke on cuda:0"}[device] in said, (
            said
        )
        assert re.findall(r"^user 1, (\d): \S", said, re.MULTILINE) == list("12345"), said
        pictures = browser.find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output img")
        assert len(pictures) == 1 and int(pictures[0].get_property("naturalWidth")) > 400
    finally:
        browser.save_screenshot(str(ROOT / f"build/notebook/lab-{lab.target}.png"))
        browser.quit()
    losses = [json.loads(line) for line in (ROOT / "build/out/notebook-run/log.jsonl").open()]
    assert [event["step"] for event in losses if event["event"] == "step"][-1] == 300
    assert (ROOT / "build/out/notebook-run/report.html").is_file()
    assert (ROOT / "build/out/notebook-run").stat().st_uid == (os.getuid() or 1000)


def test_without_a_checkout_it_serves_on_a_read_only_root(lab: Served, tmp_path: Path) -> None:
    """By `docker run` alone, as a user that the image does not know; `lab` has built it."""
    tmp_path.chmod(0o777)
    options = ("--read-only", "--publish=127.0.0.1::8888", "--user=4321:4321", f"--volume={tmp_path}:/out")
    image = f"grstack/{IMAGES[lab.target]}"
    name = docker("run", "--detach", "--cap-drop=ALL", *options, image)
    try:
        end = time.monotonic() + 120
        state = "--format={{.State.Status}} {{.State.Health.Status}}"
        while (now := docker("inspect", state, name)) != "running healthy":
            assert now.startswith("running") and time.monotonic() < end, f"{now}\n{docker('logs', name, both=True)}"
            time.sleep(0.5)
        said = docker("logs", name)
        token = re.search(r"^ready: http://127\.0\.0\.1:8888/lab\?token=([0-9a-f]{48})$", said, re.MULTILINE)
        assert token, said
        url = f"http://{docker('port', name, '8888')}/api/contents"
        assert ask(url)[0] == 403 and ask(url, Authorization=f"token {token[1]}")[0] == 200
    finally:
        docker("rm", "--force", "--volumes", name)
    assert (tmp_path / f"notebooks/{NOTEBOOK}").stat().st_uid == 4321


def docker(*words: str, both: bool = False) -> str:
    """What it prints; `both`: on the standard error too, as `docker logs` does of a container's."""
    errors = subprocess.STDOUT if both else subprocess.PIPE
    done = subprocess.run(["docker", *words], stdout=subprocess.PIPE, stderr=errors, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "another"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture(scope="module", params=TORCH)
def shell(request: pytest.FixtureRequest, keys: Path) -> Iterator[Served]:
    with served(request.param, "ssh", "--key", str(keys / "mine.pub")) as server:
        yield server


def ssh(server: Served, *words: str, user: str = "grstack") -> subprocess.CompletedProcess[str]:
    """The user's ssh with the host's key, which is known from the start; nothing of this machine's own settings."""
    known = ROOT / "build/notebook/ssh/known_hosts"
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes"]
    argv = ["ssh", "-F", "none", "-p", str(server.port), *(f"-o{option}" for option in options)]
    return subprocess.run(
        [*argv, *words[:2], f"{user}@127.0.0.1", *words[2:]], capture_output=True, text=True, timeout=60
    )


def test_the_key_opens_a_session_with_the_image_s_environment(shell: Served, keys: Path) -> None:
    program = "import os, torch, fbgemm_gpu, gr_ops; print(os.getuid(), torch.__version__, os.environ['GRSTACK_DATA'])"
    done = ssh(shell, "-i", str(keys / "mine"), f'python -c "{program}"')
    assert done.returncode == 0, done.stderr
    user, torch, data = done.stdout.split()
    assert (user, torch.partition("+")[0], data) == (str(os.getuid() or 1000), TORCH[shell.target], "/data")


def test_a_file_goes_over_sftp(shell: Served, keys: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a file")
    known = ROOT / "build/notebook/ssh/known_hosts"
    argv = [
        "sftp",
        "-F",
        "none",
        "-q",
        "-P",
        str(shell.port),
        "-i",
        str(keys / "mine"),
        f"-oUserKnownHostsFile={known}",
    ]
    done = subprocess.run([*argv, "grstack@127.0.0.1"], input=f"put {tmp_path}/a.txt /out/a.txt", text=True, timeout=60)
    assert done.returncode == 0
    assert (ROOT / "build/out/a.txt").read_text() == "a file"
    (ROOT / "build/out/a.txt").unlink()


@pytest.mark.parametrize("user", ["grstack", "root", "nobody"])
def test_another_key_or_user_is_refused(shell: Served, keys: Path, user: str) -> None:
    words = ("-i", str(keys / ("mine" if user != "grstack" else "another")))
    done = ssh(shell, *words, "true", user=user)
    assert done.returncode == 255 and "Permission denied (publickey)" in done.stderr, done


def test_a_password_is_not_asked_for(shell: Served, keys: Path) -> None:
    done = ssh(shell, "-o", "PreferredAuthentications=password,keyboard-interactive", "true")
    assert done.returncode == 255 and "Permission denied (publickey)" in done.stderr, done


def test_the_host_key_stays(shell: Served) -> None:
    before = (ROOT / "build/notebook/ssh/ssh_host_ed25519_key.pub").read_text()
    assert before.split()[1] in (ROOT / "build/notebook/ssh/known_hosts").read_text()
    assert (ROOT / "build/notebook/ssh/ssh_host_ed25519_key").stat().st_mode & 0o077 == 0
