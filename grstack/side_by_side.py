"""Jobs, several at a time: what one prints comes in one piece when it is done, and a terminal shows what runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from rich.console import Console
from rich.live import Live
from rich.text import Text

from grstack.run import Runner


class SideBySide:
    """`jobs` by title, begun in this order. Their commands are the runner's, and they print on its console."""

    def __init__(self, jobs: Mapping[str, Callable[[], int]], *, at_once: int, runner: Runner) -> None:
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
                while not all(future.done() for future in futures):  # one may be about to start its command
                    self.runner.end_all()
                    time.sleep(0.1)
                raise

    def _one(self, title: str) -> tuple[str, int]:
        self._began[title] = time.monotonic()
        with self.runner.console.capture() as said:  # what this thread prints
            code = self.jobs[title]()
        return said.get(), code

    def _show(self, futures: dict[Future[tuple[str, int]], str]) -> list[str]:
        left, failed = set(futures), []
        while left:
            ended, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ended:
                said, code = future.result()
                self.console.print(Text.from_ansi(said), soft_wrap=True)
                del self._began[futures[future]]
                self._done += 1
                if code:
                    failed.append(futures[future])
        return failed

    def _progress(self) -> Text:
        now = time.monotonic()
        running = [f"{title} ({now - began:.0f} s)" for title, began in tuple(self._began.items())]
        return Text(f"{self._done} of {len(self.jobs)} done; now {', '.join(running)}", style="dim")
