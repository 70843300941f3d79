"""The JSON schema of versions.yaml, generated from the models: `python -m grstack.spec --write`."""

from __future__ import annotations

import json
from pathlib import Path

from grstack.spec._models import Versions

SCHEMA_FILE = Path(__file__).with_name("versions.schema.json")


def schema_text() -> str:
    schema = Versions.model_json_schema(by_alias=True)
    # YAML readers see the number 1 where the toolchain, which keeps scalars as text, sees "1"
    schema["properties"]["schema"] = {"const": 1, "title": "Schema"}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "versions.yaml", **schema}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
