"""Download one public file over HTTP: mirrors first, an interrupted download continues."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from grstack.errors import NetworkError
from grstack.network import Settings
from grstack.ticker import Ticker

TIMEOUT = 60.0
BLOCK = 1 << 20


def candidates(file: str, urls: Sequence[str], settings: Settings) -> list[str]:
    """Where to ask for `file`: the user's mirrors, then the makers' own places."""
    return [f"{mirror.rstrip('/')}/{file}" for mirror in settings.data_mirrors] + list(urls)


def download_url(file: str, urls: Sequence[str], part: Path, settings: Settings, console: Console) -> Path:
    """The content of the first URL that answers, in `part`; what is there already is continued.

    Raises NetworkError, with what each place said, when none gives the whole file.
    """
    said = []
    for url in candidates(file, urls, settings):
        try:
            _one(file, url, part, settings, console)
            return part
        except (urllib.error.URLError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None and not isinstance(error, urllib.error.URLError):
                raise  # the disk, not the network
            said.append(f"  {settings.redact(url)}: {error}")
    raise NetworkError(
        f"{file} cannot be downloaded\n" + "\n".join(said),
        where="the URLs of versions.yaml, or data_mirrors in ~/.config/grstack/network.yaml",
        next_command="bring the file by other means: inv fetch-data NAME --from FILE",
    )


def _one(file: str, url: str, part: Path, settings: Settings, console: Console) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with _opener(settings).open(request, timeout=TIMEOUT) as answer:
        continued = answer.status == 206 if hasattr(answer, "status") else False
        length = answer.headers.get("Content-Length")
        start = have if continued else 0
        total = start + int(length) if length else None
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        tick = None if console.is_terminal else Ticker(console, f"downloading {file}")
        with (
            part.open("ab" if continued else "wb") as sink,
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            bar, done = progress.add_task(file, total=total, completed=start), start
            while block := answer.read(BLOCK):
                sink.write(block)
                done += len(block)
                progress.update(bar, completed=done)
                if tick is not None:
                    tick(done)
        if total is not None and part.stat().st_size != total:
            raise ValueError(f"ended after {part.stat().st_size} of {total} bytes; the same command continues")


class NoDowngrade(urllib.request.HTTPRedirectHandler):
    """A redirection from https to http would undo what https is for; some files have no published hash."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.URLError(f"redirected from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(settings: Settings) -> urllib.request.OpenerDirector:
    proxies = {name: value for name, value in (("http", settings.http_proxy), ("https", settings.https_proxy)) if value}
    context = ssl.create_default_context(cafile=str(settings.ca_bundle) if settings.ca_bundle else None)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), NoDowngrade()]
    if proxies:
        handlers.append(urllib.request.ProxyHandler(proxies))
    return urllib.request.build_opener(*handlers)
