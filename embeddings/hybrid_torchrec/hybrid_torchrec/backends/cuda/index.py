"""The ids of a table on a CUDA device: their slots, and what is known of their rows, in the device's memory."""

from __future__ import annotations

import torch

from hybrid_torchrec.backends.cuda import eviction, id_launches
from hybrid_torchrec.backends.cuda.buckets import Buckets
from hybrid_torchrec.backends.cuda.change_log import ChangeLog
from hybrid_torchrec.backends.cuda.counters import DeviceCounters
from hybrid_torchrec.backends.cuda.insertion import NewRows, PendingInsertion
from hybrid_torchrec.backends.cuda.layout import constants
from hybrid_torchrec.backends.cuda.side_stream import SideStream
from hybrid_torchrec.backends.cuda.slot_records import SlotRecords
from hybrid_torchrec.backends.cuda.sorted_slots import SortedSlots, sort
from hybrid_torchrec.backends.ids import victim_order

SPARE_BATCHES = 3  # beside the coming one: the counters that are asked for behind one are there two later

FREE_STEP, LIVE, FREED, KEYS, INSERTED, HITS = constants("FREE_STEP", "LIVE", "FREED", "KEYS", "INSERTED", "HITS")


class DeviceIndex:
    """csrc/ids/index.h's class for one device. The number of rows is kept on the device: the host knows bounds, and
    waits only where a bound says that room may be lacking. Room that is ready for some batches (`spare_for`) keeps the
    bounds below it for as long as their answers take.

    Ids of all arguments may be anywhere; results are on the device.
    """

    def __init__(self, capacity: int, max_rows: int | None, device: torch.device) -> None:
        self.device = device
        self._most = None if max_rows is None else max_rows + 1
        self._known = SlotRecords(capacity + 1, device)
        self._planned = capacity + 1  # slots but for the spare ones
        self._side_stream: SideStream | None = None
        self._device_counters = DeviceCounters(1, device)
        self._counters, self._bounds = self._device_counters.counters[0], self._device_counters.bounds[0]
        self._buckets = Buckets(capacity, device)
        self._parts = self._addresses()
        self._host = torch.classes.hybrid_torchrec.HashIndex(0)  # for admission: sightings of ids without a row
        self._change_log = ChangeLog(device)

    # Sizes.

    def size(self) -> int:
        self._device_counters.synchronize()
        return self._bounds.live

    def slots(self) -> int:
        self._device_counters.synchronize()
        return self._bounds.next

    @property
    def capacity(self) -> int:
        """Slots that ids can have without growth, with slot 0."""
        return self._known.capacity

    def bytes(self) -> int:
        return self._buckets.tensor.nbytes + self._known.bytes() + int(self._host.bytes())

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
        return id_launches.find(self._on(ids), self._parts)

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """find with 0 for absent ids; counts hits."""
        return id_launches.find(self._on(ids), self._parts, count_hits=True, clamp=True)

    def find_or_insert(self, ids: torch.Tensor) -> PendingInsertion:
        """Slots of ids (L,); every id gets a key in the map. `allocate_slots` or `cancel` must follow."""
        ids = self._on(ids)
        self.reserve_keys(len(ids))
        return PendingInsertion(ids, *id_launches.find_or_insert(ids, self._parts, count_hits=True))

    def allocate_slots(self, pending: PendingInsertion, step: int) -> NewRows:
        """Gives slots to the ids that have none; `pending.slots` are complete then. Room must have been reserved."""
        bits = self.capacity.bit_length()
        placed = id_launches.allocate_slots(
            pending.ids, pending.slots, pending.new_counts, self._parts, step, self.version(), bits
        )
        return NewRows(placed.ids, placed.slots, self._counters, placed.keys, bits)

    def cancel(self, pending: PendingInsertion) -> None:
        """Ids that were to get a row do not."""
        absent = pending.ids[pending.slots < 0]
        id_launches.set_buckets(absent, torch.full_like(absent, -1), self._parts)

    def surely_has_room(self, new: int) -> bool:
        """Whether `new` more rows fit in max_rows and the slots' memory. False too where that is not sure, which the
        answer to the last request for the counters is waited for to know, and no later batch."""
        self._device_counters.poll()
        if not self._fits(new):
            self._device_counters.settle()
        return self._fits(new)

    def has_room(self, new: int) -> bool:
        """Whether `new` more rows fit in max_rows and the slots' memory; waits for the device if that is not sure."""
        if not self._fits(new):
            self._device_counters.synchronize()
        return self._fits(new)

    def spare_for(self, new: int) -> int:
        """Slots with which batches of `new` ids need no wait for the counters; 0 where max_rows may not let them in.

        Twice as many as are in use where more are than were planned for, and room for SPARE_BATCHES batches beside.
        """
        bounds = self._bounds
        if self._most is not None and bounds.live + new >= self._most:
            return 0
        if bounds.used > self._planned:
            self._planned = 2 * bounds.used
        wanted = max(self._planned, bounds.slots_with(new)) + SPARE_BATCHES * new
        return wanted if self._most is None else min(wanted, self._most)

    def grow(self, slots: int) -> None:
        """Memory for so many slots, with slot 0."""
        if slots > self.capacity:
            self._slots.grow(slots)
            self._parts = self._addresses()

    def reserve(self, new: int) -> None:
        """Memory for `new` more rows; the caller has seen to max_rows."""
        if self._bounds.slots_with(new) > self.capacity:
            self._device_counters.synchronize()
            wanted = self._bounds.slots_with(new)
            if wanted > self.capacity:
                grown = max(wanted, 2 * self.capacity)
                self.grow(grown if self._most is None else max(wanted, min(grown, self._most)))
        self._bounds.add_rows(new)

    def prefetch_counters(self, new: int) -> None:
        """After a batch of `new` ids: has the counters come if the next ones may not fit."""
        if not self._fits(3 * new) or self._overloaded(3 * new):
            self._device_counters.request()

    def share_counters(self, device_counters: DeviceCounters, row: int, side_stream: SideStream) -> None:
        """The counters are among those of other tables from now on; sightings may be counted on the side stream."""
        self._side_stream = side_stream
        self._device_counters.synchronize()
        device_counters.counters[row] = self._counters
        self._device_counters, self._counters, self._bounds = (
            device_counters,
            device_counters.counters[row],
            device_counters.bounds[row],
        )
        self._parts = self._addresses()

    def touch(self, slots: torch.Tensor, step: int, decay: float) -> int:
        """A sighting of each slot that is positive; returns how many are."""
        slots = self._on(slots)
        self.count(slots.clamp(min=0), step, decay)
        return int((slots > 0).sum())

    def count(self, slots: torch.Tensor, step: int, decay: float) -> SortedSlots:
        """A sighting of each of slots, none of which is negative; returns them sorted."""
        return self.count_sorted(sort(slots, self.capacity.bit_length()), step, decay)

    def count_sorted(self, sorted_slots: SortedSlots, step: int, decay: float) -> SortedSlots:
        if decay != 1.0:
            self._slots.decay(sorted_slots.slots[sorted_slots.slots > 0].unique(), step, decay)
        id_launches.count(sorted_slots, self._parts, step)
        return sorted_slots

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
        pending = PendingInsertion(ids, *id_launches.find_or_insert(ids, self._parts, count_hits=False))
        self.allocate_slots(pending, step)
        self._counters[INSERTED] -= len(ids)  # those that the host knows of
        self._slots.shows[pending.slots] = self._on(shows).float()
        return pending.slots

    def put(self, ids: torch.Tensor, shows: torch.Tensor, clicks: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """Slots of distinct ids, inserted where absent, with what is known of their rows."""
        ids = self._on(ids)
        slots = self.find(ids)
        absent = slots < 0
        if bool(absent.any()):
            new = ids[absent]
            slots[absent] = self.insert(new, torch.zeros_like(new), 0)
        self.set_infos(slots, shows, clicks, last)
        self.mark_changed(slots)
        return slots

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
            id_launches.set_buckets(erased, torch.full_like(erased, -1), self._parts)
            self._slots.last[freed] = FREE_STEP
            top = self._counters[FREED]
            self._slots.free[top + torch.arange(len(freed), device=self.device)] = freed
            self._counters[FREED] += len(freed)
            self._counters[LIVE] -= len(freed)
            self._change_log.record_erased(erased)
        return torch.where(gone, slots, -1)

    # Rows.

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
    ) -> torch.Tensor:
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
        return self._change_log.version

    def next_version(self) -> int:
        return self._change_log.next_version()

    def recorded_from(self) -> int:
        return self._change_log.recorded_from

    def changed_slots(self, since: int) -> torch.Tensor:
        used = self._slots.last != FREE_STEP
        return (used & (self._slots.versions >= since)).nonzero()[:, 0]

    def erased_ids(self, since: int) -> torch.Tensor:
        gone = self._change_log.erased(since)
        return gone[self.find(gone) < 0]

    def forget_erased(self, before: int) -> None:
        self._change_log.forget(before)

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
    def _slots(self) -> SlotRecords:
        """When sightings that are still being counted have been."""
        if self._side_stream is not None:
            self._side_stream.join()
        return self._known

    def _on(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(self.device).contiguous()

    def _fits(self, new: int) -> bool:
        bounds = self._bounds
        return bounds.slots_with(new) <= self.capacity and (self._most is None or bounds.live + new < self._most)

    def _overloaded(self, new: int) -> bool:
        return self._buckets.overloaded(self._bounds.keys + new)

    def reserve_keys(self, new: int) -> None:
        """Buckets for `new` more keys."""
        if self._overloaded(new):
            self._device_counters.settle()
            if self._overloaded(new):
                self._rebuild(self._bounds.live + new)
        self._bounds.add_keys(new)

    def _rebuild(self, rows: int) -> None:
        self._counters[KEYS] = 0
        self._buckets = self._buckets.copied(rows, self._counters[KEYS:])
        self._bounds.keys = rows
        self._parts = self._addresses()

    def _addresses(self) -> torch.Tensor:
        known = self._known
        words = [
            self._buckets.tensor.data_ptr(),
            self._buckets.mask,
            known.records.data_ptr(),
            known.free.data_ptr(),
            self._counters.data_ptr(),
        ]
        return id_launches.parts_tensor(words, self.device)
