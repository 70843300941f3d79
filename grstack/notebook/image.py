"""The notebook image: docker/notebook upon the image of a plan."""

from __future__ import annotations

import os
import shutil
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from grstack import inputs, keys, labels, layers, locks
from grstack.engines import docker_cli, names
from grstack.engines.bootstrap import host_secrets
from grstack.engines.docker import DockerEngine
from grstack.engines.docker_build import note_image
from grstack.errors import EngineError, UnsupportedError
from grstack.execute import build_lock, check_disk
from grstack.locks import Lock
from grstack.session import Session
from grstack.spec import NOTEBOOK

FOLDER = "docker/notebook"
INSTALLER = "docker/base/apt.sh"


class NotebookImage:
    def __init__(self, s: Session) -> None:
        if not isinstance(s.engine, DockerEngine):
            raise EngineError(
                "a notebook server runs in a container, and --engine none has none",
                next_command="inv notebook, without --engine",
            )
        if "openeuler" in s.plan.tag:
            raise UnsupportedError(
                f"{s.plan.tag}: the notebook image takes OpenSSH and tini from Debian's or Ubuntu's packages",
                where=FOLDER,
                next_command="inv notebook --platform cann, on the Ubuntu base",
            )
        self.s = s
        self.engine = s.engine
        self.plan = s.plan

    @cached_property
    def lock(self) -> Lock:
        return locks.current(self.s.paths.root, self.s.versions, NOTEBOOK, self.plan.python, self.plan.arch)

    @cached_property
    def key(self) -> str:
        files = [(path, keys.of_tree(self.s.paths.root / path)) for path in (FOLDER, INSTALLER)]
        wheels = [(package.filename, package.sha256) for package in self.lock.wheels("plain")]
        return keys.combine([("image", self.plan.image.key), *files, *wheels])

    @property
    def name(self) -> str:
        """grstack/npu-notebook:twin"""
        return f"grstack/{self.plan.target}-notebook:{self.plan.tag or self.plan.platform}"

    @property
    def exact_name(self) -> str:
        return f"{self.name}-{self.key[:12]}"

    def build(self) -> None:
        """Makes the image where it is not there; a kept one takes no time."""
        with build_lock(self.s.paths, self.s.console):
            if self.engine.names.key_of(self.exact_name) != self.key:
                self._make()
        repository, _, tag = self.name.rpartition(":")
        self.engine.client.images.get(self.exact_name).tag(repository, tag=tag)

    def _make(self) -> None:
        paths, console = self.s.paths, self.s.console
        console.print(f"[bold]notebook[/bold] JupyterLab and OpenSSH upon {names.exact(self.plan)}", highlight=False)
        begun = time.monotonic()
        check_disk((paths.build, paths.cache, *self.engine.places()), self.plan.target)
        context = paths.scratch / "notebook"
        self._fill(context)
        secrets = paths.scratch / "notebook-secrets"
        secrets.mkdir(parents=True)
        proxies = {n: v for n, v in self.s.settings.connection().items() if n.lower().endswith("_proxy")}
        marks = {**labels.of_plan(self.plan), f"{labels.PREFIX}.version": self.key[:12]}
        marks[f"{labels.PREFIX}.title"] = f"grstack/{self.plan.target}-notebook"
        argv = docker_cli.build_argv(
            self.engine.cli,
            dockerfile=context / "notebook/Dockerfile",
            context=context,
            tag=self.exact_name,
            args={"IMAGE": names.exact(self.plan)},  # BuildKit takes no id
            labels={names.KEY: self.key, **marks},
            secrets=host_secrets(secrets, self.s.runner, self.s.settings),
            from_environment=tuple(proxies),
        )
        title = f"docker build {self.exact_name}"
        env = {"DOCKER_BUILDKIT": "1", **proxies}
        self.s.runner.stream(argv, log=paths.logs / "notebook.log", env=env, title=title)
        self._check_layers((context / "notebook/Dockerfile").read_text())
        note_image(paths, self.key)
        shutil.rmtree(context, ignore_errors=True)
        console.print(f"    built in {time.monotonic() - begun:.1f} s", style="green")

    def _fill(self, context: Path) -> None:
        root, s = self.s.paths.root, self.s
        found = inputs.fetch(self.lock, "plain", s.paths.wheels, s.settings, s.console)
        shutil.copytree(root / FOLDER, context / "notebook", ignore=shutil.ignore_patterns(*keys.IGNORED))
        shutil.copy2(root / INSTALLER, context / "apt.sh")
        (context / "requirements.txt").write_text(found.requirements)
        (context / "wheels").mkdir()
        for source, name in [*((path, f"wheels/{name}") for name, path in found.wheels.items()), (_uv(), "uv")]:
            try:
                os.link(source.resolve(), context / name)
            except OSError:
                shutil.copy2(source, context / name)

    def _check_layers(self, dockerfile: str) -> None:
        def history(image: str) -> list[Any]:
            return list(self.engine.client.images.get(image).history())

        try:
            ours, below = history(self.exact_name), history(names.exact(self.plan))
            layers.check(ours[: len(ours) - len(below)], dockerfile, f"{FOLDER}/Dockerfile")
        except BaseException:
            self.engine.client.images.remove(self.exact_name)  # it does not count as built
            raise


def _uv() -> Path:
    return Path(sys.executable).parent / "uv"
