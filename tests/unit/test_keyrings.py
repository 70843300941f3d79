"""The key of an archive is the published one or none: keys made here stand for Ubuntu's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines import keyrings
from grstack.errors import EngineError
from grstack.run import Runner

RUNNER = Runner(Console(quiet=True))

pytestmark = pytest.mark.skipif(not shutil.which("gpg"), reason="needs gpg")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "gpg").mkdir(mode=0o700)
    return tmp_path / "gpg"


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, str, str]:
    """A keyring with one key, and the fingerprints of the key and of its subkey."""
    place = tmp_path / "theirs"
    place.mkdir(mode=0o700)
    gpg = ["gpg", "--batch", "--quiet", f"--homedir={place}", "--pinentry-mode=loopback", "--passphrase="]
    subprocess.run([*gpg, "--quick-generate-key", "An archive <a@example.com>", "default", "default"], check=True)
    listed = subprocess.run([*gpg, "--with-colons", "--list-keys"], capture_output=True, text=True, check=True).stdout
    primary, sub = (line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
    ring = tmp_path / "x-archive-keyring.gpg"
    subprocess.run([*gpg, f"--output={ring}", "--export"], check=True)
    return ring, primary, sub


def test_the_published_key_is_given_as_the_value_of_signed_by(
    home: Path, made: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, primary, _ = made
    monkeypatch.setitem(keyrings.FINGERPRINTS, "ubuntu", primary)
    lines = keyrings._published("ubuntu", [ring], home, RUNNER).splitlines()
    assert lines[0] == "" and lines[1] == " -----BEGIN PGP PUBLIC KEY BLOCK-----" and lines[2] == " ."
    assert all(line.startswith(" ") and line.strip() for line in lines[1:]), "an empty line ends a paragraph"


@pytest.mark.parametrize("of", ["another key", "its subkey"])
def test_a_keyring_without_the_published_key_is_refused(
    of: str, home: Path, made: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, _, sub = made
    monkeypatch.setitem(keyrings.FINGERPRINTS, "ubuntu", sub if of == "its subkey" else "A" * 40)
    with pytest.raises(EngineError, match="has no .*, which ubuntu's packages are signed with") as error:
        keyrings._published("ubuntu", [ring], home, RUNNER)
    assert "ubuntu_archive" in str(error.value.next_command)
