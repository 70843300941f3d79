"""The name of an operator in its two spellings, and which names will do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grstack.errors import UsageError

LONGEST = 40
_WORDS = re.compile(r"[a-z][a-z0-9]+(_[a-z][a-z0-9]+)+")


@dataclass(frozen=True)
class Name:
    snake: str  # folders, files, the torch operator, the kernel's entry
    camel: str  # the operator's type: OP_ADD(...), aclnn<camel>

    @classmethod
    def parse(cls, text: str) -> Name:
        """Raises UsageError for what cannot be a folder, a C++ namespace and a kernel's entry at once.

        Two words at least: a kernel's entry is a plain C symbol, and one word may be libc's (`round`). A word begins
        with a letter and has two characters, so that the operator builders read the same name from the type.
        """
        if not _WORDS.fullmatch(text) or len(text) > LONGEST:
            raise UsageError(
                f"'{text}' cannot name an operator; expected two or more words of two or more lower case letters and "
                f"digits, joined by _, each beginning with a letter, {LONGEST} characters at most",
                next_command="inv new operator segment_sum --dry-run",
            )
        camel = "".join(part.capitalize() for part in text.split("_"))
        return cls(text, camel)
