"""Why a case fails: what is known, by its error or its operator; otherwise the error speaks for itself."""

from __future__ import annotations

import re

from .tally import Row

BY_ERROR: tuple[tuple[str, str], ...] = ()
BY_OPERATOR: tuple[tuple[str, str], ...] = ()


def reason(row: Row) -> str:
    error = row.error()
    for pattern, text in BY_OPERATOR:
        if re.fullmatch(pattern, row.op):
            return text
    for pattern, text in BY_ERROR:
        if re.search(pattern, error):
            return text
    return error
