"""The sequence model between the embeddings and the task, by name. All are x_LD, sequences -> x_LD."""

from __future__ import annotations

from torch import nn

from gr_model.config import ModelConfig
from gr_model.model.hstu import HSTU
from gr_model.model.sasrec import SASRec

BACKBONES = {"hstu": HSTU, "sasrec": SASRec}


def backbone(config: ModelConfig) -> nn.Module:
    return BACKBONES[config.backbone](config)
