"""``unskew models``, and the page about models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from unskew.cli import main
from unskew.cli.models import _list
from unskew.expression import signature
from unskew.models import MODELS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"


def test_lists_every_model_with_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for model in MODELS.values():
        (line,) = [text for text in lines if text.startswith(signature(model) + " ")]
        assert f"{model.size:,}" in line
        assert "x".join(map(str, model.native)) in line


def test_lists_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    sizes = {model["name"]: model["parameters"] for model in told["models"]}
    assert sizes == {name: model.size for name, model in MODELS.items()}
    assert told == _list(None, None)  # what models say of themselves is what they are when they are made


def test_says_which_models_cannot_take_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--shape", "9x128", "--classes", "6", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    fits = [model["name"] for model in told["models"] if model["parameters"] is not None]
    assert fits == ["linear", "mlp"]
    assert main(["models", "--shape", "9x128"]) == 0
    assert "'-' cannot take such samples: small_cnn takes images" in capsys.readouterr().out


def test_shows_where_a_model_can_be_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """The McMahan CNN: 32x14x14 after the first convolution, whose 832 parameters lie below."""
    assert main(["models", "mcmahan_cnn", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["parameters"] == 1_663_370
    assert told["layers"] == [
        {"layer": "conv1", "activation": [32, 14, 14], "parameters_below": 832},
        {"layer": "conv2", "activation": [64, 7, 7], "parameters_below": 832 + 51_264},
        {"layer": "dense", "activation": [512], "parameters_below": 1_663_370 - 5_130},
    ]
    assert told["feature_layer"] == "dense"


def test_shows_an_expression_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "mlp(hidden=[10, 5])", "--shape", "4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("mlp(hidden=[10, 5])")
    assert "dense2 (the feature)" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["resnet"], "error: there is no model 'resnet'; did you mean 'resnet9' or 'lenet' or 'harnet'?"),
        (["a.b:C"], "error: for which samples? add their shape to a.b:C, e.g. --shape 1x28x28"),
        (["--shape", "3x"], "error: --shape is whole numbers joined by x, such as 1x28x28, not '3x'"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", *words]) == 2
    assert capsys.readouterr().err.strip() == sentence


def test_shows_ones_own_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of them: one that can be cut and one that says what it lacks."""
    (tmp_path / "own_zoo.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def chain(classes): return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, classes))\n"
        "class Bare(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(16, 3)\n"
        "    def forward(self, x): return self.fc(x.flatten(1)).tanh()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["models", "own_zoo:chain", "--shape", "1x4x4", "--classes", "3"]) == 0
    assert "2 (the feature)" in capsys.readouterr().out
    assert main(["models", "own_zoo:Bare", "--shape", "1x4x4", "--classes", "3"]) == 0
    assert "It has no layers to cut it at" in capsys.readouterr().out


def test_the_pages_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["gradients"]


def test_the_pages_table_is_what_there_is() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| .* \| (\S+) \| ([\d,]+) \| (.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [
        (signature(m), "x".join(map(str, m.native)), f"{m.size:,}", f"{m.paper} " if m.paper else "")
        for m in MODELS.values()
    ]
