import dataclasses

import numpy as np
import torch

from gr_model.config import ModelConfig
from gr_model.data.interactions import History
from gr_model.jagged import load_operators
from gr_model.preprocess import Preprocess, tokens

CPU = torch.device("cpu")
load_operators(CPU)


def history(items, times, features=(1, 2)):
    array = np.array
    return History(array(items), array(items) % 5, array(times), array(features))


def test_layout_of_items_only():
    batch = tokens([history([7], [5]), history([1, 2, 3, 4], [10, 20, 30, 40])], [], ModelConfig(max_items=3), CPU)
    assert batch.order == (1, 0)
    assert batch.sequences.lengths == (3, 1)
    assert batch.sequences.offsets_B1.tolist() == [0, 3, 4]
    assert batch.items_I.tolist() == [2, 3, 4, 7]  # the newest three
    assert batch.sequences.times_L.tolist() == [20, 30, 40, 5]
    assert batch.item_at_I.tolist() == batch.last_at_I.tolist() == [0, 1, 2, 3]
    assert batch.position_L.tolist() == [0, 1, 2, 0]


def test_layout_with_context_and_actions():
    config = ModelConfig(max_items=3, interleave=True, contextual=("a",))
    batch = tokens([history([1, 2], [10, 20]), history([6], [5], (3, 4))], [1], config, CPU)
    # ctx item action item action | ctx item action
    assert batch.sequences.lengths == (5, 3)
    assert batch.contextual_BC.tolist() == [[2], [4]]
    assert batch.source_L.tolist() == [0, 2, 5, 3, 6, 1, 4, 7]
    assert batch.item_at_I.tolist() == [1, 3, 6] and batch.last_at_I.tolist() == [2, 4, 7]
    # The second item is shown before its own time is known.
    assert batch.sequences.times_L.tolist() == [10, 10, 10, 10, 20, 5, 5, 5]


def test_embeddings_are_put_where_the_layout_says():
    config = ModelConfig(dim=4, max_items=3, interleave=True, contextual=("a",), dropout=0.0)
    module = Preprocess(config, items=10, actions=5, feature_sizes=[6])
    batch = tokens([history([1, 7], [10, 20])], [1], config, CPU)
    shown = torch.stack(
        [module.contextual[0].weight[2], module.item.weight[1], module.action.weight[1], module.item.weight[7],
         module.action.weight[2]]
    )  # fmt: skip
    torch.testing.assert_close(module(batch), shown * 2.0 + module.position.weight[:5])


def test_tokens_are_frozen():
    batch = tokens([history([1], [1])], [], ModelConfig(), CPU)
    assert dataclasses.is_dataclass(batch) and batch.sequences.total == 1
