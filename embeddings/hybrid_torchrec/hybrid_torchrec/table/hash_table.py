"""HashTable: rows for any 64-bit ids, in one device's memory."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import torch

from hybrid_torchrec.backends.choice import Backend, choose
from hybrid_torchrec.backends.ids import NONE, IdTable
from hybrid_torchrec.backends.storage import RowStorage
from hybrid_torchrec.policies import TTL
from hybrid_torchrec.row_batch import RowBatch
from hybrid_torchrec.table.copying import copy_of
from hybrid_torchrec.table.pending import PendingGradients
from hybrid_torchrec.table.trained_rows import TrainedRows
from hybrid_torchrec.table_config import TableConfig


class HashTable(TrainedRows):
    """A table of C slots and D columns; ids are exact, every int64 is legal.

    Slot 0 is the default row: ids without a row read it, and nothing updates it. Every other slot belongs to its id
    until that is evicted or erased. The same calls give the same table, bit by bit, for any number of threads.

    One thread at a time may change the table. Others may call ``find`` (never waits) and ``read`` (waits for a call
    that changes the table) at any time. `weights` and `state` may be replaced by ``assign`` and ``write``: do not keep
    them.
    """

    resident = True  # all rows have slots; not so where the device is a cache

    def __init__(self, config: TableConfig, device: torch.device | str = "cpu") -> None:
        self.config = config
        self.device = torch.device(device)
        self.learning_rate = config.optimizer.lr
        self.accumulate = False
        self.step = 0  # calls of assign(train=True)
        self.updates = 0
        self.evictions = 0
        self.lookups = 0  # ids given to assign
        self._insertions = 0  # those that the index does not count
        self.before_change = []
        self._lock = threading.RLock()
        self._ids = self._make_ids()
        self._storage = RowStorage(config, self.device)
        self._pending = PendingGradients()
        self._storage.grow(1 + config.initial_capacity)
        default = config.initializer.default_row(config.dim, config.seed)
        self._storage.set_new(torch.zeros(1, dtype=torch.int64), default.unsqueeze(0))
        self._backend = self._make_backend()

    def __repr__(self) -> str:
        config, eviction = self.config, self.config.eviction
        most = "" if config.max_rows is None else f" of at most {config.max_rows}"
        dtype = str(config.dtype).removeprefix("torch.")
        evicts = "" if eviction is None else f", {eviction}"
        return (
            f"{type(self).__name__}({config.name!r}: {len(self)} rows{most}, {config.dim} x {dtype} on {self.device}, "
            f"{config.optimizer.kind} lr={self.learning_rate:g}, {config.initializer}, {config.admission}{evicts})"
        )

    def __deepcopy__(self, memo: dict[int, object]) -> HashTable:
        return copy_of(self)

    def __len__(self) -> int:
        """Rows, without the default row."""
        return len(self._ids)

    @property
    def capacity(self) -> int:
        """C: slots for which there is memory, with slot 0."""
        return self._storage.capacity

    @property
    def insertions(self) -> int:
        """Rows made by assign."""
        return self._insertions + self._ids.counted()[0]

    @insertions.setter
    def insertions(self, value: int) -> None:
        self._insertions = value - self._ids.counted()[0]

    @property
    def hits(self) -> int:
        """Of the ids given to assign, those that had a row."""
        return self._ids.counted()[1]

    @hits.setter
    def hits(self, value: int) -> None:
        self._ids.count_hits(value - self.hits)

    @property
    def weights(self) -> torch.Tensor:
        """(C, D) in the table's dtype."""
        return self._storage.weights

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Optimizer state: name -> (C,) or (C, D) float32."""
        return self._storage.state

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its optimizer state."""
        return self._storage.row_bytes

    @property
    def occupancy(self) -> float:
        """Rows / max_rows; of a table without limit, rows / slots with memory."""
        most = self.config.max_rows or self.capacity - 1
        return len(self) / most if most else 1.0

    def bytes(self) -> int:
        """Memory of the rows and of the ids, in use."""
        with self._lock:  # the map of ids is not to be measured while it grows
            return (len(self) + 1) * self.row_bytes + int(self._ids.index.bytes())

    @property
    def kind(self) -> TableConfig | None:
        """Tables of one device with equal kinds can share a TableGroup (backends/cuda/group.py); None: it cannot."""
        return self._backend.kind

    def exclusive(self) -> AbstractContextManager[object]:
        """Inside, no other thread changes the table."""
        return self._lock

    # Ids to slots.

    def assign(self, ids: torch.Tensor, *, train: bool) -> torch.Tensor:
        """Slots of ids (L,) int64 on any device; returns (L,) int64 on the table's device.

        train=True: a step. Counts the sightings, admits ids, makes rows for those that are new, grows; at max_rows
        rows are evicted by the policy, none of this batch's nor of gradients that wait. Raises TableFull, with nothing
        inserted. Ids without a row, and with train=False absent ones, get slot 0.
        """
        ids = self._checked(ids)
        self.lookups += len(ids)
        if not train:
            return self._ids.look_up(ids).to(self.device)
        with self._lock:
            self.step += 1
            self._expire()
            if self.before_change:
                self._changing(self._ids.index.find(ids))
            return self._assign(ids).to(self.device)

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Slots of ids (L,), -1 where absent; (L,) int64 on the table's device. Counts nothing. Any thread."""
        return self._ids.index.find(self._checked(ids)).to(self.device)

    def ids(self) -> torch.Tensor:
        """Ids of all rows, (N,) int64 on the CPU, in the order of their slots."""
        with self._lock:
            return self._ids.index.infos(self._ids.index.used_slots())[0].cpu()

    def select_victims(self, n: int, keep: torch.Tensor | None = None) -> torch.Tensor:
        """At most n ids by the eviction policy (LRU without one), the first to go first; none of the ids in keep.

        (<= n,) int64 on the CPU. Nothing is evicted.
        """
        with self._lock:
            kept = NONE if keep is None else self._ids.index.find(self._checked(keep)).cpu()
            victims = self._ids.victims(n, self.step, torch.cat([kept, self._pending.slots()]))
            return self._ids.index.infos(victims)[0].cpu()

    def add_clicks(self, ids: torch.Tensor, clicks: torch.Tensor) -> None:
        """Adds clicks (L,) to the rows of ids (L,), as of their last sighting; absent ids are passed over."""
        with self._lock:
            slots = self._ids.index.find(self._checked(ids)).clamp_(min=0)
            self._changing(slots)
            self._ids.index.add_clicks(slots, clicks.detach().to(slots.device))
            self._ids.index.mark_changed(slots)

    # Rows by ids.

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        """Copies of the rows of those of ids (L,) that are there, in their order, on the table's device.

        Also returns which are: (L,) bool on the CPU. Waits for a change that is under way; any thread.
        """
        ids = self._checked(ids)
        with self._lock:
            slots = self._ids.index.find(ids)
            found = slots >= 0
            return self._rows(slots[found]), found.cpu()

    def write(self, rows: RowBatch) -> None:
        """Inserts or overwrites rows exactly as given, without counting a sighting or admission.

        ids must be distinct. At max_rows the policy evicts, as in assign.
        """
        ids = self._checked(rows.ids)
        self._storage.check(rows)
        with self._lock:
            slots = self._ids.index.find(ids)
            absent = slots < 0
            new = ids if bool(absent.all()) else ids[absent]
            if len(new):
                self._make_room(len(new), slots)
                inserted = self._ids.index.insert(new, torch.zeros_like(new), self.step)
                self._storage.grow(self._ids.index.slots())
                if len(new) == len(ids):
                    slots = inserted
                else:
                    slots[absent] = inserted
            self._changing(slots)
            self._storage.write(slots, rows)
            infos = (tensor.to(self._ids.device) for tensor in (rows.shows, rows.clicks, rows.last_step))
            self._ids.index.set_infos(slots, *infos)
            self._ids.index.mark_changed(slots)

    def erase(self, ids: torch.Tensor) -> int:
        """Removes the rows of ids (L,) with their state; returns how many there were. Gradients that wait go too."""
        ids = self._checked(ids)
        with self._lock:
            if self.before_change:
                self._changing(self._ids.index.find(ids))
            slots = self._ids.index.erase(ids)
            gone = slots[slots >= 0]
            self._pending.drop(gone)
            return len(gone)

    def pop(self, ids: torch.Tensor) -> RowBatch:
        """read, then erase: the rows of those of ids that are there."""
        with self._lock:
            rows, _ = self.read(ids)
            self.erase(ids)
            return rows

    def changed_since(self, version: int, *, seen_after: int | None = None) -> tuple[RowBatch, torch.Tensor, int]:
        """Rows inserted, updated or written since `version`, the ids erased since, and the version to ask next.

        Version 0: all rows. With `seen_after` also rows that were looked up in training after that step, whose counters
        changed. Erased ids (E,) int64 on the CPU, without those that are back. They are recorded from the first call
        on; a version before that, or before forget_changes, raises VersionTooOld.
        """
        with self._lock:
            slots, erased, now = self._ids.changes(version)
            if seen_after is not None:
                used = self._ids.index.used_slots()
                slots = torch.cat([slots, used[self._ids.index.infos(used)[3] > seen_after]]).unique()
            return self._rows(slots), erased.cpu(), now

    def forget_changes(self, before: int) -> None:
        """Erased ids of versions before `before` need not be known any more (a full dump was taken)."""
        with self._lock:
            self._ids.index.forget_erased(before)

    # Internals.

    def _make_ids(self) -> IdTable:
        if self.device.type != "cuda":
            return IdTable(self.config)
        from hybrid_torchrec.backends.cuda.ids import DeviceIdTable

        return DeviceIdTable(self.config, self.device)

    def _make_backend(self) -> Backend:
        return choose(self.config, self._storage, self._ids)

    def _assign(self, ids: torch.Tensor) -> torch.Tensor:
        if self._ids.admits_all:
            from hybrid_torchrec.backends.cuda.assign import assign

            return assign(ids, self._ids, self._backend, self.step, self._make_room, lambda: self.insertions)
        slots, new, shows = self._ids.see(ids, self.step)
        if len(new):
            self._make_room(len(new), slots)
            self._insert(new, shows)
        return self._ids.index.resolve(ids, slots)

    def _insert(self, new: torch.Tensor, shows: torch.Tensor) -> None:
        slots = self._ids.index.insert(new, shows, self.step)
        self._storage.grow(self._ids.index.slots())
        initializer = self.config.initializer
        first = self.config.first_key + self.insertions
        keys = new if initializer.per_id else torch.arange(first, first + len(new))
        self._backend.start(slots, keys)
        self._insertions += len(new)

    def _make_room(self, new: int, used: torch.Tensor) -> None:
        needed = self._ids.missing_room(new)
        if needed > 0:
            keep = torch.cat([used, self._pending.slots().to(used.device)])
            self._evict(self._ids.make_room(needed, self.step, keep))

    def _expire(self) -> None:
        policy = self.config.eviction
        if isinstance(policy, TTL) and self.step % policy.every == 0:
            victims = self._ids.victims(len(self), self.step, self._pending.slots())
            self._evict(self._ids.index.infos(victims)[0])

    def _evict(self, ids: torch.Tensor) -> None:
        if self.before_change:
            self._changing(self._ids.index.find(ids))
        self._ids.index.erase(ids)
        self.evictions += len(ids)

    def _rows(self, slots: torch.Tensor, *, shared: bool = False) -> RowBatch:
        """Copies; shared: weights and state may be the table's memory, to be read before anything changes."""
        ids, shows, clicks, last_step = (t.to(self.device) for t in self._ids.index.infos(slots))
        weights, state = self._storage.read(slots, shared=shared)
        return RowBatch(ids=ids, weights=weights, state=state, shows=shows, clicks=clicks, last_step=last_step)

    def _checked(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise ValueError(f"table '{self.config.name}': ids must be int64 (L,), got {ids.dtype} {tuple(ids.shape)}")
        return ids.detach().to(self._ids.device)
