"""recipes/<component>/recipe.yaml: how a component is built, from what, and what must come out."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from packaging.utils import canonicalize_name, parse_wheel_filename
from pydantic import BaseModel, ConfigDict, ValidationError

from grstack.errors import SpecError
from grstack.spec import BesideName

WHEELS = "recipes/wheels"  # the scripts and the backend of every wheel of ours


class Recipe(BaseModel):
    """One component. With `foreach: operators` the recipe stands for one component per operator.

    build.sh makes it and install.sh installs it: the recipe's own, or those of recipes/wheels where `wheel` names the
    folder of a package that has a PEP 517 backend.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    summary: str
    platforms: tuple[str, ...]
    inputs: tuple[str, ...] = ()  # files and folders that the build may read, beside the recipe's and the wheel's
    wheel: str = ""
    needs: tuple[str, ...] = ()
    outputs: tuple[str, ...]
    wheels: tuple[str, ...] = ()  # locked packages whose wheel file the build reads from $GRSTACK_WHEELS
    beside: BesideName | None = None  # the lock that has them, by its name in versions.yaml, if not the target's own
    image: bool = True  # whether the image installs it; what it does not is built beside it
    layer_mb: int | None = None  # what its layer may take in the image, if more than layers.OTHERS
    foreach: str | None = None
    operator: str | None = None
    socs: tuple[str, ...] = ()  # of the operator, by versions.yaml; $GRSTACK_SOCS of the build

    def for_operator(self, operator: str, socs: Sequence[str]) -> Recipe:
        def fill(items: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(string.Template(item).safe_substitute(operator=operator) for item in items)

        return self.model_copy(
            update={
                "name": f"{self.name}/{operator}",
                "foreach": None,
                "operator": operator,
                "socs": tuple(socs),
                "summary": fill((self.summary,))[0],
                "inputs": fill(self.inputs),
                "outputs": fill(self.outputs),
            }
        )

    @property
    def folder(self) -> str:
        return self.name.split("/")[0]

    @property
    def sources(self) -> tuple[str, ...]:
        """All that the build may read: what it does not declare is not there."""
        wheel = (WHEELS, self.wheel) if self.wheel else ()
        return tuple(dict.fromkeys((f"recipes/{self.folder}", *wheel, *self.inputs)))

    def reads(self, wheel: str) -> bool:
        """Whether the build reads the wheel file of this name, of the lock that it names."""
        return parse_wheel_filename(wheel)[0] in {canonicalize_name(name) for name in self.wheels}

    def script(self, root: Path, name: str) -> str:
        """build.sh or install.sh, as a path below the checkout."""
        own = f"recipes/{self.folder}/{name}"
        return f"{WHEELS}/{name}" if self.wheel and not (root / own).exists() else own


def load_all(
    root: Path, platform: str, components: tuple[str, ...], operators: Mapping[str, Sequence[str]]
) -> list[Recipe]:
    """The recipes of `components` that `platform` uses, expanded, each after what it needs.

    `operators` names each operator's SoCs.
    """
    known = {file.parent.name: _load(root, file) for file in sorted((root / "recipes").glob("*/recipe.yaml"))}
    for name in (*components, *(need for recipe in known.values() for need in recipe.needs)):
        if name not in known:
            raise SpecError(
                f"unknown component '{name}'; valid: {', '.join(known)}",
                where="versions.yaml, recipes/",
                next_command="ls recipes/*/recipe.yaml",
            )
    recipes: list[Recipe] = []
    for name in components:
        if platform in known[name].platforms:
            recipes += (
                [known[name].for_operator(*item) for item in operators.items()]
                if known[name].foreach
                else [known[name]]
            )
    _check_inputs(root, recipes)
    return _ordered(recipes)


def _load(root: Path, file: Path) -> Recipe:
    try:
        recipe = Recipe.model_validate(yaml.safe_load(file.read_text()))
    except (ValidationError, yaml.YAMLError) as error:
        where = str(file.relative_to(root))
        raise SpecError(f"malformed recipe: {error}", where=where, next_command=f"${{EDITOR:-vi}} {where}") from error
    if recipe.name != file.parent.name:
        where = str(file.relative_to(root))
        raise SpecError(
            f"the recipe is named '{recipe.name}', its folder {file.parent.name}",
            where=where,
            next_command=f"${{EDITOR:-vi}} {where}",
        )
    return recipe


def _check_inputs(root: Path, recipes: list[Recipe]) -> None:
    """An input that is not there would count as nothing: a change of the misspelt file would rebuild nothing."""
    missing = [f"{r.name}: {path}" for r in recipes for path in r.sources if not (root / path).exists()]
    if missing:
        raise SpecError(
            f"recipes name inputs that do not exist: {'; '.join(missing)}", where="recipes/", next_command="git status"
        )


def _ordered(recipes: list[Recipe]) -> list[Recipe]:
    available = {recipe.folder for recipe in recipes}
    done: list[Recipe] = []
    waiting = list(recipes)
    while waiting:
        built = {recipe.folder for recipe in done} - {recipe.folder for recipe in waiting}
        ready = [r for r in waiting if not (set(r.needs) & available) - built]
        if not ready:
            raise SpecError(
                f"recipes need each other in a circle: {', '.join(r.name for r in waiting)}",
                where="recipes/",
                next_command="grep needs recipes/*/recipe.yaml",
            )
        done += ready
        waiting = [r for r in waiting if r not in ready]
    return done
