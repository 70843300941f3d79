"""The order in which the runtime looks for an operator, and what keeps a vendor out of it.

First hit wins: the entries of ASCEND_CUSTOM_OPP_PATH, then the vendors of load_priority below ASCEND_OPP_PATH.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grstack.opp import config, vendor
from grstack.opp.vendor import Vendor, operator_name


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the runtime reads when it starts."""

    opp: str = ""
    custom: tuple[str, ...] = ()
    toolkit: str = ""
    user: int = 0

    @classmethod
    def of(cls, variables: Mapping[str, str], *, opp: str = "") -> Environment:
        """From a process environment; `opp` stands for another ASCEND_OPP_PATH."""
        custom = variables.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")
        return cls(
            opp=opp or variables.get("ASCEND_OPP_PATH", ""),
            custom=tuple(entry.rstrip("/") or "/" for entry in custom if entry),
            toolkit=variables.get("ASCEND_HOME_PATH", ""),
            user=os.geteuid(),
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A vendor and its place in the search; one that is not asked says why."""

    vendor: Vendor
    found_by: str
    not_asked: str = ""


def candidates(environment: Environment) -> tuple[Candidate, ...]:
    """In search order; directories that nothing names come last."""
    found: list[Candidate] = []
    for number, entry in enumerate(environment.custom, 1):
        found.append(_candidate(Path(entry), f"ASCEND_CUSTOM_OPP_PATH, entry {number}", environment.user))
    if environment.opp:
        vendors = Path(environment.opp) / "vendors"
        named = config.priority(vendors)
        for number, name in enumerate(named, 1):
            found.append(_candidate(vendors / name, f"load_priority, place {number}", environment.user))
        listed = {c.vendor.path for c in found}
        for path in sorted(vendors.glob("[!.]*")):
            if path.is_dir() and str(path) not in listed:
                why = "load_priority does not name it"
                found.append(Candidate(vendor=vendor.read(path), found_by="nothing", not_asked=why))
    return tuple(found)


def _candidate(path: Path, found_by: str, user: int) -> Candidate:
    what = vendor.read(path)
    why = what.fault
    if not why and what.owner not in (user, 0):
        why = f"its library belongs to user {what.owner}, and user {user} takes libraries of root and its own only"
    if what.fault and (path / "vendors").is_dir():
        why = f"{what.fault}: the entry must name a vendor's directory, {path}/vendors/<vendor>"
    return Candidate(vendor=what, found_by=found_by, not_asked=why)


@dataclass(frozen=True, kw_only=True)
class Serving:
    """One operator: who serves it, and who else has it."""

    operator: str
    by: Candidate | None
    shadowed: tuple[Candidate, ...] = ()  # asked for nothing: a vendor before them has the operator
    not_asked: tuple[Candidate, ...] = ()


def serving(found: tuple[Candidate, ...]) -> tuple[Serving, ...]:
    names = sorted({name for c in found for name in c.vendor.operators})
    return tuple(_serving(name, found) for name in names)


def _serving(operator: str, found: tuple[Candidate, ...]) -> Serving:
    having = [c for c in found if operator in c.vendor.operators]
    asked = [c for c in having if not c.not_asked]
    first = asked[0] if asked else None
    # one directory that both variables name is no conflict
    others = [c for c in asked[1:] if first and os.path.realpath(c.vendor.path) != os.path.realpath(first.vendor.path)]
    return Serving(
        operator=operator, by=first, shadowed=tuple(others), not_asked=tuple(c for c in having if c.not_asked)
    )


def conflicts(found: tuple[Candidate, ...]) -> tuple[Serving, ...]:
    """The operators that two asked vendors have: the runtime takes the first and says nothing."""
    return tuple(s for s in serving(found) if s.shadowed)


def which(found: tuple[Candidate, ...], name: str) -> Serving | None:
    """By the type (AddCustom), the function (aclnnAddCustom) or the snake form (add_custom)."""
    return next((s for s in serving(found) if operator_name(s.operator) == operator_name(name)), None)
