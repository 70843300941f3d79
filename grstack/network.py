"""The host's network settings: package index, mirrors, proxies, CA bundle.

Read from, first wins: GRSTACK_* variables, pip's and uv's variables, ~/.config/grstack/network.yaml, pip.conf.
They are handed to commands through their environment or as build secrets; they are never written to a lock, an image
or a log. `registry` (HOST or HOST/PATH) is asked for base images in place of the public registries; the engine's own
login is used for it. `data_mirrors` are URLs of folders that hold the files of public data sets; they are asked first.
`ubuntu_archive` is the URL of an archive of Ubuntu's packages, for bases on a host whose apt has none.
"""

from __future__ import annotations

import configparser
import os
import re
import runpy
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast
from urllib.parse import unquote, urlsplit

import platformdirs
import yaml

from grstack.errors import SpecError

TorchBuild = Literal["auto", "plain", "cpu"]
SYSTEM_PIP_FILES = (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_KEYS = (
    "index_url",
    "extra_index_urls",
    "find_links",
    "trusted_hosts",
    "torch_index_url",
    "torch_build",
    "registry",
    "data_mirrors",
    "ubuntu_archive",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "ca_bundle",
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where this host gets packages from. URLs may hold credentials: they are left out of repr and str."""

    index_url: str | None = field(default=None, repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    trusted_hosts: tuple[str, ...] = ()
    torch_index_url: str | None = field(default=None, repr=False)
    torch_build: TorchBuild = "auto"
    registry: str | None = field(default=None, repr=False)
    data_mirrors: tuple[str, ...] = field(default=(), repr=False)
    ubuntu_archive: str | None = field(default=None, repr=False)
    http_proxy: str | None = field(default=None, repr=False)
    https_proxy: str | None = field(default=None, repr=False)
    no_proxy: str | None = None
    ca_bundle: Path | None = None

    def environment(self) -> dict[str, str]:
        """Variables that make pip, uv, curl and apt use these settings."""
        # uv stops at the first index that knows a name; pip, whose settings these are, looks at all of them
        env: dict[str, str] = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
        if self.index_url:
            env |= {"PIP_INDEX_URL": self.index_url, "UV_DEFAULT_INDEX": self.index_url}
        if self.extra_index_urls:
            joined = " ".join(self.extra_index_urls)
            env |= {"PIP_EXTRA_INDEX_URL": joined, "UV_INDEX": joined}
        if self.find_links:
            env |= {"PIP_FIND_LINKS": " ".join(self.find_links), "UV_FIND_LINKS": ",".join(self.find_links)}
        if self.trusted_hosts:
            hosts = " ".join(self.trusted_hosts)
            env |= {"PIP_TRUSTED_HOST": hosts, "UV_INSECURE_HOST": hosts}
        return env | self.connection()

    def connection(self) -> dict[str, str]:
        """Proxies and CA bundle alone, under the names that the usual clients read."""
        env: dict[str, str] = {}
        for name, value in (
            ("http_proxy", self.http_proxy),
            ("https_proxy", self.https_proxy),
            ("no_proxy", self.no_proxy),
        ):
            if value:
                env |= {name: value, name.upper(): value}
        if self.ca_bundle:
            bundle = str(self.ca_bundle)
            names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
            env |= dict.fromkeys(names, bundle)
        return env

    def in_a_run(self, ca_bundle: str) -> dict[str, str]:
        """The same for a command in the image, which sees the CA bundle at `ca_bundle`, and no folder of this host."""
        return replace(
            self,
            index_url=_elsewhere(self.index_url),
            extra_index_urls=tuple(url for url in self.extra_index_urls if _elsewhere(url)),
            find_links=tuple(place for place in self.find_links if _elsewhere(place)),
            ca_bundle=Path(ca_bundle) if self.ca_bundle else None,
        ).environment()

    def redact(self, text: str) -> str:
        """`text` without credentials, fit for an error on the terminal."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return _CREDENTIALS.sub("***", text)

    def conceal(self, text: str) -> str:
        """`text` without credentials and without the hosts of this machine's own network, fit for a log."""
        text = self.redact(text)
        for host, name in sorted(self._hosts().items(), key=lambda item: len(item[0]), reverse=True):
            text = text.replace(host, f"<{name}>")
        return text

    def mirrored(self, image: str) -> tuple[str, ...]:
        """The names under which the configured registry may hold a public image; empty where none is configured."""
        if not self.registry:
            return ()
        host, _, rest = image.partition("/")
        path = rest if rest and ("." in host or ":" in host) else image
        names = [path] if "/" in path else [path, f"library/{path}"]
        return tuple(f"{self.registry}/{name}" for name in names)

    def _hosts(self) -> dict[str, str]:
        """Host (with its port) -> the setting that names it."""
        single = ("index_url", "torch_index_url", "ubuntu_archive", "http_proxy", "https_proxy")
        named = [(name, getattr(self, name)) for name in single]
        named += [("extra_index_urls", url) for url in self.extra_index_urls]
        named += [("find_links", url) for url in self.find_links if "://" in url]
        named += [("data_mirrors", url) for url in self.data_mirrors]
        found = {urlsplit(url).netloc.rpartition("@")[2]: name for name, url in named if url}
        if self.registry:
            found[self.registry.split("/")[0]] = "registry"
        return {host: name for host, name in found.items() if host}

    def _secrets(self) -> set[str]:
        urls = [self.index_url, self.torch_index_url, self.ubuntu_archive, self.http_proxy, self.https_proxy]
        found: set[str] = set()
        for url in [*urls, *self.extra_index_urls, *self.find_links, *self.data_mirrors]:
            password = urlsplit(url).password if url else None
            if password:
                found |= {password, unquote(password)}
        return found


def _elsewhere(place: str | None) -> str | None:
    return place if place and "://" in place and not place.startswith("file:") else None


def load(environ: Mapping[str, str] | None = None, config: Path | None = None) -> Settings:
    """The settings of this host. `config` defaults to network.yaml in the user's grstack configuration."""
    env = os.environ if environ is None else environ
    path = config or Path(platformdirs.user_config_dir("grstack")) / "network.yaml"
    own = _own_file(path)
    pip = _pip_files(env)

    def one(name: str, variables: Iterable[str], pip_option: str = "") -> str | None:
        for variable in (f"GRSTACK_{name.upper()}", *variables):
            if env.get(variable):
                return env[variable]
        value = own.get(name)
        return " ".join(value) if isinstance(value, list) else value or pip.get(pip_option) or None

    def many(name: str, variables: Iterable[str], pip_option: str, separator: str | None = None) -> tuple[str, ...]:
        return tuple(dict.fromkeys((one(name, variables, pip_option) or "").replace(separator or " ", " ").split()))

    ca_bundle = one("ca_bundle", ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), "cert")
    torch_build = one("torch_build", ()) or "auto"
    if torch_build not in ("auto", "plain", "cpu"):
        raise SpecError(
            f"torch_build is '{torch_build}'; valid: auto, cpu, plain",
            where=f"GRSTACK_TORCH_BUILD, or {path}",
            next_command="unset GRSTACK_TORCH_BUILD",
        )
    if ca_bundle and not Path(ca_bundle).exists():
        raise SpecError(
            f"the CA bundle {ca_bundle} does not exist",
            where="PIP_CERT, SSL_CERT_FILE or pip.conf",
            next_command="pip config debug   # who names it",
        )
    return Settings(
        index_url=one("index_url", ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"), "index-url"),
        extra_index_urls=many(
            "extra_index_urls", ("PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"), "extra-index-url"
        ),
        find_links=many("find_links", ("PIP_FIND_LINKS", "UV_FIND_LINKS"), "find-links", ","),
        trusted_hosts=many("trusted_hosts", ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"), "trusted-host"),
        torch_index_url=one("torch_index_url", ()),
        torch_build=cast(TorchBuild, torch_build),
        registry=_registry(one("registry", ()), path),
        data_mirrors=many("data_mirrors", (), ""),
        ubuntu_archive=one("ubuntu_archive", ()),
        http_proxy=one("http_proxy", ("HTTP_PROXY", "http_proxy"), "proxy"),
        https_proxy=one("https_proxy", ("HTTPS_PROXY", "https_proxy"), "proxy"),
        no_proxy=one("no_proxy", ("NO_PROXY", "no_proxy")),
        ca_bundle=Path(ca_bundle) if ca_bundle else None,
    )


def _registry(value: str | None, path: Path) -> str | None:
    """HOST or HOST/PATH, without the scheme that people write before it."""
    name = re.sub(r"^https?://", "", value or "").strip("/")
    if not name:
        return None
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d+)?(/[a-z0-9._/-]+)?", name):
        raise SpecError(
            "registry must be HOST or HOST/PATH, without credentials",
            where=f"GRSTACK_REGISTRY, or {path}",
            next_command="docker login HOST",
        )
    return name


def _own_file(path: Path) -> dict[str, str | list[str]]:
    edit = f"${{EDITOR:-vi}} {path}"
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"not valid YAML: {error}", where=str(path), next_command=edit) from None
    if not isinstance(data, dict):
        raise SpecError(f"a mapping is expected; keys: {', '.join(_KEYS)}", where=str(path), next_command=edit)
    faults = [f"unknown key '{key}'" for key in data if key not in _KEYS]
    for key, value in data.items():
        plain = isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))
        if key in _KEYS and not plain:
            faults.append(f"'{key}' must be a text or a list of texts")
    if faults:
        raise SpecError("; ".join(faults) + f"; valid keys: {', '.join(_KEYS)}", where=str(path), next_command=edit)
    return data


def _pip_files(env: Mapping[str, str]) -> dict[str, str]:
    """The options of pip's configuration files, the later file and the more special section first."""
    home = Path(env.get("HOME", "~")).expanduser()
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    if env.get("PIP_CONFIG_FILE") == os.devnull:  # pip's own switch for "no configuration files"
        return {}
    files = [
        *SYSTEM_PIP_FILES,
        home / ".pip/pip.conf",
        config_home / "pip/pip.conf",
        Path(env.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf",
    ]
    if env.get("PIP_CONFIG_FILE"):
        files.append(Path(env["PIP_CONFIG_FILE"]))
    options: dict[str, str] = {}
    for path in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise SpecError(
                f"pip's configuration cannot be read: {error}", where=str(path), next_command="pip config debug"
            ) from None
        for section in ("global", "download"):
            if parser.has_section(section):
                options.update({key: value.strip() for key, value in parser.items(section)})
    return options


if __name__ == "__main__":  # python -m grstack.network MODULE ..: the module's command, with these settings
    os.environ.update(load().environment())
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__")
