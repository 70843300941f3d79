"""Whether the service of this container answers: as an exit code, and as a wait before it is called ready."""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

RUNNING = Path("/tmp/grstack-service")
PORTS = {"lab": 8888, "ssh": 2222}
NETWORK = Path("/proc/net")
LISTENS = "0A"


def lab() -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORTS['lab']}/api", timeout=4) as answer:
        return answer.status == 200


def ssh() -> bool:
    """Asked of the kernel: a connection that only looks is an error to sshd, which says so every ten seconds."""
    for table in NETWORK.glob("tcp*"):  # tcp, and tcp6 where there is one
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTENS and local.endswith(f":{PORTS['ssh']:04X}"):
                return True
    return False


ASKED = {"lab": lab, "ssh": ssh}


def wait(service: str, server: "subprocess.Popen[bytes]") -> bool:
    """Until the service answers; False where its server has ended before."""
    while server.poll() is None:
        try:
            if ASKED[service]():
                return True
        except OSError:  # nothing listens yet
            pass
        time.sleep(0.2)
    return False


def main() -> int:
    try:
        return 0 if ASKED[RUNNING.read_text()]() else 1
    except (OSError, KeyError) as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
