"""What is compiled in the background, with a kernel that notes what it is asked for."""

import contextlib
import logging
import threading

import pytest
import torch
from gr_ops.cuda import launch_cache


class Kernel:
    def __init__(self):
        self.compiled, self.launched, self.may_end, self.fails = [], [], threading.Event(), False
        self.begun = threading.Event()

    def warmup(self, *arguments, grid, **options):
        self.begun.set()
        assert self.may_end.wait(20)
        if self.fails:
            raise RuntimeError("does not compile")
        self.compiled.append((arguments, threading.current_thread().name))

    def __getitem__(self, grid):
        def run(*arguments, **options):
            self.launched.append((arguments, len(self.compiled)))
            return "compiled"

        return run


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launch_cache, "FAST", True)
    monkeypatch.setattr(launch_cache, "_ahead", {})
    monkeypatch.setattr(launch_cache, "_compiled", {})
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    made = Kernel()
    yield made
    made.may_end.set()


def launch(kernel, x, ragged):
    launch_cache.launch(kernel, (1,), (ragged,), (x, ragged), 0, lambda: ((not ragged,), (x, not ragged)))


def test_the_other_kind_is_compiled_meanwhile(kernel, caplog):
    caplog.set_level(logging.INFO)
    x = torch.ones(8, dtype=torch.float16)
    launch(kernel, x, True)
    assert kernel.launched == [((x, True), 0)]  # and nobody waited
    assert kernel.begun.wait(20)
    kernel.may_end.set()
    launch(kernel, x, False)
    assert kernel.launched[1] == ((x, False), 1)  # behind the one in the background
    ((stand_in, ragged), thread), *others = kernel.compiled
    assert not others and not ragged and thread.startswith("gr_ops-compile")
    assert (stand_in.dtype, stand_in.numel()) == (x.dtype, 0)
    assert len(caplog.records) == 1


def test_what_fails_in_the_background_is_tried_again_in_its_place(kernel):
    kernel.fails = True
    kernel.may_end.set()
    x = torch.ones(8)
    launch(kernel, x, True)
    launch(kernel, x, False)
    assert [arguments[1] for arguments, _ in kernel.launched] == [True, False]
