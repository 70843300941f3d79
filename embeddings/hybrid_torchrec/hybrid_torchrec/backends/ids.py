"""The ids of a table: which have a slot, which get one, which lose theirs. All on the CPU."""

from typing import Protocol

import torch

from hybrid_torchrec.errors import TableFull, VersionTooOld
from hybrid_torchrec.policies import LRU, AdmitAfter, CustomScore, RowStats, rank_of_policy
from hybrid_torchrec.table_config import TableConfig

Infos = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
NONE = torch.empty(0, dtype=torch.int64)


class IdIndex(Protocol):
    """Slots of ids and what is known of their rows: csrc/ids/index.h's class, or one in a device's memory.

    Results are on the index's device, tensors of ids and slots are int64. Its functions are described in index.h.
    """

    def size(self) -> int: ...
    def slots(self) -> int: ...
    def bytes(self) -> int: ...

    def find(self, ids: torch.Tensor) -> torch.Tensor: ...
    def touch(self, slots: torch.Tensor, step: int, decay: float) -> int: ...
    def admit(
        self, ids: torch.Tensor, slots: torch.Tensor, step: int, sightings: int, probability: float, seed: int
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    def insert(self, ids: torch.Tensor, shows: torch.Tensor, step: int) -> torch.Tensor: ...
    def put(self, ids: torch.Tensor, shows: torch.Tensor, clicks: torch.Tensor, last: torch.Tensor) -> torch.Tensor: ...
    def resolve(self, ids: torch.Tensor, slots: torch.Tensor) -> torch.Tensor: ...
    def erase(self, ids: torch.Tensor) -> torch.Tensor: ...
    def victims(
        self,
        count: int,
        kind: int,
        show_weight: float,
        click_weight: float,
        decay: float,
        time_to_live: int,
        step: int,
        keep: torch.Tensor,
    ) -> torch.Tensor: ...

    def free_slots(self) -> torch.Tensor: ...
    def used_slots(self) -> torch.Tensor: ...
    def infos(self, slots: torch.Tensor) -> Infos: ...
    def set_infos(self, slots: torch.Tensor, shows: torch.Tensor, clicks: torch.Tensor, last: torch.Tensor) -> None: ...
    def add_clicks(self, slots: torch.Tensor, clicks: torch.Tensor) -> None: ...

    def mark_changed(self, slots: torch.Tensor) -> None: ...
    def versions(self) -> torch.Tensor: ...
    def version(self) -> int: ...
    def next_version(self) -> int: ...
    def recorded_from(self) -> int: ...
    def changed_slots(self, since: int) -> torch.Tensor: ...
    def erased_ids(self, since: int) -> torch.Tensor: ...
    def forget_erased(self, before: int) -> None: ...

    def count_exactly(self) -> None: ...
    def count_by_sketch(self, width: int, depth: int, seed: int) -> None: ...
    def sightings(self) -> tuple[torch.Tensor, torch.Tensor]: ...
    def set_sightings(self, ids: torch.Tensor, counts: torch.Tensor) -> None: ...


class HostIndex(IdIndex, Protocol):
    """The class of csrc/ids/index.h, with what only tables on the host ask of it."""

    def coldest(self, count: int, steps_per_doubling: int, step: int, keep: torch.Tensor) -> torch.Tensor: ...


def victim_order(key: torch.Tensor, last_step: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Positions of rows by key, then the least recently seen, then the smallest id; all (R,)."""
    # From the last criterion to the first, each sort stable.
    order = torch.argsort(ids)
    for criterion in (last_step, key):
        order = order[torch.argsort(criterion[order], stable=True)]
    return order


class IdTable:
    """Ids and slots with sightings, admission, eviction and changes; tensors of ids and slots are int64 on `device`."""

    device = torch.device("cpu")
    index: IdIndex

    def __init__(self, config: TableConfig) -> None:
        self._config = config
        self._admission = config.admission
        capacity = config.initial_capacity if config.max_rows is None else min(config.initial_capacity, config.max_rows)
        self._insertions = 0
        self._hits = 0
        self.index = self._make_index(capacity)
        if isinstance(self._admission, AdmitAfter) and self._admission.sketch is not None:
            self.index.count_by_sketch(*self._admission.sketch, config.seed)
        elif self._admission.sightings > 1:
            self.index.count_exactly()
        self._eviction = config.eviction or LRU()
        self._decay = self._eviction.ranking.decay
        self.expires_every = self._eviction.every

    def _make_index(self, capacity: int) -> IdIndex:
        return torch.classes.hybrid_torchrec.HashIndex(capacity)

    def __len__(self) -> int:
        return self.index.size()

    @property
    def insertions(self) -> int:
        """Rows made for training batches."""
        return self._insertions

    @insertions.setter
    def insertions(self, value: int) -> None:
        self._insertions = value

    @property
    def hits(self) -> int:
        """Of the ids that were looked up, those that had a row."""
        return self._hits

    @hits.setter
    def hits(self, value: int) -> None:
        self._hits = value

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """Slots of ids (L,), 0 where absent."""
        slots = self.index.find(ids)
        self._hits += int((slots >= 0).sum())
        return slots.clamp_(min=0)

    def admit(self, ids: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Counts a sighting of each of ids (L,).

        Returns slots (L,), -1 for ids without one, and of the distinct ids that are to get one, in the order of their
        occurrence, the ids (N,) and their sightings (N,).
        """
        slots = self.index.find(ids)
        self._hits += self.index.touch(slots, step, self._decay)
        policy = self._admission
        new, shows = self.index.admit(ids, slots, step, policy.sightings, policy.probability, self._config.seed)
        return slots, new, shows

    def missing_room(self, new: int) -> int:
        """Rows that must go before `new` ids get rows."""
        limit = self._config.max_rows
        return 0 if limit is None else max(0, len(self) + new - limit)

    def victims(self, count: int, step: int, keep: torch.Tensor) -> torch.Tensor:
        """Slots of at most `count` rows by the eviction policy, the first to go first; none of keep (slots)."""
        policy = self._eviction
        if isinstance(policy, CustomScore):
            return self._custom_victims(policy, count, step, keep)
        rank = rank_of_policy(policy)
        assert rank is not None, policy  # only a CustomScore has none
        return self.index.victims(count, rank, *policy.ranking, step, keep)

    def _custom_victims(self, policy: CustomScore, count: int, step: int, keep: torch.Tensor) -> torch.Tensor:
        used = self.index.used_slots()
        slots = used[~torch.isin(used, keep.to(used.device))]
        ids, shows, clicks, last_step = (tensor.cpu() for tensor in self.index.infos(slots))
        slots = slots.cpu()
        stats = RowStats(ids=ids, shows=shows, clicks=clicks, last_step=last_step, step=step)
        scores = policy.score(stats).double().cpu()
        if scores.shape != ids.shape:
            raise ValueError(f"table '{self._config.name}': score gave {tuple(scores.shape)} for {len(ids)} rows")
        return slots[victim_order(scores, last_step, ids)[:count]]

    def make_room(self, needed: int, step: int, keep: torch.Tensor) -> torch.Tensor:
        """Ids to evict so that `needed` rows are free; raises TableFull if there are not as many."""
        policy = self._config.eviction
        limit = self._config.max_rows or 0
        if policy is None:
            raise self._full(needed, "it has no eviction policy", "raise max_rows or set an eviction policy")
        victims = self.victims(max(needed, int(policy.share * limit)), step, keep)
        if len(victims) < needed:
            evictable = "outside of this batch" if self.expires_every is None else "expired"
            raise self._full(
                needed,
                f"only {len(victims)} rows are {evictable}",
                "raise max_rows, or use smaller batches or a shorter time to live",
            )
        return self.index.infos(victims)[0]

    def _full(self, wanted: int, reason: str, remedy: str) -> TableFull:
        limit = self._config.max_rows or 0
        return TableFull(
            table=self._config.name, size=len(self), limit=limit, wanted=wanted, reason=reason, remedy=remedy
        )

    def changes(self, since: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Slots of rows changed since a version, ids erased since, and the version to ask for next time."""
        recorded = self.index.recorded_from()
        if since > 0 and (recorded == 0 or since < recorded):
            raise VersionTooOld(
                f"table '{self._config.name}': changes since version {since} are not known, only since "
                f"{recorded or 'a first call with version 0'}; take a full dump (version 0)"
            )
        slots, erased = self.index.changed_slots(since), self.index.erased_ids(since)
        return slots, erased, self.index.next_version()
