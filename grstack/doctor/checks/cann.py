"""Is CANN here, in the version that the pinned torch_npu pairs with? It is needed outside containers only."""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok, warning


def check(facts: Facts) -> Finding:
    state = facts.cann()
    if state is None:
        return note("no CANN on this machine: images bring it, platform twin does without")
    target = facts.versions.targets["npu"]
    wanted = target.platforms["cann"].cann if target.platforms and "cann" in target.platforms else None
    if state.version is None:
        return warning(f"CANN at {state.home} has no readable version", "install it anew, or unset ASCEND_HOME_PATH")
    if wanted and not _same(state.version, wanted):
        bases = facts.versions.bases.items()
        if base := next((name for name, base in bases if base.cann and _same(state.version, base.cann)), None):
            return ok(f"CANN {state.version} at {state.home}: build for it with --platform cann --base {base}")
        return warning(
            f"CANN {state.version} at {state.home}, the pinned torch_npu pairs with {wanted}",
            f"install CANN {wanted}, or build in a container: inv build-image --target npu --platform cann",
        )
    return ok(f"CANN {state.version} at {state.home}")


def _same(found: str, wanted: str) -> bool:
    """CANN writes 8.3.RC1 and 8.3.0.1.200 for one release; only the first form names a candidate."""
    if "RC" in found.upper():
        return found.upper().startswith(wanted.upper())
    return found.split(".")[:2] == wanted.split(".")[:2]
