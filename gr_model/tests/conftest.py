from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from gr_model.data.interactions import Interactions

INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
USER = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
ITEM = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"


@pytest.fixture
def two_processes(request: pytest.FixtureRequest) -> Iterator[DeviceMesh]:
    """Of which one is here, the first if a test asks for no other; what they add up is what this one has."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=getattr(request, "param", 0), world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


@pytest.fixture
def drawn() -> None:
    """For a test of what the curves show."""


@pytest.fixture(autouse=True)
def curves_are_not_shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing four figures is nine tenths of a run of a few steps. Their files are made and written all the same."""
    if "drawn" in request.fixturenames or importlib.util.find_spec("matplotlib") is None:
        return
    from matplotlib.figure import Figure

    save = Figure.savefig

    def without_axes(figure: Figure, *arguments: Any, **options: Any) -> None:
        figure.set_layout_engine("none")
        for axes in figure.axes:
            axes.set_visible(False)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", without_axes)


@pytest.fixture
def atomic_folder(tmp_path: Path) -> Path:
    """Two users and three items; user b's last two ratings have one time."""
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    (folder / "ml-100k.user").write_text(USER + "a\t24\tM\twriter\t1\nb\t53\tF\tother\t2\n")
    (folder / "ml-100k.item").write_text(ITEM + "".join(f"{name}\tTitle\t1995\tDrama\n" for name in "xyz"))
    (folder / "ml-100k.inter").write_text(
        INTER + "b\tz\t3\t50\nb\tx\t5\t50\na\ty\t1\t30\nb\ty\t4\t10\na\tx\t2\t20\na\tz\t4\t40\n"
    )
    return folder


@pytest.fixture
def random_data() -> Interactions:
    """Twelve users with 6 to 40 interactions over 30 items."""
    # not above: it brings torch, and cuda/conftest.py has a word to say before
    from gr_model.data.interactions import Interactions, by_user

    rng = np.random.default_rng(0)
    counts = rng.integers(6, 41, 12)
    total = counts.sum()
    return Interactions(
        name="random",
        users=by_user(
            user=np.repeat(np.arange(12), counts),
            item=rng.integers(0, 30, total),
            action=rng.integers(0, 5, total),
            time=rng.integers(10**9, 10**9 + 10**6, total),
            features=np.stack([rng.integers(0, 2, 12), rng.integers(0, 7, 12)], axis=1),
        ),
        items=30,
        action_values=(1.0, 2.0, 3.0, 4.0, 5.0),
        feature_sizes={"gender": 2, "age": 7},
    )
