"""Shells complete commands, flags and names, fast and without torch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unskew.cli import completion, main
from unskew.cli.settings import WORDS
from unskew.core.decay import DECAYS
from unskew.data.partition import FAMILIES
from unskew.data.partition import PRESETS as SPLITS
from unskew.data.sources import SOURCES
from unskew.models import MODELS
from unskew.network import NETWORKS
from unskew.parts import PARTS, PRESETS


@pytest.fixture
def completed(monkeypatch, capsys):
    """What bash is offered for the last word of a line."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_UNSKEW_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        with pytest.raises(SystemExit):
            main([])
        return capsys.readouterr().out.split()

    return complete


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("unskew me", ["methods", "metrics"]),
        ("unskew run --data", ["--dataset", "--data-folder"]),
        ("unskew run --dataset cifar", ["cifar10", "cifar100"]),
        ("unskew run --method scaff", ["scaffold"]),
        ("unskew run --method scaffold+fedprox(mu=0.1)+sca", []),
        ("unskew sweep grid.toml --model thesis_", ["thesis_mnist", "thesis_fashion", "thesis_cifar"]),
        ("unskew run --partition limit", ["limit_labels", "limit_labels_q"]),
        ("unskew run --optimizer ", ["sgd", "adam"]),
        ("unskew run --measure g", ["gamma"]),
        ("unskew diagnose fash", ["fashion_mnist"]),
        ("unskew diagnose digits --partition dac", ["daca"]),
        ("unskew partition digits sha", ["shards"]),
        ("unskew methods 2p", ["2p_fedaug"]),
        ("unskew models res", ["resnet9"]),
        ("unskew datasets uc", ["uci_har"]),
        ("unskew report runs --format la", ["latex"]),
    ],
)
def test_names_are_completed(completed, line, wanted):
    """Of what a command takes at that place; a part that a sum has is not offered again."""
    assert completed(line) == wanted


@pytest.mark.parametrize(
    ("complete", "registered"),
    [
        (completion.methods, {**PARTS, **PRESETS}),
        (completion.datasets, SOURCES),
        (completion.models, {**MODELS, "auto": None}),
        (completion.partitions, {**FAMILIES, **SPLITS}),
    ],
)
def test_what_is_offered_is_what_there_is(complete, registered):
    """Read from the source files, it is the registries' content, each with a line of what it is."""
    assert sorted(name for name, _ in complete("")) == sorted(registered)
    assert all(about for _, about in complete(""))


def test_other_words_are_those_of_their_registries():
    """Schedules of the learning rate and networks."""
    assert sorted(WORDS["decay"]) == sorted(DECAYS)
    assert sorted(WORDS["network"]) == sorted(NETWORKS)


def test_completing_loads_neither_torch_nor_numpy():
    """A shell asks at every Tab."""
    code = (
        "import sys, unskew.cli\n"
        "try: unskew.cli.main([])\n"
        "except SystemExit: print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    asked = {"_UNSKEW_COMPLETE": "complete_bash", "COMP_WORDS": "unskew run --method se", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["sem", "server_sgd", "seol_kim", "False", "False"]


def test_the_script_for_a_shell_is_shown(capsys, monkeypatch):
    """And ``--install-completion`` puts it where the shell reads it."""
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    with pytest.raises(SystemExit):
        main(["--show-completion"])
    assert "complete -o default -F _unskew_completion unskew" in capsys.readouterr().out
