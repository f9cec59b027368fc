"""Gradient inversion: samples that would have made the same update, found by gradient descent on the samples.

``cosine`` is Geiping et al. (NeurIPS 2020): the angle between the update and the dummy's gradient, with total
variation, by Adam on the signs. ``dlg`` is Zhu et al. (NeurIPS 2019): squared distance by L-BFGS, labels found along
the way. Both look at what every method sends, a model update, so that sharing "nothing but updates" is judged too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unskew.core.held import Held, Moment
from unskew.core.ledger import Ledger
from unskew.core.measure import ask_to_measure, model_bytes
from unskew.core.net import Net
from unskew.core.query import ClientView
from unskew.core.roster import Roster
from unskew.core.slots import Prepare
from unskew.core.types import Leg, Tree
from unskew.core.upload import decode_update
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.privacy.quality import judge_likeness, match_samples
from unskew.privacy.subject import Subject
from unskew.seeds import generator


@dataclass(frozen=True)
class Inversion:
    """How the attacker searches.

    rule: ``cosine`` or ``dlg``.
    steps, lr: of the search; the rate falls tenfold after 3/8, 5/8 and 7/8 of the steps, as in Geiping et al.
    smooth: the weight of total variation, of ``cosine``.
    images: how many clients are attacked that take one step on one sample, the easiest prey there is.
    most: of a client's own training at most this many samples are searched for.
    """

    rule: Literal["cosine", "dlg"] = "cosine"
    steps: Annotated[int, AtMost(1_000_000)] = 1000
    lr: float = 0.1
    smooth: float = 0.01
    images: Annotated[int, AtMost(10_000)] = 4
    most: Annotated[int, AtMost(10_000)] = 16

    def __post_init__(self) -> None:
        for name in ("steps", "images", "most"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of the inversion must be at least 1, not {getattr(self, name)}")

    @property
    def work(self) -> int:
        return self.steps * (self.images + 1)


@dataclass
class Inverted:
    """What was found in updates: numbers, and pairs to look at."""

    record: dict[str, Any]
    originals: Tensor
    found: Tensor


def invert(
    subject: Subject,
    how: Inversion | None = None,
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> Inverted:
    """Attack updates of the run's own method at its last model: one step on one sample, and a whole visit.

    The clients train for real, with every part of the method, on the run's engine; the attacker has the model they
    started from and their update. Labels it reads off the update itself.
    """
    how = how or Inversion()
    began = time.perf_counter()
    roster = subject.setup.job.roster
    holders = np.flatnonzero(roster.sizes > 0)
    rng = generator(seed, "inversion", "clients")
    chosen = rng.choice(holders, min(how.images, len(holders)), replace=False)
    singles = [_attack(subject, int(c), how, seed, advance, alone=True) for c in chosen]
    smallest = int(holders[np.argmin(roster.sizes[holders])])
    whole = _attack(subject, smallest, how, seed, advance, alone=False)
    originals, found = (torch.cat([s[k] for s in singles]) for k in ("originals", "found"))
    local = subject.setup.job.local
    record = {
        "rule": how.rule,
        "steps": how.steps,
        "one_step_one_sample": judge_likeness(found, originals)
        | {
            "clients": len(singles),
            "labels_found": float(np.mean([s["labels_found"] for s in singles])),
            "labels_by_chance": 1 / subject.dataset.classes,
            "best_psnr": max(s["quality"]["psnr"] for s in singles),
        },
        "whole_visit": whole["quality"]
        | {
            "client": smallest if roster.names is None else roster.name_of(smallest),
            "samples": int(roster.sizes[smallest]),
            "searched": len(whole["originals"]),
            "batch": local.batch,
            "epochs": local.epochs,
            "labels_found": whole["labels_found"],
            "labels_by_chance": whole["labels_by_chance"],
            "blind": whole["blind"],
        },
        "blind": judge_likeness(_mean(subject).expand_as(originals), originals),
        "wall_s": round(time.perf_counter() - began, 2),
    }
    return Inverted(record, torch.cat([originals, whole["originals"]]), torch.cat([found, whole["found"]]))


def _attack(
    subject: Subject, client: int, how: Inversion, seed: int, advance: Callable[[int], None], *, alone: bool
) -> dict[str, Any]:
    """One client's update and what comes out of it."""
    base, gradient, held = observe_update(subject, client, alone)
    labels = held.y
    guessed = read_labels(subject, base, gradient, len(held))
    rng = generator(seed, "inversion", "start", client, int(alone))
    some = torch.from_numpy(np.sort(rng.permutation(len(held))[: how.most])).to(subject.device)
    x = search(subject, base, gradient, guessed[some], how, rng, advance)
    found = subject.unit(x).float().cpu()
    held_by_it = subject.unit(held.x).float().cpu()
    # which is meant is not known: each is held against the original that it is most like, and so are guesses
    originals = held_by_it[torch.from_numpy(match_samples(held_by_it, found))]
    evenly = torch.arange(len(held), device=subject.device) % subject.dataset.classes
    return {
        "originals": originals,
        "found": found,
        "labels_found": _overlap(guessed, labels),
        "labels_by_chance": _overlap(evenly, labels),
        "quality": judge_likeness(found, originals),
        "blind": _guessed(subject, held_by_it, len(found), rng),
    }


@dataclass(frozen=True)
class Trained:
    """The samples that a client trained on, normalised, and their labels: what a find is held against."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class OneSample(Prepare):
    """A client's data with all but one of its samples put aside."""

    name: ClassVar[str] = "one_sample"

    def view(self, held: Held, t: int | None, seed: int, **told: float) -> Held:
        return held.some(generator(seed, "inversion", "sample", held.client).permutation(len(held))[:1])


class Prey:
    """The samples themselves, for the judge of an attack: the laboratory's question, which no method asks."""

    name = f"{__name__}:Prey"
    questions = ("samples",)

    def samples(self, client: ClientView) -> Tree:
        """All that the client has at hand, and their labels."""
        return {"x": client.samples(), "y": client.labels}


def observe_update(subject: Subject, client: int, alone: bool) -> tuple[Tree, Tree, Trained]:
    """(the model a client started from, the mean gradient that its update tells, the samples it trained on).

    ``alone``: one step of the client's method on one of its samples only.
    """
    run, state = subject.setup.run, subject.state()
    # the data as it lies: altered or repeated samples are no prey
    plain = replace(run.job.method, prepare=(OneSample(),) if alone else ())
    job, who, moment = replace(run.job, method=plain), np.array([client], np.int64), Moment(state.round)
    asking = replace(run, job=job)
    (told,) = ask_to_measure(asking, "the samples to judge by", Prey(), "samples", [client], {}, moment)
    held = Trained(told["x"].to(subject.device), told["y"].to(subject.device))
    if alone:
        sizes = (job.roster.ids == client).astype(np.int64)
        counts = sizes[:, None] * np.bincount(held.y.cpu().numpy(), minlength=subject.about.classes)
        local = replace(job.local, epochs=None, steps=1)
        job = replace(job, roster=Roster(job.roster.dataset, sizes, counts=counts), local=local)
    shared = job.method.hand_out(state.server, state.round)
    round_inputs = run.inputs(job.roster, shared, state.clients, moment)
    leg = Leg(who, state.params)
    # what the server sees of it, where it is encoded
    update = decode_update(job, leg, run.engine.visit(job, leg, np.zeros(1, np.int64), round_inputs))
    cost = Ledger(model_bytes(run, state.params))
    cost.sent(leg, shared)
    cost.received(leg, update)
    run.measuring.trained("updates", cost)
    work = float(update.work[0])
    moved = {k: update.moved[k][0].to(subject.device) for k in job.net.trainable}
    if work <= 0 or not all(bool(torch.isfinite(v).all()) for v in moved.values()):
        raise InputError(
            f"the update of client {subject.setup.job.roster.name_of(client)} after round {state.round} is not "
            "finite: the run has diverged, and there is nothing to invert"
        )
    return state.params, {k: -v / work for k, v in moved.items()}, held


def read_labels(subject: Subject, base: Tree, gradient: Tree, count: int) -> Tensor:
    """The labels of ``count`` samples, off the gradient of the classifier's bias, in order.

    Of a mean cross-entropy that gradient is mean(p) - mean(y) (iDLG, Zhao et al. 2020, for one sample): with the
    model's usual predictions for p, the shares of labels follow. A model without such a bias gives no labels, and
    then they are guessed evenly.
    """
    classes = subject.dataset.classes
    bias = _bias(subject, base, classes)
    if bias is None:
        return torch.arange(count, device=subject.device) % classes
    public = subject.groups(np.arange(min(200, len(subject.dataset.y_test))), test=True)
    with torch.no_grad():
        usual = subject.net.judge(base, public).softmax(1).mean(0)
    shares = (usual - gradient[bias]).clamp_min(0) if count > 1 else -gradient[bias]
    if count == 1:
        return shares.argmax().reshape(1)
    wanted = shares / shares.sum().clamp_min(1e-12) * count
    held = wanted.floor()
    rest = (wanted - held).argsort(descending=True)[: count - int(held.sum())]
    held[rest] += 1
    return torch.repeat_interleave(torch.arange(classes, device=subject.device), held.long())[:count]


def _bias(subject: Subject, base: Tree, classes: int) -> str | None:
    """The classifier's bias: what moves each logit by as much as it moves itself; nothing else of its shape does."""
    net = subject.net
    names = [k for k in net.trainable if k in net.own and base[k].shape == (classes,)]
    some = subject.groups(np.arange(min(2, len(subject.dataset))))
    with torch.no_grad():
        plain = net.judge(base, some)
        for name in reversed(names):
            step = torch.linspace(0.5, 1.5, classes).to(base[name])
            if torch.allclose(net.judge(base | {name: base[name] + step}, some), plain + step, atol=1e-3):
                return name
    return None


def _overlap(guessed: Tensor, labels: Tensor) -> float:
    """The share of labels that were found, whatever their order."""
    size = int(max(guessed.max(), labels.max())) + 1
    a, b = (torch.bincount(v, minlength=size) for v in (guessed, labels))
    return float(torch.minimum(a, b).sum()) / max(1, len(labels))


def search(
    subject: Subject,
    base: Tree,
    gradient: Tree,
    labels: Tensor,
    how: Inversion,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda steps: None,
) -> Tensor:
    """Normalised samples whose gradient at ``base`` is like the one observed."""
    net = subject.setup.job.net
    shape = (len(labels), *subject.dataset.shape)
    start = torch.from_numpy(rng.standard_normal(shape)).to(subject.device, subject.dtype)
    low, high = _box(subject, start)
    x = start.clamp(low, high).requires_grad_()
    if how.rule == "dlg":
        return _dlg(net, base, gradient, labels, subject.dataset.classes, x, how, rng, advance)
    rule = torch.optim.Adam([x], how.lr)
    falls = torch.optim.lr_scheduler.MultiStepLR(rule, [how.steps * k // 8 for k in (3, 5, 7)], 0.1)
    best, least = x.detach().clone(), math.inf
    for _ in range(how.steps):
        apart = _angle(gradient_of(net, base, x, labels), gradient)
        (found,) = torch.autograd.grad(apart + how.smooth * _variation(x), x)
        if float(apart.detach()) < least:
            best, least = x.detach().clone(), float(apart.detach())
        x.grad = found.sign()
        rule.step()
        falls.step()
        with torch.no_grad():
            x.clamp_(low, high)
        advance(1)
    return best


def _dlg(
    net: Net,
    base: Tree,
    gradient: Tree,
    labels: Tensor,
    classes: int,
    x: Tensor,
    how: Inversion,
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> Tensor:
    """Squared distance of gradients by L-BFGS, over samples and soft labels at once."""
    soft = torch.from_numpy(rng.standard_normal((len(labels), classes))).to(x).requires_grad_()
    rule = torch.optim.LBFGS([x, soft], lr=1.0, max_iter=20, history_size=100)
    best, least = x.detach().clone(), math.inf

    def closure() -> Tensor:
        nonlocal best, least
        rule.zero_grad()
        mine = gradient_of(net, base, x, soft.softmax(1))
        apart = sum(((mine[k] - gradient[k]) ** 2).sum() for k in gradient)
        assert isinstance(apart, Tensor)
        if float(apart.detach()) < least:
            best, least = x.detach().clone(), float(apart.detach())
        apart.backward()  # type: ignore[no-untyped-call]
        return apart

    for done in range(0, how.steps, 20):
        rule.param_groups[0]["max_iter"] = now = min(20, how.steps - done)
        rule.step(closure)  # type: ignore[no-untyped-call]
        advance(now)
        if not math.isfinite(least) or least < 1e-9:
            break
    return best


def gradient_of(net: Net, base: Tree, x: Tensor, target: Tensor) -> Tree:
    """The gradient of a client's task loss at ``base`` on these samples, differentiable in the samples."""
    params = {k: base[k].detach().clone().requires_grad_() for k in net.trainable}
    buffers = {k: base[k].detach().clone() for k in net.buffers}
    seed = torch.zeros((), dtype=torch.int64, device=x.device) if net.draws_masks else None
    loss = net.task.loss(net.bound(buffers, seed)(params, x), target)
    found = torch.autograd.grad(loss, list(params.values()), create_graph=True, allow_unused=True)
    return {
        k: torch.zeros_like(p) if g is None else g for (k, p), g in zip(params.items(), found, strict=True)
    }


def _angle(mine: Tree, observed: Tree) -> Tensor:
    """1 - cosine between two gradients, over all parameters at once."""
    dot = sum((mine[k] * observed[k]).sum() for k in observed)
    a = sum(mine[k].square().sum() for k in observed)
    b = sum(observed[k].square().sum() for k in observed)
    assert isinstance(dot, Tensor)
    assert isinstance(a, Tensor)
    assert isinstance(b, Tensor)
    return 1 - dot / (a.sqrt() * b.sqrt()).clamp_min(1e-20)


def _variation(x: Tensor) -> Tensor:
    """Total variation: the mean step between neighbours along the last two axes."""
    axes = [a for a in (-1, -2) if x.dim() > -a + 1]
    steps = [x.diff(dim=a).abs().mean() for a in axes if x.shape[a] > 1]
    return torch.stack(steps).sum() if steps else x.new_zeros(())


def _box(subject: Subject, like: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the largest normalised value of each channel."""
    low, high = (subject.dataset.normalise(v.to(like)) for v in subject.range)
    return low, high


def _mean(subject: Subject) -> Tensor:
    """The mean of the pool's samples: what knowing nothing gives."""
    some = generator(0, "inversion", "blind").permutation(len(subject.dataset))[:1000]
    return subject.unit(subject.groups(some)).float().mean(0, keepdim=True).cpu()


def _guessed(subject: Subject, originals: Tensor, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """The better of two guesses that saw no update, each held against the originals it is most like."""
    noise = torch.from_numpy(rng.standard_normal((count, *subject.dataset.shape)))
    low, high = _box(subject, noise)
    mean = _mean(subject)
    guesses = {
        "the mean sample": mean.expand(count, *mean.shape[1:]),
        "noise": subject.unit(noise.clamp(low, high)).float(),
    }
    told = [
        judge_likeness(guess, originals[torch.from_numpy(match_samples(originals, guess))]) | {"guess": name}
        for name, guess in guesses.items()
    ]
    return max(told, key=lambda one: float(one["psnr"]))
