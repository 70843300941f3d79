"""The vendor manager's answers as tables and pictures."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from grstack.opp.scan import State
from grstack.opp.search import Candidate, Serving, conflicts
from grstack.opp.verify import Problem

_STYLES = {"error": "bold red", "note": "cyan"}


def vendors(state: State, place: str, console: Console) -> None:
    """Every vendor in the order in which the runtime asks them."""
    table = Table(title=f"vendors of {place}, in search order", title_justify="left")
    for column in ("", "vendor", "package", "built by", "SoCs", "operators", "found by"):
        table.add_column(column, overflow="fold")
    rank = 0
    for candidate in state.found:
        vendor = candidate.vendor
        rank += not candidate.not_asked
        why = Text(f"not asked: {candidate.not_asked}", style="yellow")
        # Text, not str: paths may hold brackets, which rich would read as markup
        cells = (
            Text("-" if candidate.not_asked else str(rank)),
            Text(vendor.name),
            Text(f"{vendor.package} {vendor.version}".strip() or "unknown"),
            Text(vendor.compiler or "unknown"),
            Text("\n".join(vendor.socs)),
            Text("\n".join(vendor.operators)),
            why if candidate.not_asked else Text(candidate.found_by),
        )
        table.add_row(*cells)
    console.print(table)
    for serving in conflicts(state.found):
        console.print(Text(f"conflict: {_sentence(serving)}", style="bold red"))


def _sentence(serving: Serving) -> str:
    assert serving.by is not None
    others = ", ".join(other.vendor.name for other in serving.shadowed)
    return f"{serving.operator} is taken from {serving.by.vendor.name}; {others} is never asked for it"


def serving(answer: Serving, console: Console) -> None:
    """Who serves one operator, and why the others do not."""
    tree = Tree(Text(answer.operator, style="bold"))
    if answer.by is None:
        tree.add(Text("no vendor serves it", style="bold red"))
    else:
        branch = tree.add(Text(f"served by {answer.by.vendor.name}", style="green"))
        _facts(branch, answer.by)
        branch.add(Text(f"because {answer.by.found_by} is the first place searched that has it"))
    for other in answer.shadowed:
        branch = tree.add(Text(f"{other.vendor.name} has it and is never asked", style="bold red"))
        _facts(branch, other)
        branch.add(Text(f"because {other.found_by} comes later"))
    for other in answer.not_asked:
        branch = tree.add(Text(f"{other.vendor.name} has it and is not asked", style="yellow"))
        _facts(branch, other)
        branch.add(Text(f"because {other.not_asked}"))
    console.print(tree)


def _facts(branch: Tree, candidate: Candidate) -> None:
    vendor = candidate.vendor
    branch.add(Text(vendor.path))
    branch.add(Text(f"{vendor.package or 'unknown package'} {vendor.version}, built by {vendor.compiler or 'unknown'}"))


def problems(found: tuple[Problem, ...], place: str, count: int, console: Console) -> None:
    if found:
        table = Table("vendor", "", "finding", "remedy", title=f"vendors of {place}", title_justify="left")
        for problem in found:
            style = _STYLES[problem.severity]
            cells = (problem.vendor, problem.severity, problem.message, problem.remedy)
            table.add_row(*(Text(cell, style=style if column == 1 else "") for column, cell in enumerate(cells)))
        console.print(table)
    errors = sum(problem.severity == "error" for problem in found)
    if errors:
        console.print(f"[bold red]{errors} of the findings must be mended[/bold red]")
    elif found:
        console.print(f"[green]no fault in {count} vendors[/green]; the notes say what was not checked")
    else:
        console.print(f"[green]{count} vendors are sound[/green]")
