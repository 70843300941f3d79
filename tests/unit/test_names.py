"""The names of images: exactly one image each, and the short one that is a checkout's until another takes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grstack.engines.checkouts import Checkouts
from grstack.engines.names import KEY, Names, exact, short
from grstack.paths import Paths
from grstack.plan import Kind, Plan, make_plan
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project
from tests.store import Image, Store


class Checkout:
    """A checkout on a machine whose daemon and user's cache it shares with others."""

    def __init__(self, machine: Path, name: str, store: Store) -> None:
        self.root = make_project(machine / name)
        (self.root / "versions.yaml").touch()
        self.store = store
        self.checkouts = Checkouts(Paths(root=self.root, cache=machine / "cache"))
        self.names = Names(store, self.checkouts)

    @property
    def plan(self) -> Plan:
        return make_plan(
            self.root,
            lock=make_lock(),
            platform="twin",
            base="bootstrap:x",
            build="plain",
            components=COMPONENTS,
            operators=OPERATORS,
        )

    def edit(self) -> Plan:
        """Sources that no other checkout has."""
        file = self.root / "gr_model/__init__.py"
        file.write_text(f"{file.read_text()}# {self.root.name}\n")
        return self.plan

    def build(self, *, take: bool = True) -> str:
        plan = self.plan
        if not self.names.image_id(plan):
            image = Image(f"sha256:{plan.image.key}", [], labels={KEY: plan.image.key}, others=self.store.stored)
            self.store.stored.append(image)
            image.tag(*exact(plan).split(":"))
        return self.names.give(plan, take=take)

    def runs(self) -> str:
        """What `docker run grstack/npu:twin` runs."""
        return str(self.store.get(short(self.plan)).labels[KEY])


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def one(tmp_path: Path, store: Store) -> Checkout:
    found = Checkout(tmp_path, "one", store)
    found.edit()
    return found


@pytest.fixture
def two(tmp_path: Path, store: Store) -> Checkout:
    found = Checkout(tmp_path, "two with a space", store)
    found.edit()
    return found


@pytest.mark.parametrize("take", [True, False])
def test_on_a_fresh_machine_the_short_name_is_there_after_the_first_command(one: Checkout, take: bool) -> None:
    assert one.build(take=take) == ""
    assert one.runs() == one.plan.image.key
    assert exact(one.plan) == f"grstack/npu:twin-{one.plan.image.key[:12]}"


@pytest.mark.parametrize("take", [True, False])
def test_a_checkout_s_own_new_image_takes_the_place_of_its_old_one(one: Checkout, take: bool) -> None:
    one.build()
    old = exact(one.plan)
    one.edit()
    assert one.build(take=take) == ""
    assert one.runs() == one.plan.image.key
    assert one.store.get(old).labels[KEY] != one.plan.image.key


def test_another_checkout_s_name_is_left_to_it_by_what_only_runs(one: Checkout, two: Checkout) -> None:
    one.build()
    assert two.build(take=False) == ""
    assert two.runs() == one.plan.image.key
    assert two.store.get(exact(two.plan)).labels[KEY] == two.plan.image.key


def test_a_name_that_is_taken_says_whose_it_was_and_how_it_goes_back(one: Checkout, two: Checkout) -> None:
    one.build()
    said = two.build()
    assert exact(one.plan) in said and str(one.root) in said and f"cd {one.root} && make tag" in said
    assert two.runs() == two.plan.image.key
    back = one.build()
    assert f"cd '{two.root}' && make tag" in back and one.runs() == one.plan.image.key
    for checkout in (one, two):
        assert checkout.store.get(exact(checkout.plan)).labels[KEY] == checkout.plan.image.key


def test_an_image_of_before_that_nobody_has_noted_keeps_a_name(one: Checkout) -> None:
    """As an older grstack, or another user, leaves it: the short name only."""
    old = Image("sha256:old", ["grstack/npu:twin"], labels={KEY: "b" * 64})
    one.store.stored.append(old)
    old.others = one.store.stored
    assert one.build(take=False) == "" and one.runs() == "b" * 64
    assert "of no checkout that is known here" in one.build()
    assert old.names == [f"grstack/npu:twin-{'b' * 12}"]
    assert one.runs() == one.plan.image.key


def test_a_devel_variant_has_names_of_its_own(one: Checkout) -> None:
    plain = one.plan
    devel = replace(plain, steps=(*plain.steps, replace(plain.image, name="devel", kind=Kind.DEVEL, key="d" * 64)))
    assert (short(devel), exact(devel)) == ("grstack/npu:twin-devel", f"grstack/npu:twin-devel-{'d' * 12}")
    assert (short(devel.plain), exact(devel.plain)) == (short(plain), exact(plain))


def test_the_same_sources_in_two_checkouts_are_one_image(tmp_path: Path, store: Store) -> None:
    first, second = Checkout(tmp_path, "first", store), Checkout(tmp_path, "second", store)
    assert [first.build(), second.build()] == ["", ""]
    assert len(store.stored) == 1
    second.edit()
    assert second.build(take=False) == "" and second.runs() == second.plan.image.key, "it was second's name too"


def test_a_user_s_own_image_upon_ours_is_not_ours(one: Checkout) -> None:
    """It inherits the label."""
    one.store.stored.append(Image("sha256:theirs", ["theirs:1"], labels={KEY: one.plan.image.key}))
    assert one.names.image_id(one.plan) == ""
    one.store.stored.append(Image("sha256:untagged", [], labels={KEY: one.plan.image.key}))
    assert one.names.image_id(one.plan) == "sha256:untagged"


def test_what_other_checkouts_have_built_last_is_used_until_they_are_gone(one: Checkout, two: Checkout) -> None:
    two.build()
    before = {step.key for step in two.plan.steps}
    two.edit()
    two.build()
    used = one.checkouts.used_by_others()
    assert used == {step.key for step in two.plan.steps}
    assert not before <= used
    assert two.checkouts.used_by_others() == set()
    (two.root / "versions.yaml").unlink()
    assert one.checkouts.used_by_others() == set()


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_note_is_none(one: Checkout, two: Checkout, text: str) -> None:
    two.build()
    two.checkouts.own.write_text(text)
    assert one.checkouts.used_by_others() == set()
    assert "of no checkout that is known here" in one.build()
