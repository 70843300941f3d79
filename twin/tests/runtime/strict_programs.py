"""Programs with one missing wait each, and the same programs repaired. Run as a script, it prints what each raised.

Each begins with a synchronised device, so that none is helped or spoilt by the one before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch
import torch_npu  # noqa: F401

Program = Callable[[bool], None]
PROGRAMS: dict[str, Program] = {}
SIZE = 1 << 14


def program(body: Program) -> Program:
    PROGRAMS[body.__name__] = body
    return body


def filled(value: float, device: str = "npu:0") -> torch.Tensor:
    x = torch.empty(SIZE, device=device)
    torch.npu.synchronize()
    return x.fill_(value)


@program
def missing_wait(repaired: bool) -> None:
    side = torch.npu.Stream()
    x = filled(1)
    if repaired:
        side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        assert x.neg().sum().item() == -SIZE


@program
def write_after_read(repaired: bool) -> None:
    side = torch.npu.Stream()
    x = filled(1)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x.neg()
    if repaired:
        torch.npu.current_stream().wait_stream(side)
    x.fill_(2)
    side.synchronize()
    del y


@program
def write_after_write(repaired: bool) -> None:
    side = torch.npu.Stream()
    x = filled(1)
    if repaired:
        side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.zero_()


@program
def reuse_without_record_stream(repaired: bool) -> None:
    side = torch.npu.Stream()
    x = filled(1)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x.neg()
    address = x.data_ptr()
    if repaired:
        x.record_stream(side)
    del x
    z = torch.empty(SIZE, device="npu")
    # With the record the block is held back until the side stream is known to be done, which may be already.
    assert repaired or z.data_ptr() == address
    z.fill_(3)
    del y, z


@program
def event_recorded_too_early(repaired: bool) -> None:
    side, event = torch.npu.Stream(), torch.npu.Event()
    x = filled(1)
    event.record()
    x.fill_(2)
    if repaired:
        event.record()
    side.wait_event(event)
    with torch.npu.stream(side):
        x.neg()


@program
def wait_for_another_event(repaired: bool) -> None:
    first, second, side = torch.npu.Stream(), torch.npu.Stream(), torch.npu.Stream()
    one, two = torch.npu.Event(), torch.npu.Event()
    x = filled(1)
    torch.npu.synchronize()
    with torch.npu.stream(first):
        one.record()
    with torch.npu.stream(second):
        x.fill_(2)
        two.record()
    side.wait_event(two if repaired else one)
    with torch.npu.stream(side):
        x.neg()


@program
def result_of_a_prefetch(repaired: bool) -> None:
    side = torch.npu.Stream()
    source = torch.ones(SIZE).pin_memory()
    with torch.npu.stream(side):
        x = source.to("npu", non_blocking=True)
    if repaired:
        torch.npu.current_stream().wait_stream(side)
        x.record_stream(torch.npu.current_stream())
    x.neg()


@program
def host_reads_too_early(repaired: bool) -> None:
    target = torch.empty(SIZE).pin_memory()
    x = filled(1)
    target.copy_(x, non_blocking=True)
    if repaired:
        torch.npu.current_stream().synchronize()
    total = target.sum().item()
    torch.npu.synchronize()
    assert not repaired or total == SIZE


@program
def host_writes_too_early(repaired: bool) -> None:
    source = torch.ones(SIZE).pin_memory()
    x = torch.empty(SIZE, device="npu")
    x.copy_(source, non_blocking=True)
    assert source[0] == 1  # reading what a stream reads is no fault
    if repaired:
        event = torch.npu.Event()
        event.record()
        event.synchronize()
    source.zero_()
    torch.npu.synchronize()


@program
def copy_between_devices(repaired: bool) -> None:
    side = torch.npu.Stream()
    x = filled(1)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.fill_(2)
    if repaired:
        torch.npu.current_stream().wait_stream(side)
    y = x.to("npu:1")
    assert not repaired or y.sum().item() == 2 * SIZE


def outcome(body: Program, repaired: bool) -> str:
    for device in ("npu:0", "npu:1"):
        torch.npu.synchronize(device)
    try:
        body(repaired)
        for device in ("npu:0", "npu:1"):
            torch.npu.synchronize(device)
    except RuntimeError as error:
        return str(error)
    return ""


def main() -> None:
    found = {name: [outcome(body, repaired) for repaired in (True, False)] for name, body in PROGRAMS.items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
