"""Every kind of model on a CPU beside a plain loop of PyTorch: ``python -m benchmarks.zoo lenet mlp --rounds 5``.

Rounds of each case are played in turn by our fast engine with one worker and with two, by our loop engine and by a
plain loop. The plain loop is what a careful script does: a copy of the model for each client, batches cut from a
shuffled tensor in memory, no DataLoader, the same optimiser of torch's. All have one thread a process. What is compared
is the processor's time, since machines are shared; with two workers it is the clock's. ``--list`` names the cases,
``--profile`` shows where the time of one worker goes, ``--other FOLDER`` plays another version's fast engine in turn.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unskew.bench.ours import Ours
from unskew.bench.table import align
from unskew.core.engine import Job, RunPlan
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.state import initial_state
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.loop import Loop
from unskew.models import build
from unskew.models.layers import BatchNorm, Dropout
from unskew.runs.move_images import with_moved_images

CLASSES, WORDS = 10, 1000
HERE = Path(__file__).parents[1]


class Text(nn.Module):
    """Words looked up, read by a layer, and the classes of what it says last."""

    def __init__(self, kind: str, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        if kind == "transformer":
            layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
            self.reader: nn.Module = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        else:
            self.reader = (nn.LSTM if kind == "lstm" else nn.GRU)(width, width, batch_first=True)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        read = self.reader(self.words(x.long().clamp(0, WORDS - 1)))
        return self.out(read[0][:, -1] if isinstance(read, tuple) else read.mean(1))  # type: ignore[no-any-return]


def lstm() -> nn.Module:
    return Text("lstm")


def gru() -> nn.Module:
    return Text("gru")


def transformer() -> nn.Module:
    return Text("transformer")


class Branches(nn.Module):
    """A model with a forward pass of its own: two branches that see different scales, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 5, padding=2)
        self.both = nn.Conv2d(32, 32, 3, padding=1, stride=2)
        self.out = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.cat([torch.relu(self.near(x)), torch.tanh(self.far(x))], 1)
        seen = nn.functional.avg_pool2d(seen, 2)
        return self.out(torch.relu(self.both(seen)).mean((2, 3)))  # type: ignore[no-any-return]


def group_norm() -> nn.Module:
    """Filters with group norm, as many write them for federated data."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, CLASSES))


@dataclass(frozen=True)
class Case:
    """A model, its data, and how clients train."""

    model: str | Callable[[], nn.Module]
    shape: tuple[int, ...]
    samples: int  # a client's
    cohort: int  # all clients there are take part
    batch: int
    settings: dict[str, Any] = field(default_factory=dict)
    method: str = "fedavg"
    crop: int = 0

    @property
    def local(self) -> Local:
        return Local(**({"epochs": 1.0, "lr": 0.01} | self.settings), batch=self.batch)

    def federation(self) -> Federation:
        """Noise of the right shape, as pixels, readings or words."""
        rng = np.random.default_rng(0)
        count = self.samples * self.cohort
        kind = "image" if len(self.shape) == 3 else "vector"
        if callable(self.model) and len(self.shape) == 1:
            x = rng.integers(0, WORDS, (count, *self.shape)).astype(np.float32)
        elif kind == "image":
            x = rng.integers(0, 256, (count, *self.shape), dtype=np.uint8)
        else:
            x = rng.normal(size=(count, *self.shape)).astype(np.float32)
        y = rng.integers(0, CLASSES, count)
        scale = (127.5, 73.9) if kind == "image" else (0.0, 1.0)
        mean, std = (np.full(self.shape[0] if kind == "image" else 1, v, np.float32) for v in scale)
        labels = tuple(map(str, range(CLASSES)))
        held = Dataset("zoo", x, y, x[:CLASSES], y[:CLASSES], labels, kind=kind, mean=mean, std=std)
        return Federation(held, np.arange(count), np.arange(self.cohort + 1) * self.samples)


GREY, COLOUR = (1, 28, 28), (3, 32, 32)
NIID = {"momentum": 0.9, "weight_decay": 1e-5}
CASES = {
    "lenet, NIID-Bench": Case("lenet", GREY, 1000, 4, 64, NIID),
    "lenet, B=10": Case("lenet", GREY, 100, 10, 10),
    "lenet, colour": Case("lenet", COLOUR, 500, 4, 64, NIID),
    "lenet, crop and flip": Case("lenet", COLOUR, 500, 4, 64, NIID, crop=4),
    "moon_cnn": Case("moon_cnn", COLOUR, 500, 4, 64, NIID),
    "small_cnn, Adam": Case("small_cnn", COLOUR, 100, 10, 32, {"optimizer": "adam", "lr": 0.001}),
    "small_cnn, momentum": Case("small_cnn", COLOUR, 100, 10, 32, NIID),
    "small_cnn, B=256": Case("small_cnn", COLOUR, 512, 4, 256),
    "thesis_mnist, B=64": Case("thesis_mnist", GREY, 500, 10, 64, NIID),
    "thesis_cifar": Case("thesis_cifar", COLOUR, 100, 10, 32),
    "thesis_fashion": Case("thesis_fashion", GREY, 100, 10, 10),
    "mcmahan_cnn": Case("mcmahan_cnn", GREY, 100, 4, 10),
    "seol_kim_cnn": Case("seol_kim_cnn", COLOUR, 64, 4, 32),
    "resnet9": Case("resnet9", COLOUR, 64, 4, 8),
    "resnet9, B=64": Case("resnet9", COLOUR, 128, 2, 64, NIID),
    "mobilenet_v2": Case("mobilenet_v2", COLOUR, 64, 2, 64, {"optimizer": "adam", "lr": 0.001}),
    "vgg11": Case("vgg11", COLOUR, 64, 2, 32, NIID),
    "audionet": Case("audionet", (2, 64, 344), 64, 4, 32, {"optimizer": "adam", "lr": 0.001}),
    "harnet": Case("harnet", (1, 128, 3), 128, 4, 64, {"optimizer": "adam", "lr": 0.001}),
    "mlp": Case("mlp", GREY, 50, 40, 10),
    "mlp, five epochs": Case("mlp", GREY, 50, 40, 10, {"epochs": 5.0}),
    "mlp, momentum": Case("mlp", GREY, 50, 40, 10, NIID),
    "mlp, Adam": Case("mlp", GREY, 50, 40, 10, {"optimizer": "adam", "lr": 0.001}),
    "mlp, FedProx": Case("mlp", GREY, 50, 40, 10, method="fedprox(mu=0.1)"),
    "mlp, SCAFFOLD": Case("mlp", GREY, 50, 40, 10, method="scaffold"),
    "mlp, B=256": Case("mlp(hidden=[200, 200])", GREY, 1024, 10, 256),
    "mlp, 5 samples": Case("mlp", GREY, 5, 100, 10, {"epochs": 5.0}),
    "linear": Case("linear", GREY, 50, 40, 10),
    "linear on a table": Case("linear", (20,), 200, 20, 10),
    "mlp on a table": Case("mlp(hidden=[64, 32])", (20,), 200, 20, 32, {"momentum": 0.9}),
    "mlp on a table, Adam": Case(
        "mlp(hidden=[64, 32])", (20,), 200, 20, 32, {"optimizer": "adam", "lr": 0.001}
    ),
    "small_cnn, 5 samples": Case("small_cnn", COLOUR, 5, 20, 32, {"epochs": 5.0}),
    "group norm": Case(group_norm, COLOUR, 100, 10, 32),
    "own forward": Case(Branches, COLOUR, 100, 10, 32, {"momentum": 0.9}),
    "LSTM": Case(lstm, (40,), 100, 10, 32, {"lr": 0.1}),
    "GRU": Case(gru, (40,), 100, 10, 32, {"lr": 0.1}),
    "transformer": Case(transformer, (40,), 100, 10, 32, {"optimizer": "adam", "lr": 0.001}),
}


class Engines:
    """A case played by an engine of ours, a round after the other."""

    def __init__(self, case: Case, engine: Any):
        held = case.federation()
        net = Net(build(case.model, case.shape, CLASSES, 0))
        method = with_moved_images(Method.parse(case.method), case.crop, bool(case.crop))
        job = Job(method, Roster.of(held), net, case.local, 0)
        run = RunPlan(job, engine, rounds=999, cohort=case.cohort)
        engine.hold(Holdings(held))
        memories = {part.name: part.init_server(net) for part in method.parts}
        self.ours = Ours("fast", run, initial_state(dict(net.initial), memories, 0))

    def round(self) -> None:
        self.ours.round()

    def close(self) -> None:
        self.ours.close()


class Plain:
    """The same by a plain loop."""

    def __init__(self, case: Case):
        self.case, self.model = case, _as_torch_has_it(build(case.model, case.shape, CLASSES, 0))
        data = case.federation().dataset
        self.x = data.normalise(torch.from_numpy(data.x).float())
        self.y = torch.from_numpy(data.y)
        self.variates = [
            [torch.zeros_like(p) for p in self.model.parameters()] for _ in range(case.cohort + 1)
        ]

    def round(self) -> None:
        case, local = self.case, self.case.local
        total = {k: torch.zeros_like(v, dtype=torch.float32) for k, v in self.model.state_dict().items()}
        change: list[Tensor] = []
        server = self.variates[-1]  # SCAFFOLD's control variates: all clients', and the server's
        for client in range(case.cohort):
            own = self.variates[client]
            mine = copy.deepcopy(self.model).train()
            weights = list(mine.parameters())
            if local.optimizer == "adam":
                optimizer: Any = torch.optim.Adam(weights, lr=local.lr)
            else:
                decay = {"momentum": local.momentum, "weight_decay": local.weight_decay}
                optimizer = torch.optim.SGD(weights, lr=local.lr, **decay)
            places = torch.arange(client * case.samples, (client + 1) * case.samples)
            for _ in range(int(local.epochs or 1)):
                for some in places[torch.randperm(len(places))].split(case.batch):
                    optimizer.zero_grad()
                    loss = cross_entropy(mine(self._seen(self.x[some])), self.y[some])
                    if case.method.startswith("fedprox"):
                        pairs = zip(weights, self.model.parameters(), strict=True)
                        loss = loss + 0.05 * sum((w - a.detach()).square().sum() for w, a in pairs)
                    loss.backward()
                    if case.method.startswith("scaffold"):
                        for w, c, c_i in zip(weights, server, own, strict=True):
                            assert w.grad is not None
                            w.grad += c - c_i
                    optimizer.step()
            if case.method.startswith("scaffold"):
                moved = local.lr * int(local.epochs or 1) * -(-case.samples // case.batch)
                starts = list(self.model.parameters())
                with torch.no_grad():
                    fresh = [
                        c_i - c + (a - w) / moved
                        for c_i, c, a, w in zip(own, server, starts, weights, strict=True)
                    ]
                changes = [n - c_i for n, c_i in zip(fresh, own, strict=True)]
                change = [d + n for d, n in zip(change, changes, strict=True)] if change else changes
                self.variates[client] = fresh
            for name, value in mine.state_dict().items():
                total[name] += value / case.cohort
        self.model.load_state_dict(total)
        if change:
            self.variates[-1] = [c + d / case.cohort for c, d in zip(server, change, strict=True)]

    def close(self) -> None:
        pass

    def _seen(self, x: Tensor) -> Tensor:
        """Images moved and mirrored, where the case asks for it: as one does it for a whole batch."""
        if crop := self.case.crop:
            padded = nn.functional.pad(x, (crop,) * 4, mode="reflect")
            side = x.shape[-1]
            corners = torch.randint(0, 2 * crop + 1, (len(x), 2)).tolist()
            cut = [
                image[:, i : i + side, j : j + side] for image, (i, j) in zip(padded, corners, strict=True)
            ]
            x = torch.stack(cut)
            x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x)
        return x


def _as_torch_has_it(module: nn.Module) -> nn.Module:
    """The model with torch's own dropout and batch norm."""
    for name, child in module.named_children():
        if isinstance(child, Dropout):
            setattr(module, name, nn.Dropout(child.p))
        elif isinstance(child, BatchNorm):
            setattr(module, name, nn.BatchNorm2d(child.features))
        else:
            _as_torch_has_it(child)
    return module


def player(name: str, case: Case) -> Any:
    """Who plays a case: the plain loop, or an engine."""
    if name == "plain":
        return Plain(case)
    if name == "loop":
        return Engines(case, Loop())
    return Engines(case, FastCPU(int(name.removeprefix("fast ")), record=True))


class Player:
    """Whoever plays a case in this process."""

    def __init__(self, name: str, case: Case):
        self.played, self.by_clock = player(name, case), name == "fast 2"

    def rounds(self, count: int) -> float:
        """Seconds a round, of so many: of the processor, or of the clock where other processes have a part in it."""
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.played.round()
        spent = time.perf_counter() - clock if self.by_clock else time.process_time() - processor
        return spent / count

    def end(self) -> None:
        """Let it go."""
        self.played.close()


class Other:
    """Another version's fast engine, in a process of its own."""

    def __init__(self, case: str, tree: Path):
        command = [sys.executable, __file__, case, "--play"]
        path = {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(HERE)])}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | path)

    def rounds(self, count: int) -> float:
        """Seconds of the processor a round, of so many."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(count, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def play(case: Case) -> None:
    """The other version's side: so many rounds for each line that comes in."""
    one = Player("fast 1", case)
    for line in sys.stdin:
        print(one.rounds(int(line)), flush=True)


def compare(name: str, names: list[str], turns: int, seconds: float, other: Path | None) -> dict[str, float]:
    """Seconds a round of each, the median of so many turns; ``before`` is another version's engine."""
    players: dict[str, Player | Other] = {who: Player(who, CASES[name]) for who in names}
    if other is not None:
        players["before"] = Other(name, other)
    found: dict[str, list[float]] = {who: [] for who in players}
    counts = {}
    for who, one in players.items():
        one.rounds(2)  # in which steps are recorded
        counts[who] = max(1, round(seconds / one.rounds(1)))
    for _ in range(turns):
        for who, one in players.items():
            found[who].append(one.rounds(counts[who]))
    for one in players.values():
        one.end()
    medians = {who: median(times) for who, times in found.items()}
    for who in ("plain", "before"):
        if who in found and "fast 1" in found:
            pairs = zip(found[who], found["fast 1"], strict=True)
            medians[f"{who} / fast 1"] = median(theirs / ours for theirs, ours in pairs)
    return medians


def profiled(name: str, rows: int) -> str:
    """What one worker's round of a case spends its time on."""
    played = player("fast 1", CASES[name])
    for _ in range(3):
        played.round()
    began = time.process_time()
    for _ in range(3):
        played.round()
    plain = (time.process_time() - began) / 3
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        began = time.process_time()
        played.round()
        slowed = time.process_time() - began
    events = sorted(seen.key_averages(), key=lambda e: -e.self_cpu_time_total)
    lines = [
        [e.key.removeprefix("aten::"), f"{e.self_cpu_time_total / 1e4 / slowed:.1f}%", f"{e.count:,}"]
        for e in events[:rows]
    ]
    inside = sum(e.self_cpu_time_total for e in events) / 1e6
    lines.append(["all operations", f"{100 * inside / slowed:.1f}%", f"{sum(e.count for e in events):,}"])
    head = f"{name}: {played.ours.about}; {plain:.3f} s of the processor a round, {slowed:.3f} while profiled"
    return "\n".join([head, *align(["", "of the time", "calls"], lines)])


def main() -> int:
    """Print samples a second of each, and how many times the plain loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", help="those whose names begin so; all without any")
    parser.add_argument("--rounds", type=int, default=5, help="turns that are counted")
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long a turn takes")
    parser.add_argument("--who", default="fast 1,fast 2,loop,plain")
    parser.add_argument("--other", type=Path, help="the folder of another version, played in turn")
    parser.add_argument("--profile", type=int, metavar="ROWS", help="show where the time goes instead")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=Path, help="also write what was found there")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.play:
        play(CASES[given.cases[0]])
        return 0
    names = [n for n in CASES if not given.cases or any(n.startswith(c) for c in given.cases)]
    if given.list:
        print("\n".join(names))
        return 0
    everything = {}
    who = given.who.split(",")
    shown = [*who, *(["before"] if given.other else [])]
    ratios = [
        r for r in ("plain / fast 1", "before / fast 1") if r.split(" /")[0] in shown and "fast 1" in who
    ]
    for name in names:
        if given.profile:
            print(profiled(name, given.profile), flush=True)
            continue
        case = CASES[name]
        found = compare(name, who, given.rounds, given.seconds, given.other)
        samples = case.samples * case.cohort * float(case.local.epochs or 1)
        everything[name] = {w: samples / found[w] for w in shown} | {r: found[r] for r in ratios}
        rates = "".join(f"{w} {everything[name][w]:>9,.0f}  " for w in shown)
        print(f"{name:24}{rates}" + "  ".join(f"{r} {found[r]:.2f}" for r in ratios), flush=True)
        if given.json:
            given.json.write_text(json.dumps(everything, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
