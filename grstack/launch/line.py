"""A command line to be read and typed: an option a line, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def shell_line(words: Sequence[str], image: str) -> str:
    """`words` are the engine's, its options, `image` and the command; options stand on lines of their own."""
    place = list(words).index(image)
    lines = [shlex.join(words[:2]), *(shlex.quote(word) for word in words[2:place]), shlex.join(words[place:])]
    return " \\\n    ".join(lines)
