"""Does the PyTorch index answer? Without it the plain wheel of torch is used, which brings CUDA's libraries."""

from __future__ import annotations

from grstack.doctor.facts import Facts
from grstack.doctor.finding import Finding, note, ok


def check(facts: Facts) -> Finding:
    problem = facts.torch_index_problem()
    if problem is None:
        return ok("the cpu wheel of torch can be had")
    return note(
        f"no index gives the cpu wheel of torch, the plain one is used: {problem}",
        "to use a mirror of the PyTorch index, set torch_index_url in ~/.config/grstack/network.yaml",
    )
