"""KuaiRand (Gao et al. 2022): short-video impressions with several feedback signals each, in three sizes.

log_standard_*.csv hold the impressions of the usual recommender, log_random_*.csv those of a random one, which are left
out here: they interrupt the sequence that is to be modelled. An action is the set of signals, as bits of a number.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gr_model.data.bad_rows import BadRows
from gr_model.data.column import Column
from gr_model.data.columns import read_blocks
from gr_model.data.source import Rows, Source, UserFeatures

SIGNALS = (
    "is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "long_view", "is_profile_enter",
)
ACTIONS = 1 << len(SIGNALS)
FEATURES = (
    "user_active_degree", "follow_user_num_range", "fans_user_num_range", "friend_user_num_range",
    "register_days_range", "is_live_streamer", "is_video_author",
)
PERIODS = ("4_08_to_4_21", "4_22_to_5_08")


def source(size: str, parts: int = 0) -> Source:
    """`size` as in the names of the files: pure, 1k or 27k; `parts` into which each log is cut, 0 for none."""
    logs = tuple(
        f"log_standard_{period}_{size}{part}.csv"
        for period in PERIODS
        for part in ([f"_part{number + 1}" for number in range(parts)] or [""])
    )
    people = f"user_features_{size}.csv"

    def rows(folder: Path, bad: BadRows) -> Rows:
        columns = (
            Column(name="user_id", low=0), Column(name="video_id", low=0), Column(name="time_ms", low=0),
            *(Column(name=name, low=0, high=1) for name in SIGNALS),
        )
        for log in logs:
            for block in read_blocks(folder / log, columns, bad):
                action = sum(block[name] << bit for bit, name in enumerate(SIGNALS))
                yield {"user": block["user_id"], "item": block["video_id"], "action": action, "time": block["time_ms"]}

    def features(folder: Path, bad: BadRows) -> UserFeatures:
        columns = (Column(name="user_id", low=0), *(Column(name=name, kind="text") for name in FEATURES))
        blocks = list(read_blocks(folder / people, columns, bad, quoted=True))
        users = np.concatenate([block["user_id"] for block in blocks]).tolist()
        codes, sizes = [], {}
        for name in FEATURES:
            values, inverse = np.unique(np.concatenate([block[name] for block in blocks]).astype(str), return_inverse=True)
            codes.append(inverse.tolist())
            sizes[name] = len(values) + 1
        return UserFeatures(sizes, dict(zip(users, zip(*codes))))

    masks = np.arange(ACTIONS)
    return Source(
        name=f"kuairand-{size}",
        files=(*logs, people),
        rows=rows,
        features=features,
        action_values=tuple(float(mask) for mask in masks),
        tasks={name: (masks >> bit & 1).astype(bool) for bit, name in enumerate(SIGNALS)},
        ticks=1000,
    )
