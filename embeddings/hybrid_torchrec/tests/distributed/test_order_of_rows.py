"""Rows that come back in the order in which their ids were given are the output as they are."""

import pytest
import torch
from hybrid_torchrec import HashEmbeddingCollection, HashEmbeddingConfig
from hybrid_torchrec.distributed import ShardedHashEmbeddingCollection, sharded
from hybrid_torchrec.hashing import rank_of
from torchrec import KeyedJaggedTensor
from torchrec.distributed.types import EnumerableShardingSpec, ParameterSharding, ShardingEnv, ShardMetadata

IDS = 40


class Ranks:
    """A group of two, of which nothing but its size is asked."""

    def size(self) -> int:
        return 2

    def rank(self) -> int:
        return 0


def collection(tables: int) -> ShardedHashEmbeddingCollection:
    names = [f"t{i}" for i in range(tables)]
    configs = [
        HashEmbeddingConfig(name=name, embedding_dim=4, num_embeddings=IDS, feature_names=[f"f{name}"])
        for name in names
    ]
    halves = [ShardMetadata([rank * IDS // 2, 0], [IDS // 2, 4], placement=f"rank:{rank}/cpu") for rank in (0, 1)]
    plan = {name: ParameterSharding("row_wise", "fused", [0, 1], EnumerableShardingSpec(halves)) for name in names}
    env = ShardingEnv(world_size=2, rank=0)
    env.process_group = Ranks()
    module = HashEmbeddingCollection(tables=configs, device=torch.device("meta"))
    return ShardedHashEmbeddingCollection(module, plan, env, None, torch.device("cpu"))


@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("given", ["by rank", "ascending", "repeated"])
def test_output_is_of_the_ids_that_were_given(tables: int, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "CountsExchange", lambda *sent: sent)
    ascending = torch.arange(IDS)
    owner = rank_of(ascending, 2)
    by_rank = torch.cat([ascending[owner == rank] for rank in (0, 1)])
    assert not torch.equal(by_rank, ascending)
    ids = {"by rank": by_rank, "ascending": ascending, "repeated": torch.cat([by_rank, by_rank[:1]])}[given]
    module = collection(tables)
    features = KeyedJaggedTensor(
        [f"ft{i}" for i in range(tables)], ids.repeat(tables), lengths=torch.tensor([len(ids)] * tables)
    )
    context = module.create_context()
    module.input_dist(context, features)
    assert context.in_order == (given == "by rank" and tables == 1)
    # What the ranks answer: for each of them the rows of one table, then those of the next.
    parts = [ascending[owner == rank] for rank in (0, 1)]
    of_id = torch.randn(tables, IDS, 4)
    answer = torch.cat([of_id[table][part] for part in parts for table in range(tables)]).requires_grad_()
    out = module._remote_output(context, (answer,))
    for table in range(tables):
        assert torch.equal(out[f"ft{table}"].values(), of_id[table][ids])
    out["ft0"].values().sum().backward()
    expected = torch.cat(
        [torch.bincount(ids, minlength=IDS)[part] * float(table == 0) for part in parts for table in range(tables)]
    )
    assert torch.equal(answer.grad, expected[:, None].expand(-1, 4))
