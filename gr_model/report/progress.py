"""What a run tells the person who watches it: a bar on a terminal, lines elsewhere. Only the first process talks."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from gr_model.runtime.world import World


class Progress:
    def __init__(self, world: World, steps: int, bar: str = "auto") -> None:
        self.first, self.steps = world.first, steps
        self._begin = time.monotonic()
        self._wanted = self.first and (bar == "bar" or (bar == "auto" and sys.stderr.isatty()))
        self._bar: Any = None
        self._step = 0

    def __enter__(self) -> Progress:
        if self._wanted:
            try:
                from tqdm import tqdm
            except ImportError:  # not required: lines serve
                return self
            self._bar = tqdm(total=self.steps, initial=self._step, unit="step", dynamic_ncols=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def start_at(self, step: int) -> None:
        self._step = step

    def say(self, text: str) -> None:
        if not self.first:
            return
        line = f"[{time.monotonic() - self._begin:7.1f} s] {text}"
        if self._bar is not None:
            self._bar.write(line)
        else:
            print(line, flush=True)

    def step(self, step: int, loss: float, seconds: float, tokens: int, tell: bool) -> None:
        if self._bar is not None:
            self._bar.update(step - self._step)
            self._bar.set_postfix_str(f"loss {loss:.4f}, {tokens / seconds:,.0f} tokens/s")
        elif tell:
            left = (self.steps - step) * seconds
            self.say(
                f"step {step:5d}/{self.steps}  loss {loss:.4f}  {seconds:.3f} s  "
                f"{tokens / seconds:,.0f} tokens/s  about {left:.0f} s left"
            )
        self._step = step
