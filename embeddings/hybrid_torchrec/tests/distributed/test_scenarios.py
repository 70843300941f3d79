"""What two sharded processes do beside plain training, against unsharded collections, HashTable and plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import launch
import pytest
import sparse_nn
import torch
from hybrid_torchrec import LFU, HashTable, TableConfig
from hybrid_torchrec.modules import accumulate_gradients
from scenarios import SCENARIOS
from sharded_data import FEATURES, TABLES, make_batch
from sharded_model import hash_model
from sharded_program import specs
from torch import Tensor, nn
from torchrec import KeyedJaggedTensor
from torchrec.modules.embedding_configs import DataType

WORLD = 2
CPU = torch.device("cpu")
ON_NPU = ["state", "sixteen_bits"]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, launch.Result]:
    return launch.start("cpu", WORLD, list(SCENARIOS), tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def on_npu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, launch.Result]:
    return launch.start("npu", WORLD, ON_NPU, tmp_path_factory.mktemp("npu"))


def saved(results: dict[str, launch.Result], name: str) -> dict:
    record = results[name]
    assert not isinstance(record, str), record
    return record


def assert_same_rows(got: dict, expected: dict, tolerance: float = 1e-6) -> None:
    for name in TABLES:
        assert torch.equal(got[name]["ids"], expected[name]["ids"])
        torch.testing.assert_close(got[name]["weights"], expected[name]["weights"], rtol=tolerance, atol=tolerance)


def rows_of(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    result = {}
    for name, table in model.sparse.embedding_bags.items():
        rows = table.whole.table.read(table.whole.table.ids())[0].sorted_by_id()
        result[name] = {"ids": rows.ids, "weights": rows.weights, "shows": rows.shows}
    return result


def ids_of(table: str, step: int, rows: int, every_row: bool) -> Tensor:
    batch = make_batch(step, 0, 1, rows, every_row=every_row, static=False)
    return torch.cat([batch.features[feature].values() for feature in TABLES[table]])


def check_state(record: dict) -> None:
    for way in ("again", "other_plan", "from_whole", "taken"):
        assert_same_rows(record[way], record["expected"])
        torch.testing.assert_close(record[way]["predictions"], record["expected"]["predictions"], rtol=1e-6, atol=1e-6)


def test_state_dict_goes_on(on_cpu: dict) -> None:
    record = saved(on_cpu, "state")
    check_state(record)
    assert torch.equal(record["again"]["predictions"], record["expected"]["predictions"])


@pytest.mark.twin
@pytest.mark.npus(WORLD)
def test_state_dict_goes_on_npu(on_npu: dict) -> None:
    check_state(saved(on_npu, "state"))


def test_state_dict_has_torchrecs_names(on_cpu: dict) -> None:
    state = saved(on_cpu, "state")["state"]
    rows = ["weight", "ids", "state.momentum1", "state.momentum2", "shows", "clicks", "last_step"]
    expected = {"over.weight", "over.bias"}
    for table, parts in (("t0", [""]), ("t1", [""]), ("t2", ["columns_0.", "columns_4."])):
        expected |= {f"sparse.embedding_bags.{table}.{part}{key}" for part in parts for key in rows}
        expected.add(f"sparse.embedding_bags.{table}.clock")
    assert set(state) == expected
    assert state["sparse.embedding_bags.t0.weight"].shape == (8, 8)
    assert state["sparse.embedding_bags.t2.columns_4.weight"].shape == (8, 4)
    assert sorted(state["sparse.embedding_bags.t0.ids"].tolist()) == sorted(set(ids_of("t0", 0, 8, True).tolist()))
    assert state["sparse.embedding_bags.t0.clock"].tolist()[:2] == [5, 5]


def test_rates_by_table_and_scheduler(on_cpu: dict) -> None:
    record = saved(on_cpu, "schedule")
    assert record["names"] == ["t0", "t1", "t2"]
    assert record["rates"] == [spec.lr for spec in specs("sgd")]
    assert record["halved"] == [spec.lr / 2 for spec in specs("sgd")]
    # t0 stopped; the others went on with half their rate, as the same step of an unsharded model shows.
    expected = hash_model("bags", specs("sgd"), CPU)
    for step in range(2):
        for group, rate in zip(expected.sparse.fused_optimizer.param_groups, record["halved"]):
            group["lr"] = rate * 2 if step == 0 else rate
        expected.sparse.fused_optimizer.param_groups[0]["lr"] *= step == 0
        expected(make_batch(step, 0, 1, 8, every_row=True, static=False))[0].backward()
    assert torch.equal(record["after"]["t0"]["weights"], record["before"]["t0"]["weights"])
    assert not torch.equal(record["after"]["t1"]["weights"], record["before"]["t1"]["weights"])
    assert_same_rows(record["after"], rows_of(expected))


def test_admission_counts_occurrences_on_all_ranks(on_cpu: dict) -> None:
    admitted = saved(on_cpu, "policies")["admitted"]
    for table in TABLES:
        counts = Counter(id_ for step in range(6) for id_ in ids_of(table, step, 40, False).tolist())
        expected = sorted(id_ for id_, count in counts.items() if count >= 3)
        assert 3 < len(expected) < len(counts)
        assert admitted[table]["ids"].tolist() == expected


def test_eviction_is_that_of_one_process(on_cpu: dict) -> None:
    kept = saved(on_cpu, "policies")["kept"]
    for table in TABLES:
        alone = HashTable(TableConfig(name=table, dim=1, eviction=LFU(share=0.0), max_rows=32))
        for step in range(12):
            alone.assign(ids_of(table, step, 40, False), train=True)
        assert alone.evictions > 0
        rows = alone.read(alone.ids())[0].sorted_by_id()
        assert torch.equal(kept[table]["ids"], rows.ids)
        assert torch.equal(kept[table]["shows"], rows.shows)


def test_evaluation_changes_nothing(on_cpu: dict) -> None:
    record = saved(on_cpu, "evaluation")
    for table in TABLES:
        for key in ("ids", "weights", "shows"):
            assert torch.equal(record["before"][table][key], record["after"][table][key])
    assert record["default"].abs().max() > 0.1
    torch.testing.assert_close(record["read"], record["default"], rtol=1e-6, atol=1e-6)


def check_sixteen_bits(record: dict) -> None:
    for name, kind in (("fp16", DataType.FP16), ("bf16", DataType.BF16)):
        model = hash_model("bags", specs("adagrad"), CPU, data_type=kind)
        for step in range(10):
            model(make_batch(step, 0, 1, 8, every_row=True, static=False))[0].backward()
        assert record[f"{name}_type"] == str(record[name]["t0"]["weights"].dtype)
        # Sums in another order may round to the neighbour of a 16-bit number.
        assert_same_rows(record[name], rows_of(model), tolerance={"fp16": 1e-3, "bf16": 8e-3}[name])


def test_rows_of_sixteen_bits(on_cpu: dict) -> None:
    check_sixteen_bits(saved(on_cpu, "sixteen_bits"))


@pytest.mark.twin
@pytest.mark.npus(WORLD)
def test_rows_of_sixteen_bits_npu(on_npu: dict) -> None:
    check_sixteen_bits(saved(on_npu, "sixteen_bits"))


def without_values(features: KeyedJaggedTensor) -> KeyedJaggedTensor:
    empty = torch.empty(0, dtype=torch.int64)
    return KeyedJaggedTensor(features.keys(), empty, lengths=torch.zeros_like(features.lengths()))


def test_a_rank_without_ids(on_cpu: dict) -> None:
    record = saved(on_cpu, "no_values")
    model = hash_model("bags", specs("adam"), CPU)
    for step in range(4):
        batches = [make_batch(step, rank, WORLD, 8, every_row=True, static=False) for rank in range(WORLD)]
        batches[step % WORLD].features = without_values(batches[step % WORLD].features)
        with accumulate_gradients(model):
            (model(batches[0])[0] / WORLD).backward()
        (model(batches[1])[0] / WORLD).backward()
    assert_same_rows(record["rows"], rows_of(model))


def test_gradients_of_evicted_rows_go_nowhere(on_cpu: dict) -> None:
    record = saved(on_cpu, "called_twice")
    assert record["evicted"] == 3 * 8
    assert torch.equal(record["values"], torch.full_like(record["values"], 0.25))


def test_refusals_say_why(on_cpu: dict) -> None:
    messages = saved(on_cpu, "refused")
    assert "data_parallel" in messages["data_parallel"]
    assert "get_default_hybrid_sharders" in messages["alone"]


def names(of: Sequence[str]) -> set[str]:
    return set(of)


def test_all_features_are_used() -> None:
    """The batches are about these tables: a feature that no table reads would test nothing."""
    assert names(FEATURES) == names([feature for features in TABLES.values() for feature in features])


def test_torchrecs_test_model_with_static_and_hash_tables(on_cpu: dict) -> None:
    record = saved(on_cpu, "sparse_nn")
    kinds = {table: kind for table, (kind, _) in record["plan"].items()}
    assert kinds["sparse.ebc.a"] == "ShardedHashEmbeddingBagCollection"
    assert kinds["sparse.weighted_ebc.w"] == "ShardedEmbeddingBagCollection"
    torch.testing.assert_close(record["plain"], expected_predictions(), rtol=1e-6, atol=1e-6)
    assert torch.equal(record["torchrec"], record["plain"])
    assert torch.equal(record["hybrid"], record["plain"])


def expected_predictions() -> Tensor:
    """All tables static, one process: the mean of the ranks' losses is the loss."""
    model = sparse_nn.make_model(CPU, static=True)
    weighted = list(model.sparse.weighted_ebc.parameters())
    others = [p for p in model.parameters() if all(p is not w for w in weighted)]
    # fbgemm's default rate, as nothing else is said of the static table.
    optimizer = torch.optim.SGD([{"params": others, "lr": sparse_nn.RATE}, {"params": weighted, "lr": 0.01}])
    steps = []
    for ranks in sparse_nn.batches(WORLD):
        optimizer.zero_grad()
        outputs = [model(batch) for batch in ranks]
        (sum(loss for loss, _ in outputs) / WORLD).backward()
        optimizer.step()
        steps.append(torch.cat([prediction.detach() for _, prediction in outputs]))
    return torch.stack(steps)
