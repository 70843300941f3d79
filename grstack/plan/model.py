"""Plan and Step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from grstack import ascend
from grstack.recipes import Recipe


class Kind(str, Enum):
    WHEELS = "wheels"  # locked files in the cache
    BASE = "base"  # the distribution: an image, or this host
    ENVIRONMENT = "environment"  # the base without its build tools + the locked Python packages
    BUILDER = "builder"  # environment + the base's build tools: components are built in it
    COMPONENT = "component"  # a recipe's build output
    IMAGE = "image"  # environment + components + our sources
    DEVEL = "devel"  # image + the base's build tools + our tests


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    kind: Kind
    summary: str
    key: str
    inputs: tuple[tuple[str, str], ...]
    needs: tuple[str, ...] = ()
    recipe: Recipe | None = None

    @property
    def short_key(self) -> str:
        return self.key[:12]


@dataclass(frozen=True, kw_only=True)
class Plan:
    target: str
    platform: str
    python: str
    arch: str
    base: str  # what the base is: a digest reference, or `bootstrap:<suite>`
    steps: tuple[Step, ...]
    tag: str = ""  # the chosen base's name, where it is not the platform's own
    whole: bool = False  # the environment stands on the base as it is, with its build tools
    home: str = ""  # where the base has CANN's toolkit, if not where docker/npu/Dockerfile says

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    @property
    def image(self) -> Step:
        """The plan's result: the image, or its devel variant."""
        return self.steps[-1]

    @property
    def devel(self) -> bool:
        return self.image.kind is Kind.DEVEL

    @property
    def plain(self) -> Plan:
        """The plan of the image below a devel variant; of an image, itself."""
        return replace(self, steps=self.steps[:-1]) if self.devel else self

    @property
    def toolkit(self) -> str:
        """Where the base has CANN's toolkit; empty on other platforms."""
        return (self.home or ascend.HOME) if self.platform == "cann" else ""

    @property
    def builder(self) -> Step:
        """Where components are built."""
        return next((step for step in self.steps if step.kind is Kind.BUILDER), self.step("environment"))

    @property
    def components(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind is Kind.COMPONENT)

    @property
    def install_order(self) -> tuple[Step, ...]:
        """The components of the image as it takes them: each after what it needs, operators last, since they change
        most. Those that are built beside the image are not among them."""
        taken = (step for step in self.components if step.recipe is None or step.recipe.image)
        return tuple(sorted(taken, key=lambda step: bool(step.recipe and step.recipe.operator)))

    def needed_by(self, step: Step) -> tuple[Step, ...]:
        return tuple(self.step(name) for name in step.needs)
