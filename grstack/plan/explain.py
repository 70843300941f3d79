"""Readings of a plan: what would be done (--dry-run), and from what each key is made (--explain)."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from grstack.plan.model import Plan


def show(plan: Plan, states: Mapping[str, str], console: Console) -> None:
    """The steps, their keys, and whether each would be built or is already there."""
    title = f"plan: {plan.target} on {plan.platform}, Python {plan.python}, {plan.arch}, base {plan.base}"
    table = Table(title=title, title_justify="left")
    for column in ("step", "state", "key", "needs", "what"):
        table.add_column(column, overflow="fold")
    for step in plan.steps:
        table.add_row(step.name, states.get(step.name, ""), step.short_key, " ".join(step.needs), step.summary)
    console.print(table)


def explain(plan: Plan, console: Console) -> None:
    """Every input of every key: change one of them and the step is built anew."""
    for step in plan.steps:
        console.print(f"[bold]{step.name}[/bold] {step.short_key}  {step.summary}", highlight=False)
        for label, digest in step.inputs:
            console.print(f"    {digest[:12]:<12}  {label}", highlight=False, soft_wrap=True)


def as_data(plan: Plan) -> dict[str, object]:
    """The plan as plain data, for golden tests and other programs."""
    return {
        "target": plan.target,
        "platform": plan.platform,
        "python": plan.python,
        "arch": plan.arch,
        "base": plan.base,
        "steps": [
            {
                "name": step.name,
                "kind": step.kind.value,
                "key": step.key,
                "needs": list(step.needs),
                "inputs": dict(step.inputs),
                "summary": step.summary,
            }
            for step in plan.steps
        ],
    }
