"""The token that a server asks for: from a file or the environment, never from a command line, which everybody sees."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

VARIABLE = "HYBRID_TORCHREC_TOKEN"
_SHORTEST = 16
_HOW = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'


def read_token(file: str | os.PathLike[str] | None = None) -> str | None:
    """The token in `file`, or in $HYBRID_TORCHREC_TOKEN; None if neither is given.

    Raises ValueError for both, for a file that others may read, and for what is no token.
    """
    given = os.environ.get(VARIABLE)
    if file is None:
        return None if given is None else _checked(given, f"${VARIABLE}")
    if given is not None:
        raise ValueError(f"a token in {file} and one in ${VARIABLE}; give one of them (`unset {VARIABLE}`)")
    path = Path(file)
    try:
        if stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO:
            raise ValueError(f"{path}: every user of this machine may open it; chmod o= {path}")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot read the token ({error}); make one: (umask 077; {_HOW} > {path})") from error
    return _checked(text.strip(), str(path))


def header(token: str) -> str:
    """The value of Authorization."""
    return f"Bearer {token}"


def agrees(token: str, given: str | None) -> bool:
    """Whether `given`, an Authorization header, has `token`; the time that it takes says nothing of the token."""
    return hmac.compare_digest(header(token).encode(), (given or "").encode())


def _checked(token: str, where: str) -> str:
    if len(token) < _SHORTEST or not all("!" <= letter <= "~" for letter in token):
        raise ValueError(
            f"{where}: not a token: {_SHORTEST} or more characters of ASCII without spaces; make one: {_HOW}"
        )
    return token
