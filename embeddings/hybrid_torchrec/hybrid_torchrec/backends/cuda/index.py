"""The ids of a table on a CUDA device: their slots, and what is known of their rows, in the device's memory."""

from __future__ import annotations

import torch

from hybrid_torchrec.backends.cuda import eviction, launch
from hybrid_torchrec.backends.cuda.buckets import Cells
from hybrid_torchrec.backends.cuda.change_log import Changes
from hybrid_torchrec.backends.cuda.counters import Census
from hybrid_torchrec.backends.cuda.insertion import NewRows, Sighting
from hybrid_torchrec.backends.cuda.layout import words
from hybrid_torchrec.backends.cuda.side_stream import Beside
from hybrid_torchrec.backends.cuda.slot_records import Slots
from hybrid_torchrec.backends.cuda.sorted_slots import Order, sort
from hybrid_torchrec.backends.ids import victim_order

FREE_STEP, LIVE, FREED, KEYS, INSERTED, HITS = words("FREE_STEP", "LIVE", "FREED", "KEYS", "INSERTED", "HITS")


class DeviceIndex:
    """csrc/ids/index.h's class for one device. The number of rows is kept on the device: the host knows bounds, and
    waits only where a bound says that room may be lacking.

    Ids of all arguments may be anywhere; results are on the device.
    """

    def __init__(self, capacity: int, max_rows: int | None, device: torch.device) -> None:
        self.device = device
        self._most = None if max_rows is None else max_rows + 1
        self._known = Slots(capacity + 1, device)
        self._beside: Beside | None = None
        self._census = Census(1, device)
        self._counters, self._bounds = self._census.counters[0], self._census.bounds[0]
        self._cells = Cells(capacity, device)
        self._parts = self._addresses()
        self._host = torch.classes.hybrid_torchrec.HashIndex(0)  # for admission: sightings of ids without a row
        self._changes = Changes(device)

    # Sizes.

    def size(self) -> int:
        self._census.wait()
        return self._bounds.live

    def slots(self) -> int:
        self._census.wait()
        return self._bounds.next

    @property
    def capacity(self) -> int:
        """Slots that ids can have without growth, with slot 0."""
        return self._known.capacity

    def bytes(self) -> int:
        return self._cells.tensor.nbytes + self._known.bytes() + int(self._host.bytes())

    def hits(self) -> int:
        return int(self._counters[HITS])

    def insertions(self) -> int:
        return int(self._counters[INSERTED])

    @property
    def parts(self) -> torch.Tensor:
        """(1, PARTS) int64: the addresses that the kernels take."""
        return self._parts

    @property
    def records(self) -> torch.Tensor:
        """(C, RECORD) int64 as they are now; sightings may still be counted in them."""
        return self._known.records

    # Ids to slots.

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        return launch.find(self._on(ids), self._parts)

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """find with 0 for absent ids; counts hits."""
        return launch.find(self._on(ids), self._parts, count_hits=True, clamp=True)

    def see(self, ids: torch.Tensor) -> Sighting:
        """Slots of ids (L,); every id gets a key in the map. `place` or `withdraw` must follow."""
        ids = self._on(ids)
        self.reserve_keys(len(ids))
        return Sighting(ids, *launch.see(ids, self._parts, count_hits=True))

    def place(self, sighting: Sighting, step: int) -> NewRows:
        """Gives slots to the ids that have none; `sighting.slots` are complete then. Room must have been reserved."""
        bits = self.capacity.bit_length()
        placed = launch.place(sighting.ids, sighting.slots, sighting.firsts, self._parts, step, self.version(), bits)
        return NewRows(placed.ids, placed.slots, self._counters, placed.keys, bits)

    def withdraw(self, sighting: Sighting) -> None:
        """Ids that were to get a row do not."""
        absent = sighting.ids[sighting.slots < 0]
        launch.set_cells(absent, torch.full_like(absent, -1), self._parts)

    def has_room(self, new: int) -> bool:
        """Whether `new` more rows fit in max_rows and the slots' memory; waits for the device if that is not sure."""
        self._census.settle()
        if not self._fits(new):
            self._census.wait()
        return self._fits(new)

    def reserve(self, new: int) -> None:
        """Memory for `new` more rows; the caller has seen to max_rows."""
        if self._bounds.slots_with(new) > self.capacity:
            self._census.wait()
            wanted = self._bounds.slots_with(new)
            if wanted > self.capacity:
                grown = max(wanted, 2 * self.capacity)
                self._slots.grow(grown if self._most is None else max(wanted, min(grown, self._most)))
                self._parts = self._addresses()
        self._bounds.add_rows(new)

    def look_ahead(self, new: int) -> None:
        """After a batch of `new` ids: has the counters come if the next ones may not fit."""
        if not self._fits(3 * new) or self._crowded(3 * new):
            self._census.observe()

    def share(self, census: Census, row: int, beside: Beside) -> None:
        """The counters are with those of other tables from now on; sightings may be counted beside."""
        self._beside = beside
        self._census.wait()
        census.counters[row] = self._counters
        self._census, self._counters, self._bounds = census, census.counters[row], census.bounds[row]
        self._parts = self._addresses()

    def touch(self, slots: torch.Tensor, step: int, decay: float) -> int:
        """A sighting of each slot that is positive; returns how many are."""
        slots = self._on(slots)
        self.count(slots.clamp(min=0), step, decay)
        return int((slots > 0).sum())

    def count(self, slots: torch.Tensor, step: int, decay: float) -> Order:
        """A sighting of each of slots, none of which is negative; returns them sorted."""
        return self.count_sorted(sort(slots, self.capacity.bit_length()), step, decay)

    def count_sorted(self, order: Order, step: int, decay: float) -> Order:
        if decay != 1.0:
            self._slots.decay(order.slots[order.slots > 0].unique(), step, decay)
        launch.count(order, self._parts, step)
        return order

    def admit(
        self, ids: torch.Tensor, slots: torch.Tensor, step: int, sightings: int, probability: float, seed: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """On the CPU, which counts: only ids without a row go there."""
        absent = self._on(ids)[self._on(slots) < 0].cpu()
        new, shows = self._host.admit(absent, torch.full_like(absent, -1), step, sightings, probability, seed)
        return new.to(self.device), shows.to(self.device)

    def insert(self, ids: torch.Tensor, shows: torch.Tensor, step: int) -> torch.Tensor:
        """Puts distinct ids that are absent; returns their slots."""
        ids = self._on(ids)
        if self._host.sightings()[1].numel():
            waiting = ids.cpu()
            self._host.insert(waiting, torch.ones_like(waiting), step)  # forgets their sightings
            self._host.erase(waiting)
        self.reserve_keys(len(ids))
        self.reserve(len(ids))
        sighting = Sighting(ids, *launch.see(ids, self._parts, count_hits=False))
        self.place(sighting, step)
        self._counters[INSERTED] -= len(ids)  # those that the host knows of
        self._slots.shows[sighting.slots] = self._on(shows).float()
        return sighting.slots

    def resolve(self, ids: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        return self.find(ids).clamp_(min=0)

    def erase(self, ids: torch.Tensor) -> torch.Tensor:
        """The slots that the ids had, -1 for those that were absent or came before."""
        ids = self._on(ids)
        slots = self.find(ids)
        ordered, source = slots.sort(stable=True)
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        gone = torch.zeros_like(first).scatter_(0, source, first) & (slots >= 0)
        freed, erased = slots[gone], ids[gone]
        if len(freed):
            launch.set_cells(erased, torch.full_like(erased, -1), self._parts)
            self._slots.last[freed] = FREE_STEP
            top = self._counters[FREED]
            self._slots.free[top + torch.arange(len(freed), device=self.device)] = freed
            self._counters[FREED] += len(freed)
            self._counters[LIVE] -= len(freed)
            self._changes.record_erased(erased)
        return torch.where(gone, slots, -1)

    # Rows.

    def victims(
        self, count: int, kind: int, show_weight: float, click_weight: float, decay: float, time_to_live: int,
        step: int, keep: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        eviction.check(kind)
        slots = eviction.candidates(kind, self._slots.last, step, time_to_live, self._on(keep))
        ids, shows, clicks, last = self.infos(slots)
        key = eviction.keys(kind, shows, clicks, last, show_weight, click_weight, decay, step)
        return slots[victim_order(key, last, ids)[: max(count, 0)]]

    def free_slots(self) -> torch.Tensor:
        """Slots whose rows went; the last is the first to be used again."""
        return self._slots.free[: int(self._counters[FREED])].clone()

    def used_slots(self) -> torch.Tensor:
        return (self._slots.last != FREE_STEP).nonzero()[:, 0]

    def infos(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._slots.infos(self._on(slots))

    def set_infos(self, slots: torch.Tensor, shows: torch.Tensor, clicks: torch.Tensor, last: torch.Tensor) -> None:
        slots, known = self._on(slots), self._slots
        known.shows[slots] = self._on(shows).float()
        known.clicks[slots] = self._on(clicks).float()
        known.last[slots] = self._on(last)

    def add_clicks(self, slots: torch.Tensor, clicks: torch.Tensor) -> None:
        slots = self._on(slots)
        self._slots.clicks.index_add_(0, slots, torch.where(slots > 0, self._on(clicks).float(), 0.0))

    # Changes.

    def mark_changed(self, slots: torch.Tensor) -> None:
        self._slots.versions[self._on(slots)] = self.version()

    def versions(self) -> torch.Tensor:
        return self._slots.versions

    def version(self) -> int:
        return self._changes.version

    def next_version(self) -> int:
        return self._changes.next_version()

    def recorded_from(self) -> int:
        return self._changes.recorded_from

    def changed_slots(self, since: int) -> torch.Tensor:
        used = self._slots.last != FREE_STEP
        return (used & (self._slots.versions >= since)).nonzero()[:, 0]

    def erased_ids(self, since: int) -> torch.Tensor:
        gone = self._changes.erased(since)
        return gone[self.find(gone) < 0]

    def forget_erased(self, before: int) -> None:
        self._changes.forget(before)

    # Admission, which is the CPU's.

    def count_exactly(self) -> None:
        self._host.count_exactly()

    def count_by_sketch(self, width: int, depth: int, seed: int) -> None:
        self._host.count_by_sketch(width, depth, seed)

    def sightings(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._host.sightings()

    def set_sightings(self, ids: torch.Tensor, counts: torch.Tensor) -> None:
        self._host.set_sightings(ids, counts)

    # Internals.

    @property
    def _slots(self) -> Slots:
        """When sightings that are still being counted have been."""
        if self._beside is not None:
            self._beside.join()
        return self._known

    def _on(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(self.device).contiguous()

    def _fits(self, new: int) -> bool:
        bounds = self._bounds
        return bounds.slots_with(new) <= self.capacity and (self._most is None or bounds.live + new < self._most)

    def _crowded(self, new: int) -> bool:
        return self._cells.crowded(self._bounds.keys + new)

    def reserve_keys(self, new: int) -> None:
        """Cells for `new` more keys."""
        if self._crowded(new):
            self._census.wait()
            if self._crowded(new):
                self._rebuild(self._bounds.live + new)
        self._bounds.add_keys(new)

    def _rebuild(self, rows: int) -> None:
        self._counters[KEYS] = 0
        self._cells = self._cells.copied(rows, self._counters[KEYS:])
        self._bounds.keys = rows
        self._parts = self._addresses()

    def _addresses(self) -> torch.Tensor:
        known = self._known
        words = [self._cells.tensor.data_ptr(), self._cells.mask, known.records.data_ptr(), known.free.data_ptr(),
                 self._counters.data_ptr()]  # fmt: skip
        return launch.parts_tensor(words, self.device)
