"""Tasks by name.

To add one: a module here with its Task and Batch (base.py), its line in TASKS, its name in TASKS of
gr_model/config/settings.py, its baseline in baselines.py. tests/test_registries.py walks these places.
"""

from __future__ import annotations

from gr_model.tasks.ranking import Ranking
from gr_model.tasks.retrieval import Retrieval

TASKS: dict[str, type[Retrieval] | type[Ranking]] = {"retrieval": Retrieval, "ranking": Ranking}
