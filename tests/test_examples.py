"""The examples' texts: made by a seed, in two forms that share few words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.stories import pairs, story

ROOT = Path(__file__).resolve().parent.parent


def test_stories_are_the_same_each_time() -> None:
    assert story(20) == story(20) != story(20, seed=3)
    assert len([line for line in story(20).splitlines() if line]) == 20


def test_pairs_say_the_same_in_other_words() -> None:
    made = pairs(200)
    assert len(set(made)) > 190
    small = {"the", "a", "at", "of", "to", "in", "by", "on", "his"}
    for one, other in made:
        words, others = ({word.strip(".,").lower() for word in text.split()} - small for text in (one, other))
        assert len(words & others) <= 2


@pytest.mark.slow
def test_three_trainings_learn() -> None:
    script = ROOT / "examples" / "train_tiny.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in done.stdout.splitlines() if "→" in line]
    losses = [line.split(" in ")[0].split(" → ") for line in lines]
    assert len(losses) == 3
    assert all(float(after) < 0.7 * float(before) for before, after in losses)
    shares = [int(line.split(": ")[1].rstrip("%")) for line in done.stdout.splitlines() if "is nearest" in line]
    assert shares[0] < 20 < 90 < shares[1]
