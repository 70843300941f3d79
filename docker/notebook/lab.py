"""JupyterLab, with a token always."""

import errno
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import health

HERE = Path(__file__).resolve().parent
HOME = HERE.parent
SHORTEST = 16  # characters of a token that is given


def serve() -> int:
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    if len(token) < SHORTEST:
        print(f"error: JUPYTER_TOKEN has {len(token)} characters, fewer than {SHORTEST}", file=sys.stderr)
        return 1
    folder = Path(os.environ.get("GRSTACK_NOTEBOOKS") or "/out/notebooks")
    try:
        bring_examples(folder)
    except OSError as error:
        print(
            f"error: notebooks go to {folder}: {error.strerror}\n"
            '  next:  docker run --volume FOLDER:/out --user "$(id -u):$(id -g)" ...',
            file=sys.stderr,
        )
        return 1
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "GRSTACK_NOTEBOOKS": str(folder),
        "JUPYTER_CONFIG_DIR": str(HERE),
        "JUPYTER_DATA_DIR": "/tmp/jupyter/data",
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter/runtime",
        "IPYTHONDIR": "/tmp/ipython",
        "SHELL": "/bin/bash",
    }
    server = subprocess.Popen([HOME / "bin/jupyter-lab"], env=environment, stdin=subprocess.DEVNULL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.terminate())
    if health.wait("lab", server):
        url = os.environ.get("GRSTACK_URL") or f"http://127.0.0.1:{health.PORTS['lab']}"
        print(f"ready: {url}/lab?token={token}\nnotebooks are in {folder}; Ctrl-C ends the server", flush=True)
    code = server.wait()
    return 0 if code == -signal.SIGTERM else code


def bring_examples(folder: Path) -> None:
    """Copies those that are not there; what the user has changed stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for example in sorted((HOME / "examples").glob("*.ipynb")):
        if not (folder / example.name).exists():
            shutil.copyfile(example, folder / example.name)
    if not os.access(folder, os.W_OK):  # nothing was missing, and nothing could be saved
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
