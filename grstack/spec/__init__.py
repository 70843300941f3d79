"""versions.yaml as frozen, validated models. All faults are reported at once, each with its line."""

from grstack.spec._faults import Fault
from grstack.spec._load import load, loads
from grstack.spec._models import (
    BESIDE,
    GLUON,
    NOTEBOOK,
    PLATFORMS,
    SWEEPS,
    TARGETS,
    Base,
    BesideName,
    Compatibility,
    Dataset,
    FileData,
    Operator,
    Platform,
    Target,
    Tools,
    Unsupported,
    Variant,
    Versions,
    WheelData,
)
from grstack.spec._schema import schema_text

__all__ = [
    "BESIDE",
    "GLUON",
    "NOTEBOOK",
    "SWEEPS",
    "PLATFORMS",
    "TARGETS",
    "Base",
    "BesideName",
    "Compatibility",
    "Dataset",
    "Fault",
    "FileData",
    "Operator",
    "Platform",
    "Target",
    "Tools",
    "Unsupported",
    "Variant",
    "Versions",
    "WheelData",
    "load",
    "loads",
    "schema_text",
]
