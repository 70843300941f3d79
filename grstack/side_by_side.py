"""Jobs, several at a time: what one prints comes in one piece when it is done, and a terminal shows what runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from grstack.run import Runner


@dataclass(frozen=True)
class _Outcome:
    said: str
    code: int | None = None
    error: BaseException | None = None


def _captured(job: Callable[[], int | None], console: Console) -> _Outcome:
    """A job's end, with what its thread printed: also of one that raises, since its words say what the error is of."""
    with console.capture() as said:
        try:
            code, error = job(), None
        except BaseException as raised:
            code, error = None, raised
    return _Outcome(said.get(), code, error)


class SideBySide:
    """`jobs` by title, begun in this order. Their commands are the runner's, and they print on its console."""

    def __init__(self, jobs: Mapping[str, Callable[[], int | None]], *, at_once: int, runner: Runner) -> None:
        self.jobs = jobs
        self.at_once = at_once
        self.runner = runner
        # not the jobs' own console: what is live on that would be part of what they print
        self.console = Console(file=runner.console.file, highlight=False)
        self._began: dict[str, float] = {}
        self._done = 0

    def run(self) -> list[str]:
        """The titles of the jobs that failed. An interruption, or a job that raises, ends the others."""
        with ThreadPoolExecutor(self.at_once) as pool:
            futures = {pool.submit(self._one, title): title for title in self.jobs}
            try:
                if not self.console.is_terminal:
                    return self._show(futures)
                with Live(console=self.console, get_renderable=self._progress, transient=True):
                    return self._show(futures)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                _end(futures, self.runner)
                raise

    def _one(self, title: str) -> _Outcome:
        self._began[title] = time.monotonic()
        return _captured(self.jobs[title], self.runner.console)

    def _show(self, futures: dict[Future[_Outcome], str]) -> list[str]:
        left, failed = set(futures), []
        while left:
            ended, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ended:
                outcome = future.result()
                self.console.print(Text.from_ansi(outcome.said), soft_wrap=True)
                if outcome.error is not None:
                    raise outcome.error
                del self._began[futures[future]]
                self._done += 1
                if outcome.code:
                    failed.append(futures[future])
        return failed

    def _progress(self) -> Text:
        now = time.monotonic()
        running = [f"{title} ({now - began:.0f} s)" for title, began in tuple(self._began.items())]
        return Text(f"{self._done} of {len(self.jobs)} done; now {', '.join(running)}", style="dim")


@contextmanager
def beside(job: Callable[[], None], runner: Runner) -> Iterator[None]:
    """`job` in a thread of its own during the block, printing as it goes.

    An interruption, or an error in the block, ends the job; one of the job is raised at the end of the block.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(job)
        try:
            yield
            future.result()
        except BaseException:
            _end([future], runner)
            raise


def _end(futures: Iterable[Future[Any]], runner: Runner) -> None:
    while not all(future.done() for future in futures):  # one may be about to start its command
        runner.end_all()
        time.sleep(0.1)
