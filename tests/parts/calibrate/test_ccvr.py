"""CCVR by hand: a client's moments, the mixture they make, what is drawn from it, what it costs, and when it works."""

from __future__ import annotations

import pytest
import torch

import unskew
from by_hand import numbers
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.calibrate.ccvr import Gaussian, classifier, drawn, merged, moments
from unskew.seeds import generator
from unskew.testing.toy_federation import MODEL, normed, play, ready, tiny

FEW = Method.parse("ccvr(virtual=20)")


def rows(*points):
    return torch.tensor(points, dtype=torch.float64)


A = moments(rows((0.0, 0.0), (2.0, 2.0), (7.0, 7.0)), torch.tensor([0, 0, 2]))
B = moments(rows((4.0, 1.0)), torch.tensor([0]))


def test_a_client_answers_with_the_moments_of_each_class_it_holds():
    """Of (0, 0) and (2, 2): mean (1, 1), covariance over n - 1 all 2; of (7, 7) alone: itself, and no spread.

    Only the upper half of a covariance is sent: xx, xy, yy.
    """
    assert A["classes"].tolist() == [0, 2]
    assert A["counts"].tolist() == [2, 1]
    assert A["means"].tolist() == [[1.0, 1.0], [7.0, 7.0]]
    assert A["spreads"].tolist() == [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]


def test_the_mixture_has_the_moments_of_all_features_together():
    """(0, 0) and (2, 2) at one client, (4, 1) at another: mean (2, 1), and S by its formula

    (1 x [[2, 2], [2, 2]] + 2 x [[1, 1], [1, 1]] + [[16, 4], [4, 1]] - 3 x [[4, 2], [2, 1]]) / 2 = [[4, 1], [1, 1]].
    Deviations (-2, -1), (0, 1), (2, 0) say the same. Nobody holds class 1.
    """
    first, second = merged([A, B], classes=3)
    assert (first.label, second.label) == (0, 2)
    assert first.mean.tolist() == [2.0, 1.0]
    assert first.spread.tolist() == [[4.0, 1.0], [1.0, 1.0]]
    assert second.spread.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_variances_alone_are_merged_alike():
    """The diagonal of the same: 4 and 1."""
    points, labels = rows((0.0, 0.0), (2.0, 2.0)), torch.tensor([0, 0])
    answers = [moments(points, labels, "diagonal"), moments(rows((4.0, 1.0)), torch.tensor([0]), "diagonal")]
    assert merged(answers, 1)[0].spread.tolist() == [4.0, 1.0]


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_any_split_of_the_samples_gives_the_same_mixture(far):
    """Merged moments are those of the pooled features, in any order of clients and far from the origin too."""
    rng = generator(0, "split")
    x = torch.from_numpy(rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5))) + far
    owner = rng.integers(0, 7, 60)
    answers = [
        moments(x[owner == k], torch.zeros(int((owner == k).sum()), dtype=torch.int64)) for k in range(7)
    ]
    for order in (answers, answers[::-1]):
        (found,) = merged(order, 1)
        torch.testing.assert_close(found.mean, x.mean(0))
        torch.testing.assert_close(found.spread, torch.cov(x.T), rtol=1e-6, atol=1e-6)


def test_what_is_drawn_has_the_moments_of_the_mixture():
    """20,000 draws of [[4, 1], [1, 1]] around (2, 1) come within some hundredths; a class without spread repeats."""
    mixture = [
        Gaussian(0, numbers(2.0, 1.0), rows((4.0, 1.0), (1.0, 1.0))),
        Gaussian(2, numbers(7.0), rows((0.0,))),
    ]
    x, y = drawn(mixture[:1], 20_000, generator(0, "draw"))
    torch.testing.assert_close(x.mean(0), numbers(2.0, 1.0), rtol=0, atol=0.05)
    torch.testing.assert_close(torch.cov(x.T), mixture[0].spread, rtol=0, atol=0.1)
    assert y.unique().tolist() == [0]
    x, y = drawn(mixture[1:], 3, generator(0, "draw"))
    assert x.tolist() == [[7.0]] * 3
    assert y.tolist() == [2, 2, 2]


def test_a_singular_covariance_can_be_drawn_from():
    """All mass on the diagonal: (1, 1) (1, 1)' has one direction, and draws stay on it but for a trifle."""
    x, _ = drawn(
        [Gaussian(0, numbers(0.0, 0.0), torch.ones(2, 2, dtype=torch.float64))], 50, generator(0, "draw")
    )
    assert float((x[:, 0] - x[:, 1]).abs().max()) < 1e-3
    assert float(x.abs().max()) > 1


def test_only_the_classifier_changes_and_only_in_a_copy():
    """The last dense layer is found by what the logits depend on; the run's own model is FedAvg's to the bit."""
    setup = ready(Method.parse("ccvr"), model=normed)
    last = setup.job.net.judging.last_layer
    features = setup.job.net.judge(
        setup.job.net.initial, torch.zeros(1, 1, 6, 6, dtype=torch.float64), upto=last
    )
    names = classifier(setup.job.net.initial, setup.job.net, features)
    assert sorted(name.rpartition(".")[2] for name in names) == ["bias", "weight"]
    assert play(FEW).hash == play(Method.parse("fedavg")).hash


def test_it_works_at_the_end_unless_asked_for_every_evaluation():
    """Where it worked, the accuracy without it stands beside; elsewhere the round costs what FedAvg's does."""
    last = play(FEW).lines
    assert ["uncalibrated_test_accuracy" in line for line in last] == [False, False, True]
    assert last[0]["bytes"] == play(Method.parse("fedavg")).lines[0]["bytes"]
    every = play(Method.parse("ccvr(virtual=20, every=true)")).lines
    assert all("uncalibrated_test_accuracy" in line for line in every)
    assert every[-1] == last[-1]


def test_its_visits_are_costed():
    """Eight clients of two classes (the one of 2 samples too), in float64: the model goes down to each, and of each
    class come 1 byte of label, 4 of count, 6 features' mean and 21 numbers of their covariance.
    """
    line = play(FEW).lines[-1]
    model = line["bytes"]["down"]["model"] // 4
    assert line["bytes"]["down"]["model for ccvr"] == 8 * model
    assert line["bytes"]["up"]["ccvr answers"] == 8 * 2 * (1 + 4 + 6 * 8 + 21 * 8)
    assert line["bytes_up"] == sum(line["bytes"]["up"].values())
    assert line["bytes_down"] == sum(line["bytes"]["down"].values())


def test_who_holds_nothing_is_not_asked():
    """Three of six clients hold samples: three models go down."""
    setup = ready(FEW)
    line = play(FEW, tiny(sizes=[0, 4, 0, 5, 0, 3])).lines[-1]
    model = setup.job.net.travelling_bytes(setup.state.params, "average")
    assert line["bytes"]["down"]["model for ccvr"] == 3 * model


def test_fleas_variant_sends_features():
    """int(0.5 n) of 5, 3, 9, 4, 7, 2, 6, 8 samples are 20 features of 6 numbers of 8 bytes, and 20 labels of one."""
    line = play(Method.parse("ccvr(variant=features, share=0.5)")).lines[-1]
    assert line["bytes"]["up"]["ccvr answers"] == 20 * (6 * 8 + 1)
    assert Method.parse("ccvr(variant=features)").discloses == (
        "features of some of its samples, with their labels (ccvr)",
    )


def test_a_share_of_nothing_is_told():
    """A tenth of fewer than ten samples is none: the classifier stays, and a warning says so."""
    with pytest.warns(UserWarning, match="a share of 0.1 of clients' samples is none at all"):
        calibrated = play(Method.parse("ccvr(variant=features)"))
    plain = play(Method.parse("fedavg"))
    assert calibrated.lines[-1]["global_test_loss"] == plain.lines[-1]["global_test_loss"]


def test_a_client_that_shares_nothing_does_not_ask_its_model():
    """int(0.5 x 1) of one sample is none, and many a model cannot reshape a batch of none."""

    class Folds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.out = torch.nn.Linear(6, 4), torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.out(torch.relu(self.first(x.reshape(len(x), -1, 6))).mean(1))

    method, held = Method.parse("ccvr(variant=features, share=0.5)"), tiny(sizes=[1, 4])
    line = play(method, held, model=Folds(), rounds=1).lines[-1]
    assert line["bytes"]["up"]["ccvr answers"] == 2 * (4 * 8 + 1)


def test_it_helps_where_the_classifier_is_biased():
    """Digits, two labels a client: the same features judge better, and the run's model is the better one."""
    settings = {
        "dataset": "digits",
        "clients": 20,
        "cohort": 4,
        "partition": "labels(2)",
        "rounds": 6,
        "lr": 0.05,
    }
    run = unskew.run(method="ccvr(virtual=200)", epochs=3, batch=8, progress=False, **settings)
    line = run.folder.lines[-1]
    assert line["global_test_accuracy"] > line["uncalibrated_test_accuracy"] + 0.05
    test = unskew.load("digits")
    right = (run.model(torch.from_numpy(test.x_test)).argmax(1).numpy() == test.y_test).mean()
    assert right == pytest.approx(line["global_test_accuracy"], abs=1e-9)


def test_wide_features_are_refused_before_a_run_starts():
    """A covariance grows as the square of the features; the sentence names what to write."""
    with pytest.raises(InputError) as told:
        ready(Method.parse("ccvr"), model="mlp(hidden=[3000])")
    assert str(told.value) == (
        "a covariance of this model's 3000 features takes 18 MB a class and client; write ccvr(covariance=diagonal) "
        "or ccvr(variant=features)"
    )
    for text in ("ccvr(covariance=diagonal)", "ccvr(variant=features)"):
        assert ready(Method.parse(text), model="mlp(hidden=[3000])")
    assert ready(Method.parse("ccvr"), model=MODEL)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "ccvr(virtual=1000000000)",
            "virtual of ccvr must be at most 1,000,000, not 1e+09",
        ),
        ("ccvr(virtual=0)", "virtual of ccvr must be at least 1, not 0"),
        ("ccvr(epochs=-1)", "epochs of ccvr must be at least 0, not -1"),
        ("ccvr(lr=0)", "lr of ccvr must be above 0, not 0.0"),
        ("ccvr(share=0)", "share of ccvr is a share of each client's samples, above 0 to 1, not 0.0"),
        ("ccvr(variant=tukey)", "variant of ccvr must be gaussian or features, not tukey"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence
