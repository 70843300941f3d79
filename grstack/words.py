"""Words after a task's name, for options that may also be left out: `inv opp which X`.

Invoke has positional arguments too, but each of them must then be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def spell_out(tokens: Sequence[str], words: Mapping[str, Sequence[str]]) -> list[str]:
    """`words` names for each task the options that the words after it stand for."""
    done: list[str] = []
    waiting: list[str] = []
    for token in tokens:
        if token.startswith("-"):
            waiting = []  # the next word may be an option's value
        if waiting:
            done.append(f"--{waiting.pop(0)}={token}")
        else:
            done.append(token)
            waiting = list(words.get(token, ())) if not done[:-1] else waiting
    return done
