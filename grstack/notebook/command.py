"""What `inv notebook` and `inv ssh` do, once the image of the target is built."""

from __future__ import annotations

import ipaddress
import os
import secrets
import shlex
import socket
from pathlib import Path

from rich.text import Text

from grstack.engines.find import named_host
from grstack.errors import EngineError, UsageError
from grstack.launch.access import Access
from grstack.notebook.container import USER, Folders, Owner, run_argv
from grstack.notebook.image import NotebookImage
from grstack.session import Session

TOKEN = "JUPYTER_TOKEN"
SHORTEST = 16  # characters of a token; docker/notebook/lab.py refuses fewer too
KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")


def check_place(address: str, port: str) -> int:
    """The port as a number. Raises UsageError where the address is none, or the port is not free."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(
            f"--address {address}: 127.0.0.1 (default), 0.0.0.0, or an address of this machine",
            next_command="the same without --address",
        ) from None
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"--port {port}: a number from 1 to 65535", next_command="the same without --port")
    if not named_host():  # the engine is on this machine
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, int(port)))
            except OSError as error:
                raise UsageError(
                    f"--port {port}: {error.strerror}", next_command=f"the same with --port {int(port) + 1}"
                ) from None
    return int(port)


def check_token() -> str:
    """The token that JUPYTER_TOKEN gives, or a new one."""
    given = os.environ.get(TOKEN, "")
    if given and len(given) < SHORTEST:
        raise UsageError(
            f"{TOKEN} has {len(given)} characters, fewer than {SHORTEST}", next_command=f"unset {TOKEN}: one is made"
        )
    return given or secrets.token_hex(24)


def public_key(named: str) -> str:
    """The text of the user's public key: of the file `named`, or the first of KEYS in ~/.ssh."""
    folder = Path.home() / ".ssh"
    file = Path(named).expanduser() if named else next((folder / n for n in KEYS if (folder / n).is_file()), None)
    if file is None:
        raise UsageError("~/.ssh has no public key", next_command="ssh-keygen -t ed25519, then inv ssh")
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--key {file}: {getattr(error, 'strerror', 'no text')}", next_command="ls ~/.ssh") from None
    if "PRIVATE KEY" in text:
        raise UsageError(f"--key {file} is the private key, which stays where it is", next_command=f"--key {file}.pub")
    if not any(line.split(" ")[0].startswith(("ssh-", "ecdsa-", "sk-")) for line in text.splitlines()):
        raise UsageError(f"--key {file} is no public key of OpenSSH", next_command="ls ~/.ssh/*.pub")
    return text if text.endswith("\n") else f"{text}\n"


def notebook(s: Session, access: Access | None, *, port: int, address: str, token: str) -> int:
    url = f"http://{_seen(address)}:{port}"
    if not ipaddress.ip_address(address).is_loopback:
        _say(
            s,
            f"note: whoever reaches {address} may try the token, and what is sent can be read on the way (plain HTTP);"
            f" safer is --address 127.0.0.1 here and, on your own machine, ssh -L {port}:127.0.0.1:{port} HOST",
        )
    environment = {"GRSTACK_URL": url}
    return _serve(s, "lab", access, port=port, address=address, env=environment, secret={TOKEN: token})


def ssh(s: Session, access: Access | None, *, port: int, address: str, key: str) -> int:
    folders, owner = Folders.of(s.paths), Owner.here()
    folders.make(owner)
    authorized = folders.keys / "authorized_keys"
    authorized.write_text(key)
    authorized.chmod(0o600)
    if os.getuid() == 0:
        os.chown(authorized, owner.uid, owner.gid)
    known = os.path.relpath(folders.keys / "known_hosts")
    words = ["ssh", "-p", str(port), "-o", f"UserKnownHostsFile={known}", f"{USER}@{_seen(address)}"]
    _say(s, f"when it is ready, in another terminal: {shlex.join(words)}")
    host = f"[{_seen(address)}]:{port}" if port != 22 else _seen(address)
    return _serve(s, "ssh", access, port=port, address=address, env={"GRSTACK_SSH_HOST": host}, secret={})


def _seen(address: str) -> str:
    """Where a program of this machine finds it."""
    found = ipaddress.ip_address(address)
    if found.is_unspecified:
        return "127.0.0.1" if found.version == 4 else "[::1]"
    return address if found.version == 4 else f"[{address}]"


def _say(s: Session, text: str) -> None:
    s.console.print(Text(text, style="yellow"), soft_wrap=True)


def _serve(
    s: Session,
    service: str,
    access: Access | None,
    *,
    port: int,
    address: str,
    env: dict[str, str],
    secret: dict[str, str],
) -> int:
    image = NotebookImage(s)
    if image.engine.daemon.rootless:
        raise EngineError(
            "rootless Docker: nothing is served as root, and no other user of a container may write to this machine",
            next_command="docker context use default, or inv shell",
        )
    image.build()
    folders, owner = Folders.of(s.paths), Owner.here()
    folders.make(owner)
    name = f"grstack-{service}-{port}"
    argv = run_argv(
        image.engine.cli,
        image=image.exact_name,
        service=service,
        name=name,
        published=f"{f'[{address}]' if ':' in address else address}:{port}",
        owner=owner,
        folders=folders,
        context=access or image.engine.context,
        env=env,
        from_environment=tuple(secret),
    )
    try:
        return s.runner.replace(argv, env=secret, title=f"docker run {image.exact_name} {service}")
    except KeyboardInterrupt:
        return 0  # the usual end
    finally:
        image.engine.end(name)
