"""Small files in the exact layout of the public data sets, and what they hold, as plain Python."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from gr_model.data.kuairand import FEATURES, SIGNALS

KUAIRAND_LOG = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
)
KUAIRAND_USER = (
    "user_id,user_active_degree,is_lowactive_period,is_live_streamer,is_video_author,follow_user_num,"
    "follow_user_num_range,fans_user_num,fans_user_num_range,friend_user_num,friend_user_num_range,register_days,"
    "register_days_range," + ",".join(f"onehot_feat{i}" for i in range(18))
)
Row = tuple[object, object, float, int]  # user, item, rating or mask, time in the file's unit


def random_rows(
    users: int = 9, items: int = 12, count: int = 150, values: tuple[float, ...] = (1, 2, 3, 4, 5)
) -> list[Row]:
    """Times collide now and then, so that the order of the file matters."""
    rng = random.Random(4)
    return [
        (rng.randint(1, users) * 3, rng.randint(1, items) * 7, rng.choice(values), rng.randint(10**9, 10**9 + 60))
        for _ in range(count)
    ]


def ml_1m(folder: Path, rows: list[Row]) -> None:
    folder.mkdir(parents=True)
    (folder / "ratings.dat").write_text("".join(f"{u}::{i}::{r:g}::{t}\n" for u, i, r, t in rows))
    users = sorted({row[0] for row in rows})
    (folder / "users.dat").write_text(
        "".join(f"{u}::{'FM'[n % 2]}::{(1, 18, 56)[n % 3]}::{n % 21}::12345-{n}\n" for n, u in enumerate(users))
    )


def ml_20m(folder: Path, rows: list[Row]) -> None:
    folder.mkdir(parents=True)
    lines = "".join(f"{u},{i},{r / 2:.1f},{t}\r\n" for u, i, r, t in rows)
    (folder / "ratings.csv").write_bytes(("userId,movieId,rating,timestamp\r\n" + lines).encode())


def amazon_ratings(folder: Path, rows: list[Row]) -> None:
    folder.mkdir(parents=True)
    (folder / "ratings_Beauty.csv").write_text("".join(f"A{u}X,B00{i},{r:.1f},{t}\n" for u, i, r, t in rows))


def amazon_reviews(folder: Path, rows: list[Row]) -> None:
    folder.mkdir(parents=True)
    with gzip.open(folder / "reviews_Beauty_5.json.gz", "wt") as file:
        for u, i, r, t in rows:
            review = {
                "reviewerID": f"A{u}X",
                "asin": f"B00{i}",
                "reviewerName": "n",
                "helpful": [0, 1],
                "reviewText": 'says "good"',
                "overall": float(r),
                "summary": "s",
                "unixReviewTime": t,
                "reviewTime": "09 1, 2013",
            }
            file.write(json.dumps(review) + "\n")


def kuairand(folder: Path, rows: list[Row], size: str = "pure", parts: int = 0) -> None:
    """Values of `rows` are masks of signals, times milliseconds; the rows are cut over the logs in their order."""
    folder.mkdir(parents=True)
    suffixes = [f"_part{n + 1}" for n in range(parts)] or [""]
    names = [f"log_standard_{p}_{size}{s}.csv" for p in ("4_08_to_4_21", "4_22_to_5_08") for s in suffixes]
    for n, name in enumerate(names):
        lines = [KUAIRAND_LOG]
        for u, i, mask, t in rows[n * len(rows) // len(names) : (n + 1) * len(rows) // len(names)]:
            bit = {signal: int(mask) >> b & 1 for b, signal in enumerate(SIGNALS)}
            values = {
                **bit,
                "user_id": u,
                "video_id": i,
                "date": 20220421,
                "hourmin": 400,
                "time_ms": t,
                "play_time_ms": 1,
                "duration_ms": 2,
                "profile_stay_time": 0,
                "comment_stay_time": 0,
                "is_rand": 0,
                "tab": 1,
            }
            lines.append(",".join(str(values[column]) for column in KUAIRAND_LOG.split(",")))
        (folder / name).write_text("\n".join(lines) + "\n")
    lines = [KUAIRAND_USER]
    for n, user in enumerate(sorted({row[0] for row in rows})[:-1]):  # the last user has no features
        texts = dict(zip(FEATURES, user_texts(n)))
        lines.append(
            ",".join(
                f'"{texts[c]}"' if c in texts and "," in texts[c] else texts.get(c, str(user))
                for c in KUAIRAND_USER.split(",")
            )
        )
    (folder / f"user_features_{size}.csv").write_text("\n".join(lines) + "\n")


def user_texts(number: int) -> tuple[str, ...]:
    """In the order of FEATURES."""
    active, follow = ("full_active", "UNKNOWN")[number % 2], ("0", "(0,10]", "500+")[number % 3]
    return active, follow, "[1,10)", "0", "730+", str(number % 2), "1"
