"""Hash tables against a model made of Python dicts: trained, evicted, saved, killed and loaded in any order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from saved_states import Training

TestTraining = Training.TestCase
TestTraining.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
