"""benchmarks/evidence.yaml: the committed results, what each speaks of, and what renews it."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from grstack.errors import SpecError
from grstack.evidence.measured import pinned

TABLE = "benchmarks/evidence.yaml"
RESULTS = "benchmarks/results"
EDIT = f"${{EDITOR:-vi}} {TABLE}"
IMAGE, HOST = "image", "host"


class Evidence(BaseModel):
    """One result: the files FOLDER/NAME.*."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    sources: tuple[str, ...]
    where: str = IMAGE
    needs: str = ""  # a data set of `inv fetch-data`
    environment: dict[str, str] = {}  # paths from the root
    folder: str = RESULTS

    @property
    def runs_here(self) -> bool:
        return self.where in (IMAGE, HOST)


def load(root: Path) -> dict[str, Evidence]:
    file = root / TABLE
    try:
        found = TypeAdapter(dict[str, Evidence]).validate_python(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise SpecError(f"{TABLE} cannot be read: {error}", where=str(file), next_command=EDIT) from error
    for name, one in found.items():
        for source in one.sources:
            if not (root / source).exists() and not pinned(root, source):
                raise SpecError(f"{name} speaks of {source}, which is not there", where=str(file), next_command=EDIT)
    return found


def files_of(root: Path, name: str, folder: str = RESULTS) -> list[Path]:
    """The committed files of a result."""
    return sorted(
        file for file in (root / folder).glob(f"{name}.*") if file.suffix in (".json", ".md", ".html", ".csv")
    )
