"""Data sets that are one public file, from a server on localhost: hash, members, mirrors, an interrupted download."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from grstack import spec
from grstack.errors import DataError, HashMismatch, NetworkError, UsageError
from grstack.fetch import _files, fetch_data, not_verified
from grstack.fetch._url import NoDowngrade
from grstack.spec import FileData
from grstack.ticker import Ticker

ROOT = Path(__file__).resolve().parents[2]


class FileServer:
    """Serves `files` by path, with ranges; `cut` ends the first answer for a path after that many bytes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (self is the handler's)
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "")
                server.asked.append((self.path, wanted))
                if self.path not in server.files:
                    self.send_error(404)
                    return
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
                body = server.files[self.path][start:]
                self.send_response(206 if wanted else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: server.cut.pop(self.path, len(body))])

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = FileServer()
    yield server
    server.close()


FILES = {"toy/ratings.dat": b"1::2::3::4\n", "toy/users.dat": b"1::F::25::7::0\n", "toy/README": b"not asked for"}


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def repository(tmp_path: Path, url: str, file: str, data: bytes, hashed: str = "sha256") -> Path:
    digest = {"sha256": hashlib.sha256, "md5": hashlib.md5}.get(hashed)
    line = f"{hashed}: {digest(data).hexdigest()}" if digest else "unverified: nobody says"
    members = "[toy/ratings.dat, toy/users.dat]" if not file.endswith(".gz") or file.endswith(".tar.gz") else "[]"
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    entry = (
        f"datasets:\n  toy:\n    summary: two files\n    file: {file}\n    urls: ['{url}/{file}']\n    {line}\n"
        f"    members: {members}\n    licence: none\n"
    )
    root = tmp_path / "repository"
    root.mkdir(exist_ok=True)
    (root / "versions.yaml").write_text(text.replace("datasets:\n", entry, 1), encoding="utf-8")
    return root


@pytest.mark.parametrize(("file", "data"), [("toy.zip", zipped()), ("toy.tar.gz", tarred())])
@pytest.mark.parametrize("hashed", ["sha256", "md5", "none"])
def test_the_members_of_an_archive(server: FileServer, tmp_path: Path, file: str, data: bytes, hashed: str) -> None:
    server.files[f"/{file}"] = data
    root = repository(tmp_path, server.url, file, data, hashed)
    folder = fetch_data(root, "toy", tmp_path / "data")
    assert {path.name for path in folder.iterdir()} == {"ratings.dat", "users.dat", "source.json"}
    assert (folder / "ratings.dat").read_bytes() == FILES["toy/ratings.dat"]
    assert json.loads((folder / "source.json").read_text())["sha256"] == hashlib.sha256(data).hexdigest()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["toy"]
    server.close()
    assert fetch_data(root, "toy", tmp_path / "data") == folder


def test_every_part_is_said_and_every_ten_seconds_within(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = zipped()
    times = itertools.count(0.0, 10.0)  # every look at the clock is ten seconds later
    monkeypatch.setattr("grstack.ticker.time.monotonic", lambda: next(times))
    brought = _written(tmp_path / "toy.zip", data)
    root = repository(tmp_path, server.url, "toy.zip", data)
    fetch_data(root, "toy", tmp_path / "data", from_file=brought)
    parts = ["toy: is toy.zip the published file?", "unpacking toy/ratings.dat", "unpacking toy/users.dat"]
    said = [line for part in parts for line in (part, f"{part}: 0.0 MB so far")]
    assert capsys.readouterr().err.splitlines() == said
    fetch_data(root, "toy", tmp_path / "data")
    parts = [f"toy: is {name} what was fetched?" for name in ("ratings.dat", "users.dat")]
    said = [line for part in parts for line in (part, f"{part}: 0.0 MB so far")]
    assert capsys.readouterr().err.splitlines() == said


def test_a_download_that_no_terminal_shows_says_how_far_it_is(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = itertools.count(0.0, 10.0)
    monkeypatch.setattr("grstack.ticker.time.monotonic", lambda: next(times))
    data = b"x" * 2_500_000  # three pieces
    server.files["/reviews.json.gz"] = data
    fetch_data(repository(tmp_path, server.url, "reviews.json.gz", data, "none"), "toy", tmp_path / "data")
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("downloading")]
    far = [f"downloading reviews.json.gz: {size} MB so far" for size in ("1.0", "2.1", "2.5")]
    assert said == ["downloading reviews.json.gz", *far]


def test_a_line_in_ten_seconds_and_no_more(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    times = itertools.count(0.0, 4.0)
    monkeypatch.setattr("grstack.ticker.time.monotonic", lambda: next(times))
    tick = Ticker(Console(stderr=True), "hashing [x]")
    for number in range(1, 7):  # at 4, 8, ... 24 s
        tick(number * 1_000_000)
    said = ["hashing [x]", "hashing [x]: 3.0 MB so far", "hashing [x]: 6.0 MB so far"]
    assert capsys.readouterr().err.splitlines() == said


def test_a_single_file_is_kept_as_it_is(server: FileServer, tmp_path: Path) -> None:
    data = gzip.compress(b'{"asin": "1"}\n')
    server.files["/reviews.json.gz"] = data
    root = repository(tmp_path, server.url, "reviews.json.gz", data, "none")
    folder = fetch_data(root, "toy", tmp_path / "data")
    assert (folder / "reviews.json.gz").read_bytes() == data


def test_from_a_file(server: FileServer, tmp_path: Path) -> None:
    brought = tmp_path / "brought.zip"
    brought.write_bytes(zipped())
    root = repository(tmp_path, server.url, "toy.zip", zipped())
    folder = fetch_data(root, "toy", tmp_path / "data", from_file=brought)
    assert (folder / "users.dat").read_bytes() == FILES["toy/users.dat"]
    assert brought.exists() and server.asked == []
    with pytest.raises(UsageError, match="is not a file"):
        fetch_data(root, "toy", tmp_path / "other", from_file=tmp_path / "absent.zip")


def test_another_file_is_refused_and_nothing_is_kept(server: FileServer, tmp_path: Path) -> None:
    server.files["/toy.zip"] = zipped() + b"changed"
    root = repository(tmp_path, server.url, "toy.zip", zipped())
    with pytest.raises(HashMismatch, match="toy.zip is not the published file"):
        fetch_data(root, "toy", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_an_interrupted_download_continues(server: FileServer, tmp_path: Path) -> None:
    data = zipped()
    server.files["/toy.zip"], server.cut["/toy.zip"] = data, 100
    root = repository(tmp_path, server.url, "toy.zip", data)
    with pytest.raises(NetworkError, match=f"ended after 100 of {len(data)} bytes"):
        fetch_data(root, "toy", tmp_path / "data")
    folder = fetch_data(root, "toy", tmp_path / "data")
    assert server.asked == [("/toy.zip", ""), ("/toy.zip", "bytes=100-")]
    assert (folder / "ratings.dat").read_bytes() == FILES["toy/ratings.dat"]


def test_mirrors_are_asked_first(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/mirror/toy.zip"] = zipped()
    monkeypatch.setenv("GRSTACK_DATA_MIRRORS", f"{server.url}/none {server.url}/mirror/")
    root = repository(tmp_path, server.url, "toy.zip", zipped())
    fetch_data(root, "toy", tmp_path / "data")
    assert [path for path, _ in server.asked] == ["/none/toy.zip", "/mirror/toy.zip"]


def test_every_place_that_failed_is_named(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRSTACK_DATA_MIRRORS", "http://127.0.0.1:9/m")
    root = repository(tmp_path, server.url, "toy.zip", zipped())
    with pytest.raises(NetworkError) as caught:
        fetch_data(root, "toy", tmp_path / "data")
    assert "http://127.0.0.1:9/m/toy.zip" in str(caught.value) and "404" in str(caught.value)
    assert "--from" in caught.value.next_command


def test_a_missing_member_and_a_changed_folder(server: FileServer, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("toy/ratings.dat", b"1\n")
    server.files["/toy.zip"] = out.getvalue()
    root = repository(tmp_path, server.url, "toy.zip", out.getvalue())
    with pytest.raises(DataError, match="toy.zip has no toy/users.dat"):
        fetch_data(root, "toy", tmp_path / "data")
    assert not (tmp_path / "data/toy").exists()

    root = repository(tmp_path, server.url, "toy.zip", zipped())
    folder = fetch_data(root, "toy", tmp_path / "data", from_file=_written(tmp_path / "b.zip", zipped()))
    (folder / "users.dat").write_bytes(b"mine")
    with pytest.raises(HashMismatch, match="users.dat is not the file that was fetched"):
        fetch_data(root, "toy", tmp_path / "data")
    (folder / _files.SOURCE).unlink()
    with pytest.raises(DataError, match="not fetched whole"):
        fetch_data(root, "toy", tmp_path / "data")


def test_a_folder_named_as_if_it_were_being_unpacked_stays(server: FileServer, tmp_path: Path) -> None:
    server.files["/toy.zip"] = zipped()
    mine = tmp_path / "data/.toy.unpacking/mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    folder = fetch_data(repository(tmp_path, server.url, "toy.zip", zipped()), "toy", tmp_path / "data")
    assert mine.read_text() == "mine" and folder.stat().st_mode & 0o777 == mine.parent.stat().st_mode & 0o777
    assert sorted(path.name for path in folder.parent.iterdir()) == [".toy.unpacking", "toy"]


def test_a_data_set_needs_exactly_one_hash() -> None:
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    with pytest.raises(spec._load.SpecError, match="data set ml-1m needs sha256, md5 or"):
        spec.loads(text.replace("    sha256: a6898adb", "    urls_of: x\n    licence2: a6898adb", 1))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_makers_are_asked_over_https_only() -> None:
    """Where no hash is published nothing else tells that a file is the maker's."""
    datasets = spec.load(ROOT / "versions.yaml").datasets
    urls = [url for dataset in datasets.values() if isinstance(dataset, FileData) for url in dataset.urls]
    assert len(urls) > 5 and [url for url in urls if not url.startswith("https://")] == []
    request = urllib.request.Request("https://maker.example/file")
    with pytest.raises(urllib.error.URLError, match="from https to http://"):
        NoDowngrade().redirect_request(request, None, 302, "Found", {}, "http://maker.example/file")
    followed = NoDowngrade().redirect_request(request, None, 302, "Found", {}, "https://other.example/file")
    assert followed.full_url == "https://other.example/file"


@pytest.mark.parametrize("hashed", ["md5", "none"])
def test_a_file_without_a_published_hash_is_said_to_be_so(server: FileServer, tmp_path: Path, hashed: str) -> None:
    data = zipped()
    server.files["/toy.zip"] = data
    root = repository(tmp_path, server.url, "toy.zip", data, hashed)
    dataset = spec.load(root / "versions.yaml").datasets["toy"]
    for _ in ("fetched", "there already"):
        said = not_verified(dataset, fetch_data(root, "toy", tmp_path / "data"))
        assert said == (
            "" if hashed == "md5" else f"nobody says: toy.zip came with sha256 {hashlib.sha256(data).hexdigest()}"
        )
