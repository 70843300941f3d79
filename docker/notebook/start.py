"""What the notebook image runs: start.py lab (JupyterLab) or start.py ssh (OpenSSH). The environment says the rest:

JUPYTER_TOKEN      what lets a reader in; made and shown where it is not given
GRSTACK_URL        where the user's browser finds port 8888 of the container
GRSTACK_NOTEBOOKS  the folder that JupyterLab shows; /out/notebooks by default
"""

import os
import sys
from pathlib import Path

import hardware
import lab
import ssh

SERVICES = {"lab": lab.serve, "ssh": ssh.serve}
RUNNING = Path("/tmp/grstack-service")  # what health.py asks


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0] not in SERVICES:
        print("usage: start.py lab | ssh", file=sys.stderr)
        return 2
    if os.getuid() == 0:
        print(
            "error: nothing is served as root\n"
            "  next:  docker run --user UID:GID ..., or inv notebook, which takes care of it",
            file=sys.stderr,
        )
        return 1
    for line in hardware.lines():
        print(line, flush=True)
    RUNNING.write_text(words[0])
    return SERVICES[words[0]]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
