"""Data sets that follow a known rule: small ones in memory, others as shards like those of any other data set."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gr_model.data.bad_rows import BadRows
from gr_model.data.interactions import DataError, Interactions
from gr_model.data.synthetic import Rule
from gr_model.config.synthetic import SyntheticConfig

IN_MEMORY = 1 << 22  # interactions: about 100 MB
RULES = 1  # version of what the settings make


def load(
    kind: type[Rule], settings: SyntheticConfig, shards_of: Callable[[str], Path], say: Callable[[str], None]
) -> Interactions:
    """`shards_of(name)` is the folder for shards of that name: those of other settings keep their own."""
    rule = kind(settings)
    if settings.users * settings.length <= IN_MEMORY:
        return rule.interactions()
    from gr_model.data import shards

    made_by = {"kind": kind.name, "rules": RULES, **dataclasses.asdict(settings)}
    place = shards_of(f"shards-{hashlib.sha256(json.dumps(made_by).encode()).hexdigest()[:12]}")
    manifest = shards.read_manifest(place)
    if manifest is None:
        try:
            _write(rule, made_by, place, say)
        except OSError as error:
            raise DataError(f"{place} cannot be written ({error.strerror}); set GRSTACK_SHARDS=FOLDER") from None
        manifest = shards.read_manifest(place)
        assert manifest is not None
    return shards.open_shards(place, manifest)


def _write(rule: Rule, made_by: dict[str, Any], place: Path, say: Callable[[str], None]) -> None:
    """Whole or not at all."""
    from gr_model.data import shards

    about, settings = rule.about(), rule.settings
    say(f"{rule.name}: writing up to {settings.users * settings.length:,} interactions to {place}")
    shards.refuse_foreign(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as scratch:
        out = Path(scratch) / "shards"
        with shards.ShardWriter(out, settings.items, len(about["action_values"])) as writer:
            for user, history in enumerate(rule.all_histories()):
                writer.add(user, history.items, history.actions, history.times, history.features)
            writer.finish(
                name=rule.name,
                action_values=about["action_values"],
                feature_sizes=about["feature_sizes"],
                tasks={task: labels.astype(int).tolist() for task, labels in about.get("tasks", {}).items()},
                at_least=1,
                files={},
                bad_rows=BadRows().as_json(),
                made_by=made_by,
            )
        if shards.read_manifest(place) is None:  # another run may have been faster
            shards.put(out, place)
