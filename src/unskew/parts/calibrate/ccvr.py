"""A classifier trained again on features drawn from what clients know of each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from unskew.core.exchanged_rows import store_labels
from unskew.core.optimisers import optimizer
from unskew.core.roster import Roster
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Calibrate, Depends, Local
from unskew.core.types import Memory, Tree
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.later import torch
from unskew.notices import warn
from unskew.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.core.questions import Questions
    from unskew.models.outline import Outline

WIDEST_FULL_COVARIANCE = 2048
"""Features beyond which a whole covariance is refused: a class of it takes 17 MB from every client, and grows as
the square."""

MOST_VIRTUAL = 1_000_000
"""Virtual features of a class beyond which they fill a machine's memory."""

GAUSSIAN = (LABEL_COUNTS, "mean and covariance of its features, class by class")
FEATURES = ("features of some of its samples, with their labels",)


@dataclass(frozen=True)
class CCVR(Calibrate):
    """Trains a copy of the classifier again, on virtual features of every class alike (Luo et al., NeurIPS 2021).

    The global model is sent to every client, which answers with count n_ck, mean mu_ck and covariance S_ck (over n - 1)
    of its features of each class c it holds. The server merges them into one Gaussian a class, with the moments of all
    features of the class together:

        mu_c = sum of n_ck mu_ck / N_c,
        S_c = (sum of (n_ck - 1) S_ck + sum of n_ck mu_ck mu_ck' - N_c mu_c mu_c') / (N_c - 1).

    It draws ``virtual`` features of each, and trains the classifier on them, from where it is. The layers below stay as
    they are, and so does the run's own model.

    variant: ``features`` sends a ``share`` of each client's features instead of Gaussians, as FLea does when it
    compares itself with CCVR (appendix C.3, "optimal performance").
    virtual: M_c, features drawn of each class. covariance: ``diagonal`` sends variances only, for wide features.
    epochs, lr, batch: of the classifier's training, by SGD with momentum 0.9.
    every: calibrate at every evaluation, not only at the last; each asks all clients again.

    No official code was found, and how the classifier is trained is ours. Others draw 100 to 2,000 features of a class
    and train for one to ten epochs. A class that nobody holds is not drawn. A single sample of a class has no
    covariance: its features are its mean. Who holds nothing is not asked.
    """

    name: ClassVar[str] = "ccvr"
    paper: ClassVar[str] = "Luo et al., NeurIPS 2021"
    neutral: ClassVar[str | None] = "ccvr(epochs=0)"
    example: ClassVar[str | None] = "ccvr(virtual=20)"
    questions: ClassVar[tuple[str, ...]] = ("moments", "some_features")
    discloses: ClassVar[Any] = Depends(
        GAUSSIAN, lambda part: GAUSSIAN if part.variant == "gaussian" else FEATURES
    )

    variant: Literal["gaussian", "features"] = "gaussian"
    virtual: Annotated[int, AtMost(MOST_VIRTUAL)] = 1000
    share: float = 0.1
    covariance: Literal["full", "diagonal"] = "full"
    epochs: Annotated[int, AtMost(10_000)] = 10
    lr: float = 0.01
    batch: int = 64
    every: bool = False

    def __post_init__(self) -> None:
        for name, least in (("virtual", 1), ("epochs", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} of ccvr must be at least {least}, not {getattr(self, name)}")
        if self.lr <= 0:
            raise InputError(f"lr of ccvr must be above 0, not {self.lr}")
        if not 0 < self.share <= 1:
            raise InputError(
                f"share of ccvr is a share of each client's samples, above 0 to 1, not {self.share}"
            )

    @property
    def sends(self) -> str:
        return "features(last)" if self.variant == "features" else ""

    def due(self, last: bool) -> bool:
        return last or self.every

    def check_model(self, model: Outline) -> None:
        _ = model.cuts.last_layer  # a model that cannot be split is refused before a run starts
        dense = model.dense
        if (
            self.variant == "gaussian"
            and self.covariance == "full"
            and dense
            and dense[-1] > WIDEST_FULL_COVARIANCE
        ):
            raise InputError(
                f"a covariance of this model's {dense[-1]} features takes {dense[-1] ** 2 * 2 / 1e6:.0f} MB a class "
                "and client; write ccvr(covariance=diagonal) or ccvr(variant=features)"
            )

    def calibrate(self, params: Tree, net: Net, roster: Roster, query: Questions, t: int, seed: int) -> Tree:
        holding = np.flatnonzero(roster.sizes)
        rng = generator(seed, "ccvr", t)
        if self.variant == "features":
            answers = query(self, "some_features", holding, seed=seed, t=t)
            features, labels = (torch.cat([a[k] for a in answers]) for k in ("features", "labels"))
            if not len(labels):
                warn(
                    f"ccvr: a share of {self.share} of clients' samples is none at all, so the classifier stays as "
                    "it is; share more",
                    stacklevel=2,
                )
                return params
        else:
            told = query.each(self, "moments", holding)
            mixture = merged(told, roster.dataset.classes)
            features, labels = drawn(mixture, self.virtual, rng)
        like = next(iter(params.values()))
        features = features.to(like.device, like.dtype)
        return params | self._trained(params, net, features, labels.to(like.device, torch.int64), rng)

    def moments(self, client: ClientView) -> Tree:
        """A client's answer: of each class it holds, how many, and the moments of their features."""
        return moments(client.embed().flatten(1), client.labels, self.covariance)

    def some_features(self, client: ClientView, seed: int, t: int) -> Tree:
        """The features of a share of a client's samples, drawn without replacement."""
        held = len(client)
        chosen = generator(seed, "ccvr", t, client.client).permutation(held)[: int(self.share * held + 1e-9)]
        at = torch.from_numpy(np.sort(chosen))
        return {"features": client.embed(index=at), "labels": _small(client.labels[at.to(client.device)])}

    def _trained(
        self, params: Tree, net: Net, features: Tensor, labels: Tensor, rng: np.random.Generator
    ) -> Memory:
        """The classifier after some epochs on these features."""
        local = Local(batch=self.batch, lr=self.lr, momentum=0.9)
        head = {k: params[k].detach().clone().requires_grad_() for k in classifier(params, net, features[:1])}
        rule, layer = optimizer(local), net.judging.last_layer
        state = rule.init({k: v.detach() for k, v in head.items()})
        count = 0
        for _ in range(self.epochs):
            order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device)
            for start in range(0, len(order), self.batch):
                at = order[start : start + self.batch]
                logits = net.judge(params | head, features[at], since=layer)
                loss = net.task.loss(logits, labels[at])
                grads = dict(zip(head, torch.autograd.grad(loss, list(head.values())), strict=True))
                with torch.no_grad():
                    rule.step(head, grads, state, self.lr, count)
                count += 1
        return {k: v.detach() for k, v in head.items()}


def classifier(params: Tree, net: Net, features: Tensor) -> list[str]:
    """The names of what is trained above the penultimate feature: whatever the logits of one depend on."""
    leaves = {k: params[k].detach().requires_grad_() for k in net.trainable}
    logits = net.judge(params | leaves, features, since=net.judging.last_layer)
    found = torch.autograd.grad(logits.sum(), list(leaves.values()), allow_unused=True)
    return [k for k, g in zip(leaves, found, strict=True) if g is not None]


def _small(labels: Tensor) -> Tensor:
    """Class numbers as they travel."""
    return store_labels(labels, int(labels.max()) + 1 if len(labels) else 1)


def moments(features: Tensor, labels: Tensor, covariance: str = "full") -> Tree:
    """What a client answers: of each class it holds, how many, their mean, and the upper half of their covariance."""
    classes, counts = torch.unique(labels, return_counts=True)
    means, spreads = [], []
    for c, n in zip(classes, counts.tolist(), strict=True):
        own = features[labels == c].to(torch.float64)
        mean = own.mean(0)
        away = own - mean
        whole = away.square().sum(0) if covariance == "diagonal" else _upper(away.T @ away)
        means.append(mean)
        spreads.append(whole / max(1, n - 1))
    empty = features.new_zeros(0, features.shape[1])
    kept = features.dtype
    return {
        "classes": _small(classes),
        "counts": counts.int(),
        "means": torch.stack(means).to(kept) if means else empty,
        "spreads": torch.stack(spreads).to(kept) if spreads else empty,
    }


@dataclass
class Gaussian:
    """One class's features: a mean, and a covariance or variances."""

    label: int
    mean: Tensor  # [d] float64
    spread: Tensor  # [d, d], or [d] where only variances are known


def merged(answers: Iterable[Tree], classes: int) -> list[Gaussian]:
    """One Gaussian for each class that somebody holds, in the order of classes.

    Its moments are those of all clients' features of the class together. They grow client by client around the mean
    so far, where S_c as written subtracts two large numbers; so no answer has to be kept.
    """
    totals, means, squares = [0] * classes, {}, {}
    for answer in answers:
        rows = zip(
            answer["counts"].tolist(), answer["means"].double(), answer["spreads"].double(), strict=True
        )
        for c, (n, mean, spread) in zip(answer["classes"].tolist(), rows, strict=True):
            before = totals[c]
            totals[c] += n
            if not before:
                means[c], squares[c] = mean, (n - 1) * spread
                continue
            apart = mean - means[c]
            between = apart.square() if len(spread) == len(mean) else _upper(torch.outer(apart, apart))
            means[c] = means[c] + apart * n / totals[c]
            squares[c] += (n - 1) * spread + between * before * n / totals[c]
    found = []
    for c in sorted(means):
        spread, width = squares[c] / max(1, totals[c] - 1), len(means[c])
        found.append(Gaussian(c, means[c], spread if len(spread) == width else _whole(spread, width)))
    return found


def drawn(mixture: Sequence[Gaussian], each: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """``each`` features of every class of a mixture, and their labels."""
    features, labels = [], []
    for gaussian in mixture:
        noise = torch.from_numpy(rng.standard_normal((each, len(gaussian.mean)))).to(gaussian.mean.device)
        if gaussian.spread.dim() == 1:
            away = noise * gaussian.spread.sqrt()
        else:
            away = noise @ _root(gaussian.spread).T
        features.append(gaussian.mean + away)
        labels.append(torch.full((each,), gaussian.label, device=gaussian.mean.device))
    return torch.cat(features), torch.cat(labels)


def _root(covariance: Tensor) -> Tensor:
    """L with L L' the covariance; one of fewer samples than features is singular, so a trifle is added."""
    size = covariance.diagonal().mean()
    if float(size) == 0:
        return torch.zeros_like(covariance)
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    trifle = 1e-9
    while True:
        root: Tensor
        root, failed = torch.linalg.cholesky_ex(covariance + trifle * size * identity)
        if not int(failed):
            return root
        trifle *= 10


def _upper(square: Tensor) -> Tensor:
    """A symmetric matrix as its upper half, row by row: what has to be sent of it."""
    row, column = torch.triu_indices(*square.shape, device=square.device)
    return square[row, column]


def _whole(upper: Tensor, size: int) -> Tensor:
    """The inverse of ``_upper``."""
    row, column = torch.triu_indices(size, size, device=upper.device)
    square = upper.new_zeros(size, size)
    square[row, column] = upper
    square[column, row] = upper
    return square
