"""Attacks on small runs: they find what is there, repeat by the seed, and leave everything in the run's folder."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import unskew
from unskew.cli import main
from unskew.core.method import Method
from unskew.core.views import Averages, Features, RawSamples
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.privacy import ATTACKS, Context, Inversion, Reconstruction, attack, subject
from unskew.privacy.context import identify
from unskew.privacy.groups import Groups
from unskew.privacy.inversion import gradient_of, observe_update, read_labels, search
from unskew.privacy.laboratory import read
from unskew.privacy.reconstruction import reconstruct
from unskew.reproduce.overfitting import ClientGroup, deal_to_groups, overfitting
from unskew.runs.correlation import in_pieces
from unskew.runs.snapshots import kept_rounds, read_model
from unskew.seeds import generator
from unskew.testing import Walled

SETTINGS = {
    "dataset": "digits",
    "partition": "labels(3)",
    "clients": 20,
    "cohort": 4,
    "rounds": 3,
    "epochs": 1,
    "model": "mlp(hidden=[24, 16])",
    "lr": 0.1,
    "keep": (1,),
    "progress": False,
}
QUICK = {
    "reconstruction": Reconstruction(epochs=2, samples=150, test=40),
    "context": Context(examples=(10, 40), repeats=1, steps=20, test=40),
    "inversion": Inversion(steps=20, images=1, most=2),
    "progress": False,
}


@pytest.fixture(autouse=True)
def one_thread():
    """As commands do: small batches are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of FLea that keeps its first model and measures c."""
    path = tmp_path_factory.mktemp("runs") / "flea"
    unskew.run(method="flea(dense1, share=0.3)", out=path, measure=("correlation",), **SETTINGS)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A run of FedAvg on one step of plain SGD, which shares nothing but updates."""
    path = tmp_path_factory.mktemp("runs") / "fedavg"
    unskew.run(method="fedavg", out=path, **SETTINGS)
    return path


def test_a_run_keeps_the_models_it_was_asked_for(run):
    """Round 1 by ``keep``, round 3 as the last; any other is refused with what to write."""
    assert kept_rounds(run) == [1]
    first, last = read_model(run, 1), read_model(run)
    assert (first[0], last[0]) == (1, 3)
    assert any(not torch.equal(first[1][k], last[1][k]) for k in first[1])
    with pytest.raises(InputError, match=r"round 1, 3 but not of round 2; run it with keep = \[2\]"):
        read_model(run, 2)


def test_the_log_says_who_got_whose_features_and_their_correlation(run):
    """Nobody in the first round; then last round's clients, to this round's; c lies between 0 and 1."""
    lines = [json.loads(text) for text in (run / "rounds.jsonl").read_text().splitlines()]
    assert "exchanged" not in lines[0]
    assert all(len(line["exchanged"]["flea"]["to"]) == 4 for line in lines[1:])
    assert all(0 < line["distance_correlation"]["flea"] <= 1 for line in lines)


def test_an_attack_leaves_numbers_pictures_and_a_page(run):
    """Every section is there, for the kept model and the last; the page names what was declared."""
    made = attack(run, **QUICK)
    record = read(run)
    assert record == json.loads(json.dumps(made.record))
    assert record["exposure"]["epsilon"][-1] == len(set(_pairs(run))) / 400
    assert [told["round"] for told in record["reconstruction"]["results"]] == [1, 3]
    assert len(record["correlation"]["over_rounds"]["flea"]["c"]) == 3
    for name in ("exposure", "correlation", "reconstruction", "context", "reconstructions", "inversions"):
        assert (run / "attack" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (run / "attack" / "attack.html").read_text()
    assert "features and labels of some samples" in page
    assert not [f.name for f in (run / "attack").iterdir() if f.name.endswith(".tmp")]


def _pairs(run: Path) -> list[tuple[int, int]]:
    lines = [json.loads(text) for text in (run / "rounds.jsonl").read_text().splitlines()]
    given = [line["exchanged"]["flea"] for line in lines if "exchanged" in line]
    return [(i, j) for g in given for i in g["from"] for j in g["to"]]


def test_attacks_repeat_by_their_seed_and_touch_no_global_generator(run):
    """The same numbers twice, others from another seed, and the generators of torch, numpy and random stay."""

    def numbers(seed: int) -> float:
        found = reconstruct(
            subject(run), read_model(run)[1], Features("dense1"), QUICK["reconstruction"], seed=seed
        )
        return found.record["mse"]

    before = torch.get_rng_state().tolist(), np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002
    assert numbers(0) == numbers(0) != numbers(1)
    after = torch.get_rng_state().tolist(), np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002
    assert repr(before) == repr(after)


def test_a_decoder_learns_and_beats_knowing_nothing(run):
    """Of features of the first layer digits can be rebuilt; of an average of ten hardly."""
    target = subject(run)
    model = target.model()[1]
    how = Reconstruction(epochs=8, samples=600, batch=32, lr=0.003, test=100)
    found = reconstruct(target, model, Features("dense1"), how).record
    mixed = reconstruct(target, model, Averages(10), how).record
    assert found["curve"][-1]["train_mse"] < found["curve"][0]["train_mse"]
    assert found["mse"] < 0.8 * found["blind"]["mse"]
    assert mixed["mse"] > found["mse"]
    assert reconstruct(target, model, RawSamples(), how).record["mse"] == 0


def test_context_is_found_with_more_examples_in_averages_too(run):
    """The square shows in averages, since every sample behind one has it; a few examples are not enough."""
    target = subject(run)
    how = Context(square=0.25, examples=(4, 300), repeats=1, steps=120, test=150)
    few, many = identify(target, target.model()[1], Averages(5), how)["points"]
    assert many["accuracy"] > 0.85
    assert few["accuracy"] < many["accuracy"]


def test_the_square_is_painted_where_it_should_be(run):
    """A quarter of 8 pixels is a square of 2 x 2 at the largest value; what is not marked is not touched."""
    target = subject(run)
    how = Context(square=0.25, place="corner")
    groups = target.groups(np.arange(4).reshape(2, 2))
    marked = how.marked(target, groups, torch.tensor([False, True]), generator(0, "square"))
    assert torch.equal(marked[0], groups[0])
    assert torch.all(target.unit(marked[1])[:, :, 2:4, 2:4] == 1)
    assert torch.equal(marked[1][:, :, 4:], groups[1][:, :, 4:])


def test_one_step_on_one_sample_shows_its_gradient_and_its_label(plain):
    """(start - end) / lr is the gradient of that sample; the bias's one negative entry is its label (iDLG)."""
    target = subject(plain)
    base, gradient, held = observe_update(target, 3, alone=True)
    assert len(held) == 1
    label = held.y
    exact = gradient_of(target.setup.job.net, base, held.x, label)
    for name, value in exact.items():
        assert torch.allclose(gradient[name], value.detach(), atol=1e-4)
    assert read_labels(target, base, gradient, 1).tolist() == label.tolist()


@pytest.mark.parametrize("rule", ["cosine", "dlg"])
def test_an_inverted_gradient_is_nearer_to_the_sample_than_where_the_search_began(plain, rule):
    """A dense first layer gives the sample away."""
    target = subject(plain)
    base, gradient, held = observe_update(target, 3, alone=True)
    label, original = held.y, target.unit(held.x)
    how = Inversion(rule=rule, steps=300, smooth=0)
    found = target.unit(search(target, base, gradient, label, how, generator(0, "start")))
    begun = target.unit(torch.from_numpy(generator(0, "start").standard_normal((1, 1, 8, 8))).float())
    assert float((found - original).square().mean()) < 0.25 * float((begun - original).square().mean())


def test_a_method_that_shares_nothing_is_judged_by_its_updates_and_by_named_views(plain):
    """Without a view: exposure and inversion only; to reconstruct from nothing is refused, saying what to name."""
    record = attack(plain, only=("exposure", "inversion"), **QUICK).record
    assert record["exposure"]["shares"] is False
    assert record["inversion"]["whole_visit"]["searched"] == 2
    with pytest.raises(InputError, match=r"fedavg shares no data .* --view 'features\(dense1\)'"):
        attack(plain, only=("reconstruction",), **QUICK)
    named = attack(plain, only=("reconstruction",), view=("features(dense2)",), **QUICK).record
    assert named["reconstruction"]["results"][0]["view"] == "features(dense2)"
    assert "inversion" in named  # what was found before stays


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "magic"], "there is no attack 'magic'"),
        (["--view", "features(conv9)"], "there is no layer 'conv9'"),
        (["--rounds", "2"], "but not of round 2; run it with keep = [2]"),
        (["--rounds", "one"], "--rounds takes whole numbers with commas"),
        (["--optimizer", "lion"], "--optimizer is adam or sgd, not 'lion'"),
    ],
)
def test_bad_input_is_one_sentence(plain, words, sentence, capsys):
    """Exit code 2, and what to write instead."""
    assert main(["attack", str(plain), *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_the_command_prints_what_was_found(plain, capsys):
    """In the terminal as sentences, or as JSON."""
    words = ["attack", str(plain), "--only", "exposure,inversion", "--steps", "3"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "fedavg"
    assert main(words) == 0
    assert "no client was given another's data" in capsys.readouterr().out
    assert main(["attack", str(plain), "--draw"]) == 0
    assert "attack.html" in capsys.readouterr().out


def test_every_attack_works_on_clients_behind_walls(tmp_path):
    """Each in a process that alone has its samples: the same numbers, so attackers need nothing but the verbs."""
    path, method = tmp_path / "run", "flea(dense1, share=0.3)+fed_data(0.2)"
    unskew.run(method=method, out=path, **SETTINGS | {"clients": 5, "cohort": 2, "fraction": 0.2})
    expected = attack(path, **QUICK).record
    found = attack(path, engine=Walled(Method.parse(method), clients=5), **QUICK).record
    assert set(ATTACKS) <= set(found)
    for name in ATTACKS:
        assert dict(numbers_in(found[name])) == pytest.approx(dict(numbers_in(expected[name])), rel=1e-5)


def numbers_in(record, where=""):
    """Every number of a record but times, with where it stands."""
    inside = record.items() if isinstance(record, dict) else enumerate(record)
    for name, value in inside:
        if isinstance(value, (dict, list)):
            yield from numbers_in(value, f"{where}/{name}")
        elif isinstance(value, (int, float)) and name != "wall_s":
            yield f"{where}/{name}", value


def test_correlation_is_refused_where_nothing_is_shared():
    """A measure of what is shared needs something that is."""
    with pytest.raises(
        InputError, match="correlation measures features or samples that are shared, and fedavg"
    ):
        unskew.run(method="fedavg", measure=("correlation",), **SETTINGS)


def test_groups_of_clients_hold_as_much_of_every_class(plain):
    """Twenty samples of ten classes: two of each; shared ones are the same for all, and nobody's own."""
    target = subject(plain)
    federation = deal_to_groups(target.dataset, ClientGroup.read("20+30"), 0)
    assert federation.clients == 10
    assert set(federation.sizes.tolist()) == {50}
    own = [set(federation.samples(k)[:20].tolist()) for k in range(10)]
    assert len(set.union(*own)) == 200
    assert all(np.bincount(target.dataset.y[sorted(o)], minlength=10).tolist() == [2] * 10 for o in own)
    shared = {tuple(federation.samples(k)[20:].tolist()) for k in range(10)}
    assert len(shared) == 1
    assert not set.union(*own) & set(next(iter(shared)))


def test_overfitting_is_analysed_from_a_kept_model(plain):
    """The scores of local and averaged models, of what they saw and what not, and the pictures."""
    record = overfitting(plain, ("100", "30", "30+40"), accuracy=0.05, test=100, progress=False)
    assert [row["group"] for row in record["groups"]] == ["100", "30", "30+40"]
    assert record["groups"][1]["local"]["train_db"] > 0
    for name in ("bars.png", "tsne.png"):
        assert (plain / "overfitting" / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"no model that .* reaches an accuracy of 0.999; let it run longer"):
        overfitting(plain, accuracy=0.999, progress=False)


@pytest.mark.parametrize("method", ["fedfa", "fedfv"])
def test_overfitting_of_methods_that_weigh_by_what_clients_measure(method, tmp_path):
    """Their average needs each client's accuracy or loss, as in a round."""
    unskew.run(method=method, out=tmp_path / "run", **SETTINGS)
    record = overfitting(tmp_path / "run", ("30",), accuracy=0.05, test=100, progress=False, pictures=False)
    assert record["groups"][0]["average"]["test_accuracy"] > 0


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--samples", "samples of the reconstruction must be at least 1, not 0"),
        ("--epochs", "epochs of the reconstruction must be at least 1, not 0"),
        ("--repeats", "repeats of the context attack must be at least 1, not 0"),
        ("--steps", "steps of the inversion must be at least 1, not 0"),
    ],
)
def test_an_attacker_who_does_nothing_is_refused(run, capsys, option, sentence):
    """One sentence and exit code 2; 0 samples are not all of them."""
    assert main(["attack", str(run), option, "0"]) == 2
    assert sentence in capsys.readouterr().err


def test_another_view_later_leaves_every_section_true(run):
    """A second attack replaces the sections it makes, with a seed of its own; the others stay, and all can be drawn."""
    attack(run, **QUICK)
    attack(run, only=("reconstruction",), view=("features(dense2)",), seed=5, **QUICK)
    record = json.loads((run / "attack" / "attack.json").read_text())
    assert {told["view"] for told in record["reconstruction"]["results"]} == {"features(dense2)"}
    assert {told["view"] for told in record["context"]["results"]} == {"features(dense1)"}
    assert (record["reconstruction"]["seed"], record["context"]["seed"]) == (5, 0)
    with np.load(run / "attack" / "pictures.npz") as held:
        assert not [name for name in held.files if "features(dense1)" in name]
    assert main(["attack", str(run), "--draw"]) == 0


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("attack", b"", "in the way of a folder"),
        ("attack/attack.json", b"[]", "not JSON that fits its checksum"),
        ("attack/attack.json", b"{", "not JSON that fits its checksum"),
        ("attack/pictures.npz", b"no zip", "is damaged"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_any_work(
    plain, tmp_path, name, content, sentence, monkeypatch
):
    """Something in its place, or damaged earlier findings: one sentence, and nothing is attacked or touched."""
    copied = tmp_path / "run"
    shutil.copytree(plain, copied, ignore=shutil.ignore_patterns("attack"))
    (copied / name).parent.mkdir(exist_ok=True)
    (copied / name).write_bytes(content)
    monkeypatch.setattr("unskew.privacy.laboratory.invert", pytest.fail)
    with pytest.raises(InputError, match=sentence):
        attack(copied, **QUICK)
    assert (copied / name).read_bytes() == content


def test_a_stopped_attack_keeps_what_it_had_found(plain, tmp_path, monkeypatch):
    """Interrupted while inverting: exposure is there, and the next attack goes on with it."""
    copied = tmp_path / "run"
    shutil.copytree(plain, copied, ignore=shutil.ignore_patterns("attack"))

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("unskew.privacy.laboratory.invert", stopped)
        with pytest.raises(KeyboardInterrupt):
            attack(copied, **QUICK)
    assert "exposure" in json.loads((copied / "attack" / "attack.json").read_text())
    assert set(attack(copied, only=("inversion",), **QUICK).record) >= {"exposure", "inversion"}


def test_a_run_without_a_checkpoint_is_refused_before_any_work(run, tmp_path, monkeypatch):
    """Its kept model can be attacked, its updates cannot; the sentence says what to name."""
    copied = tmp_path / "run"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("attack", "state"))
    monkeypatch.setattr("unskew.privacy.laboratory.reconstruct", pytest.fail)
    with pytest.raises(InputError, match="name the other attacks by --only"):
        attack(copied, **QUICK)
    assert "correlation" in attack(copied, only=("correlation",), **QUICK).record


def test_a_diverged_run_has_nothing_to_invert(tmp_path):
    """One sentence instead of a NaN; what the other attacks found stays."""
    path = tmp_path / "run"
    unskew.run(method="fedavg", out=path, **SETTINGS | {"lr": 1e30, "rounds": 1})
    with pytest.raises(InputError, match="the run has diverged, and there is nothing to invert"):
        attack(path, **QUICK)
    assert "exposure" in json.loads((path / "attack" / "attack.json").read_text())


def test_labels_are_read_off_the_classifier_whatever_else_has_its_shape(tmp_path):
    """Ten hidden units have a bias of ten, and so has FedBR's head: neither is the classifier's."""
    path = tmp_path / "run"
    settings = SETTINGS | {"model": "mlp(hidden=[10])", "rounds": 1, "keep": ()}
    unskew.run(method="fedbr(group=2, width=12, out=10)", out=path, **settings)
    found = attack(path, only=("inversion",), **QUICK | {"inversion": Inversion(steps=5, images=3, most=2)})
    assert found.record["inversion"]["one_step_one_sample"]["labels_found"] == 1.0
    assert found.record["inversion"]["one_step_one_sample"]["labels_by_chance"] == 0.1


def test_guesses_that_saw_no_update_are_judged_like_a_find(plain):
    """With a hundred samples to be held against, noise looks like a find: so it stands beside."""
    told = attack(plain, only=("inversion",), **QUICK).record["inversion"]["whole_visit"]
    assert told["blind"]["guess"] in ("noise", "the mean sample")
    assert told["blind"]["psnr"] > 0
    assert 0 <= told["labels_by_chance"] < 1


def test_every_column_of_a_table_counts(tmp_path):
    """A column in thousands does not hide errors in the others: each is judged by its own range."""
    rng = generator(0, "table")
    data = np.stack([rng.random(60), 1000 * rng.random(60)], 1).astype(np.float32), rng.integers(0, 2, 60)
    path = tmp_path / "run"
    unskew.run(
        dataset=data, partition="iid", clients=4, cohort=2, rounds=1, model="linear", out=path, progress=False
    )
    found = subject(path, dataset=data)
    shown = found.unit(found.groups(np.arange(len(found.dataset))))
    assert shown.min(0).values.tolist() == pytest.approx([0, 0], abs=1e-6)
    assert shown.max(0).values.tolist() == pytest.approx([1, 1], abs=1e-6)


def test_an_average_is_over_a_clients_mix_of_labels():
    """Clients of labels 0 alone and of 0 and 1 evenly: a 1 has as many 0 as 1 around it, of the test set too."""
    x = np.zeros((40, 1), np.float32)
    y = np.repeat([0, 1], [30, 10])
    data = unskew.from_arrays(x, y, x_test=x, y_test=y)
    groups = Groups(Federation(data, np.arange(40), np.array([0, 20, 40])).counts, data)
    for test in (False, True):
        found = groups.around(np.full(2000, 35), 5, generator(0, "around"), test)
        assert found.shape == (2000, 5)
        assert set(found[:, 0]) == {35}
        assert y[found[:, 1:]].mean() == pytest.approx(0.5, abs=0.03)
        assert len(np.unique(found[:, 1:])) == 40
    alone = Groups(Federation(data, np.arange(40), np.array([0, 30, 40])).counts, data)
    assert set(y[alone.fresh(200, 4, generator(0, "fresh"))].std(1)) == {0.0}  # one label a client


def test_an_average_over_more_samples_than_there_are_is_refused(run):
    with pytest.raises(InputError, match="more samples than the 1,438 of digits"):
        attack(run, view=("averages(100000)",), **QUICK)


def test_large_averages_are_seen_in_pieces(run, monkeypatch):
    """However many samples are behind an average, a few are in memory at once, and the numbers are the same."""
    target = subject(run)
    places = target.drawn.fresh(30, 40, generator(0, "pieces"))
    whole = target.seen({}, Averages(40), places)
    monkeypatch.setattr("unskew.runs.correlation.HELD", 3 * 40 * 64)
    for a, b in zip(whole, target.seen({}, Averages(40), places), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert len(list(in_pieces(Averages(40), (1, 8, 8), 30))) == 10


def test_a_damaged_kept_model_is_named(run, tmp_path):
    copied = tmp_path / "run"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("attack"))
    place = copied / "models" / "000001.safetensors"
    place.write_bytes(place.read_bytes()[:500])
    with pytest.raises(InputError, match=r"000001.safetensors is damaged; remove it, or name another round"):
        attack(copied, only=("correlation",), **QUICK)


def test_a_spoilt_attack_spoils_no_report(run, tmp_path, capsys):
    """The report over the run says what it leaves out."""
    copied = tmp_path / "run"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("attack"))
    attack(copied, only=("exposure",), **QUICK)
    (copied / "attack" / "attack.json").write_text('{"format": 1}')
    assert main(["report", str(copied)]) == 0
    assert "the report leaves it out" in capsys.readouterr().err
    assert main(["attack", str(copied), "--draw"]) == 2


def test_dlg_takes_as_many_steps_as_it_says(plain):
    """L-BFGS works in stretches of twenty; the last is as short as it must be."""
    steps: list[int] = []
    target = subject(plain)
    base, gradient, held = observe_update(target, 0, alone=True)
    labels = held.y
    how = Inversion(rule="dlg", steps=27, images=1)
    search(target, base, gradient, labels, how, generator(0, "dlg"), steps.append)
    assert steps == [20, 7]


def test_an_attack_that_does_not_apply_is_refused_when_it_is_named(tmp_path):
    """A row of a table has no room for a square; unless it is asked for, that attack is left out."""
    rng = generator(0, "table")
    data = rng.random((60, 3)).astype(np.float32), rng.integers(0, 2, 60)
    path = tmp_path / "run"
    unskew.run(
        dataset=data, partition="iid", clients=4, cohort=2, rounds=1, model="linear", out=path, progress=False
    )
    with pytest.raises(InputError, match="nothing to attack by context in samples of shape 3; leave it out"):
        attack(path, only=("context",), view=("averages(2)",), dataset=data, **QUICK)
    assert not (path / "attack").exists()
    assert "context" not in attack(path, view=("averages(2)",), dataset=data, **QUICK).record
