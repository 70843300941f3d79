"""Plans: what a change rebuilds, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from grstack.errors import LockError, SpecError
from grstack.locks import Lock, Package
from grstack.plan import Kind, Plan, make_plan
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project


def plan_of(
    root: Path,
    *,
    platform: str = "twin",
    base: str = "bootstrap:debian/bookworm",
    build: str = "plain",
    home: str = "",
    devel: bool = False,
) -> Plan:
    return make_plan(
        root,
        lock=make_lock(),
        platform=platform,
        base=base,
        build=build,
        components=COMPONENTS,
        operators=OPERATORS,  # type: ignore[arg-type]
        home=home,
        devel=devel,
    )


def changed(before: Plan, after: Plan) -> set[str]:
    keys = {step.name: step.key for step in before.steps}
    return {step.name for step in after.steps if keys.get(step.name) != step.key}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def test_order_follows_needs(root: Path) -> None:
    plan = plan_of(root)
    names = [step.name for step in plan.steps]
    assert names.index("twin") < names.index("operators/one")
    assert names[-1] == "image" and plan.image.kind is Kind.IMAGE
    for step in plan.steps:
        assert all(names.index(need) < names.index(step.name) for need in step.needs)


def test_the_same_inputs_give_the_same_plan(root: Path) -> None:
    assert plan_of(root) == plan_of(root)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("kernels/operators/one/op_kernel/one.cpp", {"operators/one", "packages", "image"}),
        ("twin/runtime/acl.cpp", {"twin", "operators/one", "operators/two", "packages", "image"}),
        ("recipes/packages/build.sh", {"packages"}),
        ("recipes/torchrec/build.sh", {"torchrec", "image"}),
        ("gr_model/__init__.py", {"image"}),
        ("docker/npu/Dockerfile", {"image"}),
        (
            "docker/base/packages.txt",
            {
                "base",
                "environment",
                "builder",
                "twin",
                "torchrec",
                "operators/one",
                "operators/two",
                "packages",
                "image",
            },
        ),
    ],
)
def test_a_change_rebuilds_what_depends_on_it_and_nothing_else(root: Path, path: str, expected: set[str]) -> None:
    before = plan_of(root)
    (root / path).write_text("changed\n")
    assert changed(before, plan_of(root)) == expected


def test_a_base_depends_on_the_way_it_is_made_only(root: Path) -> None:
    pulled = "debian@sha256:" + "0" * 64
    bootstrapped, built = plan_of(root), plan_of(root, base=pulled)
    (root / "docker/base/Dockerfile").write_text("changed\n")
    assert not changed(bootstrapped, plan_of(root))
    assert "base" in changed(built, plan_of(root, base=pulled))
    (root / "docker/base/bootstrap.sh").write_text("changed\n")
    assert "base" in changed(bootstrapped, plan_of(root))


def test_ubuntu_s_own_packages_are_part_of_its_base_s_key(root: Path) -> None:
    pulled = "ubuntu@sha256:" + "0" * 64
    on = {name: plan_of(root, base=f"bootstrap:{name}") for name in ("debian/bookworm", "ubuntu/jammy")}
    before = plan_of(root, base=pulled)
    (root / "docker/base/packages-ubuntu.txt").write_text("apt\n")
    assert "base" in changed(on["ubuntu/jammy"], plan_of(root, base="bootstrap:ubuntu/jammy"))
    assert not changed(on["debian/bookworm"], plan_of(root, base="bootstrap:debian/bookworm"))
    assert "base" in changed(before, plan_of(root, base=pulled))


def test_components_are_built_where_the_build_tools_are(root: Path) -> None:
    """Which the image is not: it stands on the environment, without them."""
    plan = plan_of(root)
    assert plan.builder.kind is Kind.BUILDER and not plan.whole
    assert {need for step in plan.components for need in step.needs} >= {"builder"}
    assert not any("environment" in step.needs for step in plan.components)
    assert "environment" in plan.image.needs and "builder" not in plan.image.needs
    for whole in (plan_of(root, platform="cann"), plan_of(root, base="host:bookworm")):  # with tools of their own
        assert whole.whole and whole.builder.kind is Kind.ENVIRONMENT
        assert all("environment" in step.needs for step in whole.components)


def test_what_an_image_keeps_of_its_base_is_part_of_the_key(root: Path) -> None:
    before = plan_of(root)
    (root / "docker/npu/keep.txt").write_text("gcc\n")
    assert {"environment", "image"} <= changed(before, plan_of(root))


def test_a_devel_variant_stands_on_the_image_and_has_the_tests(root: Path) -> None:
    plain, devel = plan_of(root), plan_of(root, devel=True)
    assert devel.plain == plain and not changed(plain, devel.plain)
    assert (devel.image.kind, devel.devel, plain.devel) == (Kind.DEVEL, True, False)
    assert devel.image.needs == ("image", "base")
    (root / "gr_model/tests").mkdir()
    (root / "gr_model/tests/test_one.py").write_text("def test_one(): ...\n")
    assert changed(devel, plan_of(root, devel=True)) == {"devel"}
    (root / "gr_model/tests/__pycache__").mkdir()
    (root / "gr_model/tests/__pycache__/x.pyc").write_text("")
    again = plan_of(root, devel=True)
    assert again.image.key == plan_of(root, devel=True).image.key
    (root / "gr_model/__init__.py").write_text("x = 1\n")
    assert changed(again, plan_of(root, devel=True)) == {"image", "devel"}


def test_packages_of_the_devel_variant_alone_are_part_of_the_key(root: Path) -> None:
    before = plan_of(root, devel=True)
    (root / "docker/npu/devel.txt").write_text("pytest\n")
    after = plan_of(root, devel=True)
    assert {"environment", "image", "devel"} <= changed(before, after)
    assert after.image.needs == ("image", "base", "wheels"), "which it installs itself"


def test_the_host_has_no_devel_variant(root: Path) -> None:
    assert plan_of(root, base="host:bookworm", devel=True) == plan_of(root, base="host:bookworm")


def test_a_mode_change_counts_and_caches_do_not(root: Path) -> None:
    before = plan_of(root)
    cache = root / "gr_model/__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_text("x")
    assert not changed(before, plan_of(root))
    (root / "recipes/twin/build.sh").chmod(0o755)
    assert "twin" in changed(before, plan_of(root))


def test_the_build_of_torch_and_the_base_are_part_of_the_key(root: Path) -> None:
    assert "wheels" in changed(plan_of(root), plan_of(root, build="cpu"))
    assert "base" in changed(plan_of(root), plan_of(root, base="debian@sha256:" + "0" * 64))


def test_where_the_toolkit_is_counts_for_what_is_made_with_it(root: Path) -> None:
    """A wrong `home` that is corrected leaves nothing of the old one."""
    before, after = plan_of(root, platform="cann"), plan_of(root, platform="cann", home="/opt/cann")
    names = {step.name for step in before.steps}
    assert changed(before, after) == names - {"wheels", "base", "environment"}
    assert (before.toolkit, after.toolkit, plan_of(root).toolkit) == (
        "/usr/local/Ascend/ascend-toolkit/latest",
        "/opt/cann",
        "",
    )


def test_platform_cann_has_no_twin(root: Path) -> None:
    names = {step.name for step in plan_of(root, platform="cann").steps}
    assert "twin" not in names and "operators/one" in names


def test_recipes_in_a_circle_are_refused(root: Path) -> None:
    file = root / "recipes/twin/recipe.yaml"
    file.write_text(file.read_text() + "needs: [operators]\n")
    with pytest.raises(SpecError, match="circle"):
        plan_of(root)


def test_an_unknown_recipe_field_names_the_file(root: Path) -> None:
    file = root / "recipes/twin/recipe.yaml"
    file.write_text(file.read_text() + "colour: red\n")
    with pytest.raises(SpecError, match="colour"):
        plan_of(root)


def test_an_input_that_does_not_exist_is_named(root: Path) -> None:
    file = root / "recipes/twin/recipe.yaml"
    file.write_text(file.read_text().replace("twin/runtime", "twin/runtimes"))
    with pytest.raises(SpecError, match="twin: twin/runtimes"):
        plan_of(root)


def lock_beside(root: Path, **digests: str) -> None:
    """A lock of two packages; of `digests` the first digit of each hash."""
    packages = tuple(
        Package(name=name, version="1.0", filename=f"{name}-1.0-py3-none-any.whl", sha256=digit * 64)
        for name, digit in digests.items()
    )
    lock = Lock(target="gluon", python="3.11", arch="x86_64", inputs="0" * 64, packages=packages)
    (root / "locks").mkdir(exist_ok=True)
    (root / f"locks/{lock.name}.json").write_text(lock.text())


def test_wheels_of_another_lock_are_in_the_key_of_who_reads_them_and_in_no_other(root: Path) -> None:
    file = root / "recipes/torchrec/recipe.yaml"
    file.write_text(file.read_text() + "beside: gluon\n")
    with pytest.raises(LockError, match="there is no lock"):
        plan_of(root)
    lock_beside(root, torchrec="a", more="b")
    before = plan_of(root)
    assert ("torchrec-1.0-py3-none-any.whl", "a" * 64) in before.step("torchrec").inputs
    lock_beside(root, torchrec="c", more="b")
    assert changed(before, plan_of(root)) == {"torchrec", "image"}
    lock_beside(root, torchrec="a", more="d")
    assert not changed(before, plan_of(root)), "it does not read this one"


def test_a_recipe_names_a_lock_that_there_can_be(root: Path) -> None:
    file = root / "recipes/torchrec/recipe.yaml"
    file.write_text(file.read_text() + "beside: gluons\n")
    with pytest.raises(SpecError, match="unknown name 'gluons'; valid: notebook, sweeps, gluon"):
        plan_of(root)


def test_a_wheel_is_built_by_the_common_scripts_from_its_folder_alone(root: Path) -> None:
    for name in ("recipes/wheels/build.sh", "recipes/wheels/install.sh", "library/pyproject.toml", "shared/a.h"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("true\n")
    (root / "recipes/torchrec/recipe.yaml").write_text(
        "name: torchrec\nsummary: a wheel\nplatforms: [twin]\nwheel: library\ninputs: [shared]\noutputs: ['*.whl']\n"
    )
    recipe = plan_of(root).step("torchrec").recipe
    assert recipe is not None
    assert recipe.sources == ("recipes/torchrec", "recipes/wheels", "library", "shared")
    assert recipe.script(root, "build.sh") == "recipes/torchrec/build.sh"  # its own, where it has one
    (root / "recipes/torchrec/build.sh").unlink()
    assert recipe.script(root, "build.sh") == "recipes/wheels/build.sh"
    before = {step.name: step.key for step in plan_of(root).steps}
    for name in ("recipes/wheels/build.sh", "library/pyproject.toml", "shared/a.h"):
        (root / name).write_text(f"changed {name}\n")
        after = {step.name: step.key for step in plan_of(root).steps}
        assert {step for step in after if after[step] != before[step]} == {"torchrec", "image"}, name
        before = after
    (root / "library/pyproject.toml").unlink()
    (root / "library").rmdir()
    with pytest.raises(SpecError, match="torchrec: library"):
        plan_of(root)
