"""Figures of committed results in pages: those that the results have, and not those of a run before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import figures
import pytest
import sentences
from sentences import ROOT, SENTENCES, Sentence

WRITE = "python tests/unit/sentences.py writes them anew; read what stands around"


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence.text[:50])
def test_the_page_has_the_figures_of_the_result(sentence: Sentence) -> None:
    page = (ROOT / sentence.page).read_text(encoding="utf-8")
    there = {name: page[begin:end] for name, begin, end in sentences.places(sentence, page)}
    values = sentence.values(ROOT)
    assert there == {name: values[name] for name in there}, WRITE


def test_new_results_are_written_into_the_pages(tmp_path: Path) -> None:
    for page in {sentence.page for sentence in SENTENCES}:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    shutil.copytree(ROOT / figures.RESULTS, tmp_path / figures.RESULTS)
    file = tmp_path / figures.RESULTS / "twin-cost.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "ratio": 1.234}))
    before = (tmp_path / "benchmarks/README.md").read_text()
    sentences.main(tmp_path)
    after = (tmp_path / "benchmarks/README.md").read_text()
    assert "costs 1.234 times the CPU's; 1.5 was asked: reached" in after and "costs 1.234 times" not in before
    assert (tmp_path / "docs/training.md").read_text() == (ROOT / "docs/training.md").read_text()


def test_a_sentence_that_is_gone_is_told() -> None:
    with pytest.raises(ValueError, match="page.md has 0 times: it takes {a} ms"):
        list(sentences.places(Sentence("page.md", "it takes {a} ms", lambda root: {}), "it took 3 ms"))


def test_the_smoke_test_s_figures_are_of_its_own_steps_and_targets(tmp_path: Path) -> None:
    ours = figures.smoke_settings()
    assert ours.endswith(" train.steps=600") and "train.lr=5e-3" in ours
    other = ours.replace("steps=600", "steps=800")
    rows = [(ours, "test", 2.7), (ours, "test", 2.9), (other, "test", 2.1), (other, "test", 2.2)]
    rows += [(ours, "validation", 1.0)]
    file = tmp_path / figures.RESULTS / "smoke-quality.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([{"settings": s, "targets": t, "average": value} for s, t, value in rows]))
    assert figures.smoke_quality(tmp_path) == {"seeds": "2", "least": "2.70", "below": f"{2.8 - 3 * 0.1 * 2**0.5:.2f}"}


def test_figures_with_exponents_are_found() -> None:
    sentence = Sentence("page.md", "{a} is asked, reached; the largest is {b} (lamb)", lambda root: {})
    page = "1e-6 is asked, reached; the largest is 7.3e-07 (lamb)"
    assert [page[begin:end] for _, begin, end in sentences.places(sentence, page)] == ["1e-6", "7.3e-07"]
