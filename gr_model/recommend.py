"""What each user may want next: python -m gr_model.recommend RUN [--top 10] [--out recommendations.csv]

RUN is the folder of a retrieval run, or one of its checkpoints. Writes a CSV with the columns user, item, rank and
score, by the ids that the data has, and title where it has the items' titles. --user ID, once or more, asks for these
users alone. The data set must be where the run had it; a file of one's own must hold the same rows.
Exit codes: 0 done, 1 wrong arguments, data or device.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from gr_model import config as configs
from gr_model import data
from gr_model.common import errors
from gr_model.common.errors import GrModelError
from gr_model.common.ticker import Ticker
from gr_model.config import Config, ConfigError
from gr_model.config import checks as config_checks
from gr_model.data.interactions import DataError, Interactions
from gr_model.run import checkpoint, data_note, leftovers
from gr_model.runtime import device as devices

BATCH = 128  # users at a time
HEADER = ("user", "item", "rank", "score")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        options = _parse(argv)
        chosen = checkpoint.find(options.run)
        config = configs.from_json(checkpoint.read_run(chosen)["config"])
        kind, _ = devices.split(options.device)
        config_checks.check_device(config, kind, launched=False)
        if config.task != "retrieval":
            raise ConfigError(
                f"{chosen}: is a {config.task} run, which scores items that it is given; valid: retrieval"
            )
        interactions = data.load(
            config.dataset, options.data_dir, config.data.bad_rows, _say, config.synthetic, config.data
        )
        data_note.check(chosen, interactions)
        out = options.out or options.run / leftovers.RECOMMENDED
        written = _write(options, config, chosen, interactions, out)
    except (GrModelError, OSError) as error:
        print(f"error: {errors.told(error) or error}", file=sys.stderr)
        return 1
    print(f"wrote {out}: {written:,} rows")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _write(options: argparse.Namespace, config: Config, chosen: Path, known: Interactions, out: Path) -> int:
    from gr_model.common.files import replacing
    from gr_model.runtime import world
    from gr_model.tasks.recommendation import top_items
    from gr_model.tasks.retrieval import Retrieval
    from gr_model.training.trainer import Trainer

    device = devices.open_device(options.device)
    item_names, user_names = _names(known)
    users = _chosen(options.user, user_names, known)
    written = 0
    with ExitStack() as open_things:
        if config.embedding.folder:  # a run may be using it
            folder = open_things.enter_context(tempfile.TemporaryDirectory())
            config = dataclasses.replace(config, embedding=dataclasses.replace(config.embedding, folder=folder))
        open_things.callback(world.leave)
        trainer = open_things.enter_context(closing(Trainer(config, known, device, world.join(device))))
        trainer.load_state(checkpoint.load_run(chosen, trainer.state()))
        task = trainer.task
        assert isinstance(task, Retrieval)
        if trainer.average:
            open_things.enter_context(trainer.average.in_place())
        task.model.eval()
        chunks = task.model.item_chunks(1 << 16)
        file = io.TextIOWrapper(open_things.enter_context(replacing(out)), encoding="utf-8", newline="")
        rows = csv.writer(file, lineterminator="\n")
        titles = known.item_titles
        rows.writerow((*HEADER, "title") if titles else HEADER)
        _say(f"the best {options.top} of {known.items:,} items for each of {len(users):,} users")
        tick = Ticker(_say)
        for start in range(0, len(users), BATCH):
            block = users[start : start + BATCH]
            items_UK, scores_UK = top_items(task, chunks, [known.users[user] for user in block], options.top, device)
            for user, items, scores in zip(block, items_UK.tolist(), scores_UK.tolist(), strict=True):
                for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1):
                    if item >= 0:
                        row = (user_names[user], item_names[item], rank, f"{score:.6f}")
                        rows.writerow((*row, titles[item]) if titles else row)
                        written += 1
            tick(f"{start + len(block):,} of {len(users):,} users so far")
        file.flush()
        file.detach()
    return written


def _names(known: Interactions) -> tuple[Sequence[str], Sequence[str]]:
    """Ids of items and users as the data has them; of data without such their numbers."""
    items = data_note.item_ids_of(known) or known.item_names or list(map(str, range(known.items)))
    ids = getattr(known.users, "ids", None)
    return items, ids() if ids else known.user_names or list(map(str, range(len(known.users))))


def _chosen(asked: Sequence[str], names: Sequence[str], known: Interactions) -> list[int]:
    """The users who are asked for, in this order; without any all who have a history."""
    lengths = data.lengths_of(known.users)
    if not asked:
        return [user for user, length in enumerate(lengths) if length]
    numbers = {name: number for number, name in enumerate(names)}
    for name in asked:
        if name not in numbers or not lengths[numbers[name]]:
            example = next(name for name, length in zip(names, lengths, strict=True) if length)
            raise DataError(
                f"--user {name}: {known.name} has no interaction of that user; an id that it has: {example}"
            )
    return [numbers[name] for name in dict.fromkeys(asked)]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gr_model.recommend", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--top", type=int, default=10, help="items for each user (default: 10)")
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="ID",
        help="one user, by the data's id; repeatable (default: all)",
    )
    parser.add_argument("--out", type=Path, help="the CSV (default: RUN/recommendations.csv)")
    parser.add_argument("--device", default="cpu", help="npu, cuda or cpu (default)")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("GRSTACK_DATA") or "data"))
    options = parser.parse_args(argv)
    if options.top < 1:
        raise ConfigError("--top: at least 1")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
