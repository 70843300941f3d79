"""Print the JSON schema of versions.yaml, or write it to its file with --write."""

import sys

from grstack.spec._schema import SCHEMA_FILE, schema_text

if "--write" in sys.argv[1:]:
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
else:
    sys.stdout.write(schema_text())
