"""HashTable: rows for any 64-bit ids, in one device's memory."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import torch

from hybrid_torchrec.backends.base import Backend
from hybrid_torchrec.backends.choice import choose
from hybrid_torchrec.backends.ids import NONE, IdIndex
from hybrid_torchrec.host_copies import known_on_host, to_device
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

    def __init__(
        self, config: TableConfig, device: torch.device | str = "cpu", *, backend: Backend | None = None
    ) -> None:
        """backend: of `config` and new, for tests and for tables that look ids up elsewhere; None: the device's."""
        self.config = config
        self.device = torch.device(device)
        self.learning_rate = config.optimizer.lr
        self.accumulate = False
        self.step = 0  # calls of assign(train=True)
        self.updates = 0
        self.evictions = 0
        self.lookups = 0  # ids given to assign
        self.before_change = []
        self.lock = threading.RLock()
        self.pending_gradients = PendingGradients()
        self.backend = choose(config, self.device) if backend is None else backend

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
        return len(self.backend.ids)

    @property
    def capacity(self) -> int:
        """C: slots for which there is memory, with slot 0."""
        return self.backend.storage.capacity

    @property
    def insertions(self) -> int:
        """Rows made by assign."""
        return self.backend.ids.insertions

    @insertions.setter
    def insertions(self, value: int) -> None:
        self.backend.ids.insertions = value

    @property
    def hits(self) -> int:
        """Of the ids given to assign, those that had a row."""
        return self.backend.ids.hits

    @hits.setter
    def hits(self, value: int) -> None:
        self.backend.ids.hits = value

    @property
    def weights(self) -> torch.Tensor:
        """(C, D) in the table's dtype."""
        return self.backend.storage.weights

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Optimizer state: name -> (C,) or (C, D) float32."""
        return self.backend.storage.state

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its optimizer state."""
        return self.backend.storage.row_bytes

    @property
    def occupancy(self) -> float:
        """Rows / max_rows; of a table without limit, rows / slots with memory."""
        most = self.config.max_rows or self.capacity - 1
        return len(self) / most if most else 1.0

    def bytes(self) -> int:
        """Memory of the rows and of the ids, in use."""
        with self.lock:  # the map of ids is not to be measured while it grows
            return (len(self) + 1) * self.row_bytes + int(self.index.bytes())

    @property
    def moves(self) -> int:
        """As long as it is the same, slots that assign gave are still those of their ids."""
        return self.evictions

    @property
    def kind(self) -> TableConfig | None:
        """Tables of one device with equal kinds can share a TableGroup (table/group.py); None: it cannot."""
        return self.backend.kind

    def exclusive(self) -> AbstractContextManager[object]:
        """Inside, no other thread changes the table."""
        return self.lock

    # Ids to slots.

    def assign(self, ids: torch.Tensor, *, train: bool) -> torch.Tensor:
        """Slots of ids (L,) int64 on any device; returns (L,) int64 on the table's device.

        train=True: a step. Counts the sightings, admits ids, makes rows for those that are new, grows; at max_rows
        rows are evicted by the policy, none of this batch's nor of gradients that wait. Raises TableFull, with nothing
        inserted. Ids without a row, and with train=False absent ones, get slot 0.
        """
        ids = self.check_ids(ids)
        self.lookups += len(ids)
        if not train:
            return known_on_host(self.backend.ids.look_up(ids), self.device)
        with self.lock:
            self.step += 1
            self.expire()
            if self.before_change:
                self._changing(self.index.find(ids))
            batch = self.backend.admit(ids, self.step)
            try:
                self.make_room(batch.rows_needed, batch.slots)
            except Exception:
                batch.cancel()
                raise
            return known_on_host(batch.insert(), self.device)

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Slots of ids (L,), -1 where absent; (L,) int64 on the table's device. Counts nothing. Any thread."""
        return known_on_host(self.index.find(self.check_ids(ids)), self.device)

    def ids(self) -> torch.Tensor:
        """Ids of all rows, (N,) int64 on the CPU, in the order of their slots."""
        with self.lock:
            return self.index.infos(self.index.used_slots())[0].cpu()

    def select_victims(self, n: int, keep: torch.Tensor | None = None) -> torch.Tensor:
        """At most n ids by the eviction policy (LRU without one), the first to go first; none of the ids in keep.

        (<= n,) int64 on the CPU. Nothing is evicted.
        """
        with self.lock:
            kept = NONE if keep is None else self.index.find(self.check_ids(keep)).cpu()
            victims = self.backend.ids.victims(n, self.step, torch.cat([kept, self.pending_gradients.slots()]))
            return self.index.infos(victims)[0].cpu()

    def add_clicks(self, ids: torch.Tensor, clicks: torch.Tensor) -> None:
        """Adds clicks (L,) to the rows of ids (L,), as of their last sighting; absent ids are passed over."""
        with self.lock:
            slots = self.index.find(self.check_ids(ids)).clamp_(min=0)
            self._changing(slots)
            self.index.add_clicks(slots, clicks.detach().to(slots.device))
            self.index.mark_changed(slots)

    # Rows by ids.

    def read(self, ids: torch.Tensor) -> tuple[RowBatch, torch.Tensor]:
        """Copies of the rows of those of ids (L,) that are there, in their order, on the table's device.

        Also returns which are: (L,) bool on the CPU. Waits for a change that is under way; any thread.
        """
        ids = self.check_ids(ids)
        with self.lock:
            slots = self.index.find(ids)
            found = slots >= 0
            return self.rows_at(slots[found]), found.cpu()

    def write(self, rows: RowBatch) -> None:
        """Inserts or overwrites rows exactly as given, without counting a sighting or admission.

        ids must be distinct. At max_rows the policy evicts, as in assign.
        """
        ids = self.check_ids(rows.ids)
        self.check_rows(rows)
        with self.lock:
            if self.before_change or self.backend.ids.missing_room(len(ids)):
                slots = self.index.find(ids)
                self.make_room(int((slots < 0).sum()), slots)
                self._changing(slots)
            infos = (tensor.to(self.backend.ids.device) for tensor in (rows.shows, rows.clicks, rows.last_step))
            slots = self.index.put(ids, *infos)
            self.backend.storage.grow(self.index.slots())
            self.backend.storage.write(slots, rows)

    def erase(self, ids: torch.Tensor) -> int:
        """Removes the rows of ids (L,) with their state; returns how many there were. Gradients that wait go too."""
        ids = self.check_ids(ids)
        with self.lock:
            if self.before_change:
                self._changing(self.index.find(ids))
            slots = self.index.erase(ids)
            gone = slots[slots >= 0]
            self.pending_gradients.drop(gone)
            return len(gone)

    def pop(self, ids: torch.Tensor) -> RowBatch:
        """read, then erase: the rows of those of ids that are there."""
        with self.lock:
            rows, _ = self.read(ids)
            self.erase(ids)
            return rows

    def changed_since(self, version: int, *, seen_after: int | None = None) -> tuple[RowBatch, torch.Tensor, int]:
        """Rows inserted, updated or written since `version`, the ids erased since, and the version to ask next.

        Version 0: all rows. With `seen_after` also rows that were looked up in training after that step, whose counters
        changed. Erased ids (E,) int64 on the CPU, without those that are back. They are recorded from the first call
        on; a version before that, or before forget_changes, raises VersionTooOld.
        """
        with self.lock:
            slots, erased, now = self.backend.ids.changes(version)
            if seen_after is not None:
                used = self.index.used_slots()
                slots = torch.cat([slots, used[self.index.infos(used)[3] > seen_after]]).unique()
            return self.rows_at(slots), erased.cpu(), now

    def forget_changes(self, before: int) -> None:
        """Erased ids of versions before `before` need not be known any more (a full dump was taken)."""
        with self.lock:
            self.index.forget_erased(before)

    # What tables that keep rows elsewhere too may replace, or need. All under the lock.

    @property
    def index(self) -> IdIndex:
        """The slots of ids, and what is known of their rows."""
        return self.backend.ids.index

    def make_room(self, new: int, used: torch.Tensor) -> None:
        """Makes room for `new` rows: evicts none of the slots `used` (L,), nor of gradients that wait.

        Raises TableFull, with nothing evicted.
        """
        needed = self.backend.ids.missing_room(new) if new else 0
        if needed > 0:
            keep = torch.cat([used, self.pending_gradients.slots().to(used.device)])
            self.evict(self.backend.ids.make_room(needed, self.step, keep))

    def expire(self) -> None:
        """Evicts what is too old by the policy; called in every step of training."""
        every = self.backend.ids.expires_every
        if every is not None and self.step % every == 0:
            victims = self.backend.ids.victims(len(self), self.step, self.pending_gradients.slots())
            self.evict(self.index.infos(victims)[0])

    def evict(self, ids: torch.Tensor) -> None:
        """Removes the rows of ids (N,), which are there, and counts them."""
        if self.before_change:
            self._changing(self.index.find(ids))
        self.index.erase(ids)
        self.evictions += len(ids)

    def rows_at(self, slots: torch.Tensor, *, shared: bool = False) -> RowBatch:
        """Copies; shared: weights and state may be the table's memory, to be read before anything changes."""
        ids, shows, clicks, last_step = (t.to(self.device) for t in self.index.infos(slots))
        weights, state = self.backend.storage.read(slots, shared=shared)
        return RowBatch(ids=ids, weights=weights, state=state, shows=shows, clicks=clicks, last_step=last_step)

    def check_rows(self, rows: RowBatch) -> None:
        """Raises ValueError where rows do not fit the table."""
        self.backend.storage.check(rows)

    def check_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """ids (L,) on the device of the index; ValueError where they are none."""
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise ValueError(f"table '{self.config.name}': ids must be int64 (L,), got {ids.dtype} {tuple(ids.shape)}")
        return to_device(ids.detach(), self.backend.ids.device)
