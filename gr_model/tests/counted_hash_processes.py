"""Trainings with hash tables over the processes of torchrun, for TWIN_COUNTS; each prints its losses as JSON.

Steps are marked in the order of the cases that are given, STEPS each.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import torch

from gr_model.runtime import world
from gr_model.runtime.device import open_device
from gr_model.tests.counted_hash_tables import CASES, ITEMS, STEPS
from gr_model.tests.counted_training import data
from gr_model.training.trainer import Trainer


def main(names: list[str]) -> None:
    device = open_device(world.local_device("npu"))
    here = world.join(device)
    losses = {}
    for name in names:
        trainer = Trainer(CASES[name], dataclasses.replace(data(), items=ITEMS), device, here)
        losses[name] = [result.loss for result in trainer.train_steps(trainer.loader().works(0, STEPS))]
        trainer.read()
    torch.npu.synchronize()
    world.leave()
    sys.stdout.write(json.dumps(losses) + "\n")  # in one piece: the processes share a terminal


if __name__ == "__main__":
    main(sys.argv[1:])
