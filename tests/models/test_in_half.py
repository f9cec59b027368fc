"""Models that compute in bf16 while something of them stays in float32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unskew.core.method import Method
from unskew.core.net import Net
from unskew.engines.gpu.fast import FastGPU
from unskew.models import build
from unskew.testing.toy_federation import apart, play


class Frozen(nn.Module):
    """Its first layer is as it was trained elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(36, 8), nn.Linear(8, 3)
        self.first.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.first(x.flatten(1))))


class FrozenFilters(nn.Module):
    """Filters, and a batch norm whose weights are not trained either."""

    def __init__(self) -> None:
        super().__init__()
        self.filters, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(64, 3)
        self.filters.requires_grad_(False)
        self.norm.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.norm(self.filters(x))).flatten(1))


class Words(nn.Module):
    """Rows of pixels as words, with a table of where they stand, as text models have it."""

    def __init__(self, persistent: bool = True) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(40, 8), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
        places = torch.linspace(0, 1, 6).unsqueeze(1).expand(6, 8).clone()
        self.register_buffer("places", places, persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        words = (10 * x.flatten(1)[:, 12:18] + 20).long().clamp(0, 39)
        return self.out(self.layer(self.table(words) + self.places).mean(1))


def frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Frozen()


def frozen_filters(shape: tuple[int, ...], classes: int) -> nn.Module:
    return FrozenFilters()


def words(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Words()


def words_of_a_fleeting_table(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Words(persistent=False)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("stack", [True, False])
@pytest.mark.parametrize("model", [frozen, frozen_filters, words, words_of_a_fleeting_table])
def test_models_of_which_something_stays_in_float32_are_trained_in_bf16(model: object, stack: bool) -> None:
    """As in float32, but for the digits that bf16 has not; they ended in an error of torch's about types."""
    given = {"model": model, "rounds": 1, "lr": 0.01}
    engine = FastGPU("cpu", precision="bf16", capture=False, stack=stack)
    found = play(Method.parse("fedavg"), engine=engine, precision="bf16", **given)
    plain = play(Method.parse("fedavg"), precision="fp32", **given)
    start = play(Method.parse("fedavg"), precision="fp32", **given | {"lr": 1e-9})
    moved = apart(plain.state.params, start.state.params)
    assert apart(plain.state.params, found.state.params) < 0.2 * moved


@pytest.mark.parametrize("beside", [0, 1])
def test_samples_that_name_rows_of_a_table_are_not_rounded(beside: int) -> None:
    """Of whole numbers above 256 bf16 knows every second one: row 257 would be 256. Numbers beside them are rounded."""

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(1000, 6), nn.Linear(6 + beside, 3)

        def forward(self, x: Tensor) -> Tensor:
            seen = self.table(x[:, :4].long().clamp(0, 999)).mean(1)
            return self.out(torch.cat([seen, x[:, 4:]], 1))

    net = Net(build(Rows(), (4 + beside,), 3, 0)).halved()
    assert not net.rounds_samples
    params = {k: v.clone().requires_grad_() for k, v in net.initial.items()}
    x = torch.tensor([[257.0, 513, 999, 3, *[0.5] * beside]])
    (moved,) = torch.autograd.grad(net(params, x).sum(), params["module.table.weight"])
    assert moved.abs().sum(1).nonzero().flatten().tolist() == [3, 257, 513, 999]


def test_a_model_that_is_trained_whole_is_left_as_it_is() -> None:
    """Batch norm, whose averages are float32, takes any type by itself."""
    net = Net(build("resnet9", (3, 8, 8), 10, 0))
    assert net.halved().training is net.training
    assert net.halved().rounds_samples
