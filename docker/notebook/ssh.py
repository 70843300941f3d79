"""OpenSSH for one user, by key alone. Keys are in /ssh: authorized_keys is the user's, the host's is made here."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import health

KEYS = Path("/ssh")
CONFIG = Path("/tmp/sshd_config")
SERVER = "/usr/sbin/sshd"
# A session's own, or made anew by it.
NOT_HANDED_ON = {
    "GRSTACK_SSH_HOST",
    "HOME",
    "HOSTNAME",
    "JUPYTER_TOKEN",
    "LOGNAME",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "USER",
    "_",
}


def serve() -> int:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return refused(f"user {os.getuid()} has no name in this container", "inv ssh, or docker run --user 1000:1000")
    authorized = KEYS / "authorized_keys"
    if not os.access(authorized, os.R_OK) or not authorized.read_text().strip():
        return refused(
            f"no key may log in: {authorized} is missing or empty",
            "inv ssh --key ~/.ssh/id_ed25519.pub, or a folder with authorized_keys mounted on /ssh",
        )
    host_key = KEYS / "ssh_host_ed25519_key"
    if not host_key.exists():
        made = subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "grstack", "-f", host_key],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if made.returncode:
            return refused(
                f"the host's key cannot be made in {KEYS}: {made.stderr.strip()}",
                f"mount a folder that user {os.getuid()} may write to on {KEYS}",
            )
    if host := os.environ.get("GRSTACK_SSH_HOST"):  # for the user's ssh, which then asks nothing at the first time
        public = host_key.with_suffix(".pub").read_text()
        (KEYS / "known_hosts").write_text(f"{host} {public}")
    CONFIG.write_text(config(user, authorized, host_key, os.environ))
    server = subprocess.Popen([SERVER, "-D", "-e", "-f", CONFIG], stdin=subprocess.DEVNULL)
    told: list[int] = []

    def end(number: int, _: object) -> None:
        told.append(number)
        server.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if health.wait("ssh", server):
        print(f"ready: port {health.PORTS['ssh']} lets {user} in, by key", flush=True)
    code = server.wait()
    return 0 if told else code


def refused(what: str, following: str) -> int:
    print(f"error: {what}\n  next:  {following}", file=sys.stderr)
    return 1


def config(user: str, authorized: Path, host_key: Path, environ: "os._Environ[str] | dict[str, str]") -> str:
    """sshd_config. A session gets the container's environment, which sshd would not hand on."""
    variables = " ".join(quoted(f"{n}={v}") for n, v in sorted(environ.items()) if n not in NOT_HANDED_ON and v)
    return f"""Port {health.PORTS["ssh"]}
HostKey {host_key}
PidFile none
AllowUsers {user}
AuthorizedKeysFile {authorized}
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
PermitUserRC no
UsePAM no
X11Forwarding no
AllowAgentForwarding no
GatewayPorts no
MaxAuthTries 3
LoginGraceTime 20
PrintMotd no
Subsystem sftp internal-sftp
SetEnv {variables}
"""


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
