import dataclasses
import datetime

import numpy as np
import pytest
import torch

from gr_model.config import ConfigError, ModelConfig, override, presets
from gr_model.data.interactions import History
from gr_model.model.jagged import load_operators
from gr_model.model.preprocess import Preprocess, tokens
from gr_model.runtime import transfer

CPU = torch.device("cpu")
load_operators(CPU)


def history(items, times, features=(1, 2)):
    array = np.array
    return History(array(items), array(items) % 5, array(times), array(features))


def test_arrays_that_travel_together():
    """As a GPU gets them: parts of one piece of memory, each where a cache line begins."""
    arrays = [np.arange(5), np.zeros((2, 0), int), np.arange(100, 133), np.arange(6).reshape(3, 2).T, np.arange(7, 23)]
    whole = torch.full((16 + 0 + 48 + 16 + 16,), -1)
    transfer.pack(arrays, whole)
    parts = transfer.unpack(arrays, whole)
    assert [part.tolist() for part in parts] == [array.tolist() for array in arrays]
    assert all(part.data_ptr() % 128 == whole.data_ptr() % 128 for part in parts if part.numel())
    assert [part.tolist() for part in transfer.together(arrays, CPU)] == [array.tolist() for array in arrays]


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
        [
            module.contextual[0].weight[2],
            module.item.weight[1],
            module.action.weight[1],
            module.item.weight[7],
            module.action.weight[2],
        ]
    )
    torch.testing.assert_close(module(batch), shown * 2.0 + module.position.weight[:5])


def test_tokens_are_frozen():
    batch = tokens([history([1], [1])], [], ModelConfig(), CPU)
    assert dataclasses.is_dataclass(batch) and batch.sequences.total == 1


def moment(*when: int) -> int:
    return int(datetime.datetime(*when, tzinfo=datetime.UTC).timestamp())


def test_times_are_encoded_as_gap_hour_and_weekday():
    """Against Python's calendar; 2024-02-29 is a Thursday."""
    times = [moment(2024, 2, 29, 23, 59, 59), moment(2024, 3, 1), moment(2024, 3, 4, 12, 30), moment(1999, 12, 31, 7)]
    config = ModelConfig(dim=4, timestamps=("gap", "hour", "weekday"), dropout=0.0)
    module = Preprocess(config, items=10, actions=5, feature_sizes=[])
    batch = tokens([history([1, 2, 3], times[:3]), history([4], times[3:])], [], config, CPU)
    days = [datetime.datetime.fromtimestamp(time, datetime.UTC) for time in times]
    assert module.timestamps.codes_L("hour", batch).tolist() == [day.hour for day in days]
    assert module.timestamps.codes_L("weekday", batch).tolist() == [day.weekday() for day in days]
    gaps = [0, 1, times[2] - times[1], 0]  # none before the first of each sequence
    expected = [int(np.log(max(gap, 1)) / 0.301) for gap in gaps]
    assert module.timestamps.codes_L("gap", batch).tolist() == expected and expected[2] > 30
    plain = dataclasses.replace(config, timestamps=())
    without = Preprocess(plain, items=10, actions=5, feature_sizes=[])
    without.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("timestamps")})
    parts = module.timestamps.parts
    added = sum(parts[name].weight[module.timestamps.codes_L(name, batch)] for name in config.timestamps)
    torch.testing.assert_close(module(batch), without(batch) + added)


def test_the_encoding_of_a_time_knows_no_later_one():
    config = ModelConfig(dim=4, max_items=3, interleave=True, timestamps=("gap", "hour", "weekday"), dropout=0.0)
    module = Preprocess(config, items=10, actions=5, feature_sizes=[])
    early, late = (
        module(tokens([history([1, 2, 3], [10, 5000, last])], [], config, CPU)) for last in (5001, 9_999_999)
    )
    torch.testing.assert_close(early[:5], late[:5], rtol=0, atol=0)  # also of the item whose action is at the last time
    assert not torch.equal(early[5], late[5])


def test_unknown_encodings():
    with pytest.raises(ConfigError, match="model.timestamps: minute"):
        override(presets.get("smoke"), ["model.timestamps=gap,minute"])
