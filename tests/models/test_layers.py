"""Dropout and batch norm as functions of what they are handed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap

from unskew.errors import InputError
from unskew.models import BatchNorm, Dropout
from unskew.models.random_words import random_words

N = 1 << 16


def words(seed: int, stream: int = 0, count: int = N) -> torch.Tensor:
    """As numbers from 0 to 2**32 - 1."""
    return random_words(torch.tensor(seed), stream, count).long() & (2**32 - 1)


def signed(seed: int, stream: int, count: int) -> torch.Tensor:
    return random_words(torch.tensor(seed), stream, count)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """In standard errors: beyond 5 would not happen by chance."""
    return float(torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1]) * len(a) ** 0.5


class TestRandomWords:
    def test_are_uniform(self) -> None:
        """Sixteen equal ranges of 0..2**32 hold 4,096 words each; chi-square with 15 degrees stays below 45."""
        counts = torch.bincount(words(7) >> 28, minlength=16).double()
        assert float(((counts - N / 16) ** 2 / (N / 16)).sum()) < 45

    def test_have_unbiased_bits(self) -> None:
        """Each of the 32 bits is one half the time."""
        drawn = words(3)
        bits = torch.stack([(drawn >> b) & 1 for b in range(32)]).double()
        assert float((bits.mean(1) - 0.5).abs().max()) < 5 * 0.5 / N**0.5

    @pytest.mark.parametrize("other", [(1, 0), (1 << 40, 0), (-1, 0), (0, 1), (0, 2)])
    def test_of_another_seed_or_layer_are_unrelated(self, other: tuple[int, int]) -> None:
        """Seeds that differ in their low or high bits, and neighbouring layers, share nothing."""
        assert abs(correlation(words(0), words(*other))) < 5
        assert int((words(0) == words(*other)).sum()) <= 1

    def test_at_neighbouring_places_are_unrelated(self) -> None:
        for lag in (1, 2, 8, 64):
            assert abs(correlation(words(5)[:-lag], words(5)[lag:])) < 5

    def test_stay_the_same_for_ever(self) -> None:
        """A later version repeats an earlier run. Worked out with Python's whole numbers, without torch."""
        assert signed(0, 0, 3).tolist() == [-1196426314, 954071635, 940595906]
        assert signed(2**62 + 5, 3, 3).tolist() == [711255445, -1551825749, 463217478]
        assert signed(-7, 1, 2).tolist() == [1554393557, -965791564]

    def test_take_a_batched_seed(self) -> None:
        seeds = torch.tensor([3, 4, 2**50])
        stacked = vmap(lambda s: random_words(s, 1, 10))(seeds)
        assert torch.equal(stacked, torch.stack([random_words(s, 1, 10) for s in seeds]))


class TestDropout:
    def test_drops_the_share_and_keeps_the_mean(self) -> None:
        """With p = 0.2 a fifth is zero and the rest is 1/0.8 = 1.25."""
        out = Dropout(0.2)(torch.ones(100, 500))
        assert set(out.unique().tolist()) == {0.0, 1.25}
        assert abs(float((out == 0).double().mean()) - 0.2) < 5 * (0.16 / 50_000) ** 0.5
        assert float(out.mean()) == pytest.approx(1.0, abs=0.02)

    def test_is_the_identity_in_eval_mode_and_at_zero(self) -> None:
        x = torch.randn(4, 5)
        assert Dropout(0.5).eval()(x) is x
        assert Dropout(0.0)(x) is x

    def test_of_everything_gives_zeros(self) -> None:
        assert torch.equal(Dropout(1.0)(torch.randn(4, 5)), torch.zeros(4, 5))

    def test_masks_depend_on_seed_and_layer_only(self) -> None:
        x = torch.ones(8, 9)
        one, two = Dropout(0.5, index=1), Dropout(0.5, index=2)
        at = {"seed": torch.tensor(9)}
        assert torch.equal(functional_call(one, at, (x,)), functional_call(one, at, (x,)))
        assert not torch.equal(functional_call(one, at, (x,)), functional_call(two, at, (x,)))
        assert not torch.equal(functional_call(one, at, (x,)), one(x))

    def test_padding_does_not_change_the_masks_of_the_others(self) -> None:
        x = torch.ones(8, 3, 4, 4)
        for drop in (Dropout(0.5), Dropout(0.5, channels=True)):
            assert torch.equal(drop(x)[:5], drop(x[:5]))

    def test_memory_format_does_not_change_the_mask(self) -> None:
        x = torch.randn(2, 3, 4, 4)
        assert torch.equal(Dropout(0.5)(x), Dropout(0.5)(x.to(memory_format=torch.channels_last)))

    def test_of_channels_drops_whole_ones(self) -> None:
        out = Dropout(0.5, channels=True)(torch.ones(20, 30, 3, 3))
        assert torch.equal(out.amin((2, 3)), out.amax((2, 3)))
        assert 200 < int((out[:, :, 0, 0] == 0).sum()) < 400

    def test_leaves_the_global_generator_alone(self) -> None:
        before = torch.get_rng_state()
        Dropout(0.5)(torch.ones(4, 4))
        assert torch.equal(before, torch.get_rng_state())

    def test_has_nothing_in_the_state_dict(self) -> None:
        assert Dropout().state_dict() == {}

    def test_refuses_what_is_not_a_probability(self) -> None:
        with pytest.raises(InputError, match=r"dropout's p is a probability between 0 and 1, not 1\.5"):
            Dropout(1.5)


def pair(channels: int = 3, dtype: torch.dtype = torch.float64) -> tuple[nn.BatchNorm2d, BatchNorm]:
    """torch's batch norm and ours, with the same uneven weights."""
    theirs, ours = nn.BatchNorm2d(channels).to(dtype), BatchNorm(channels).to(dtype)
    with torch.no_grad():
        theirs.weight.copy_(torch.linspace(0.5, 2, channels))
        theirs.bias.copy_(torch.linspace(-1, 1, channels))
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


class TestBatchNorm:
    def test_equals_torch_exactly_on_full_batches(self) -> None:
        """Outputs, gradients and running statistics, over three steps and then in eval mode."""
        theirs, ours = pair()
        for seed in range(3):
            x = torch.randn(4, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            theirs(a).square().sum().backward()
            ours(b).square().sum().backward()
            assert torch.equal(theirs(x), ours(x))
            assert torch.equal(a.grad, b.grad)
        for name, value in ours.state_dict().items():
            assert torch.equal(value, theirs.state_dict()[name])
        assert torch.equal(theirs.eval()(x), ours.eval()(x))

    def test_with_weights_of_one_equals_torch(self) -> None:
        theirs, ours = pair()
        ours.sample_weight = torch.ones(4, dtype=torch.float64)
        x = torch.randn(4, 3, 5, 5, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)

    def test_by_hand(self) -> None:
        """Samples 1, 3 and a padded 100: mean 2, variance 1, unbiased 2.

        The outputs are -1 and 1 (eps 0); running mean 0.1 x 2 = 0.2, running variance 0.9 + 0.1 x 2 = 1.1.
        """
        norm = BatchNorm(1, eps=0.0).double()
        norm.sample_weight = torch.tensor([1.0, 1.0, 0.0])
        out = norm(torch.tensor([[1.0], [3.0], [100.0]], dtype=torch.float64))
        assert out[:2, 0].tolist() == [-1.0, 1.0]
        assert norm.running_mean.tolist() == pytest.approx([0.2])
        assert norm.running_var.tolist() == pytest.approx([1.1])

    @pytest.mark.parametrize("junk", [0.0, 1e30, float("nan"), float("inf")])
    @pytest.mark.parametrize("tail", [(), (4,), (3, 3)])
    def test_padding_never_leaks(self, junk: float, tail: tuple[int, ...]) -> None:
        """A padded batch gives the outputs, gradients and running statistics of the short one."""
        x = torch.randn(5, 2, *tail, dtype=torch.float64)
        padded = torch.cat([x, torch.full((3, 2, *tail), junk, dtype=torch.float64)])
        weight = torch.tensor([1.0] * 5 + [0.0] * 3)

        def trained(batch: torch.Tensor, weights: torch.Tensor) -> list[torch.Tensor]:
            norm = BatchNorm(2).double()
            norm.sample_weight = weights
            batch = batch.clone().requires_grad_()
            out = norm(batch)[:5]
            (out**3).sum().backward()
            grads = [batch.grad, norm.weight.grad, norm.bias.grad]
            return [out, batch.grad[5:], grads[0][:5], *grads[1:], norm.running_mean, norm.running_var]

        short, long = trained(x, torch.empty(0)), trained(padded, weight)
        assert torch.equal(long[1], torch.zeros_like(long[1]))
        for at in (0, 2, 3, 4, 5, 6):
            torch.testing.assert_close(long[at], short[at], rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("padding", [0, 3])
    def test_a_single_value_has_variance_zero(self, padding: int) -> None:
        """The output is the bias; the mean is learned and the running variance, of which one value says
        nothing, stays."""
        norm = BatchNorm(2)
        if padding:
            norm.sample_weight = torch.tensor([1.0] + [0.0] * padding)
        out = norm(torch.cat([torch.tensor([[5.0, -5.0]]), torch.full((padding, 2), 9.0)]))
        assert out[0].tolist() == [0.0, 0.0]
        assert norm.running_mean.tolist() == [0.5, -0.5]
        assert norm.running_var.tolist() == [1.0, 1.0]

    def test_a_batch_of_padding_changes_nothing(self) -> None:
        norm = BatchNorm(2)
        norm.sample_weight = torch.zeros(4)
        assert torch.isfinite(norm(torch.randn(4, 2, 3))).all()
        assert norm.running_mean.tolist() == [0.0, 0.0]
        assert norm.running_var.tolist() == [1.0, 1.0]

    @given(st.integers(1, 6), st.integers(0, 4), st.sampled_from([(), (2,), (2, 3)]))
    def test_any_amount_of_padding_is_the_same(self, count: int, padding: int, tail: tuple[int, ...]) -> None:
        x = torch.randn(count, 3, *tail, generator=torch.Generator().manual_seed(count)).double()
        short, long = BatchNorm(3).double(), BatchNorm(3).double()
        long.sample_weight = torch.tensor([1.0] * count + [0.0] * padding)
        out = long(torch.cat([x, 7 * torch.ones(padding, 3, *tail, dtype=torch.float64)]))
        torch.testing.assert_close(out[:count], short(x), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(long.running_var, short.running_var, rtol=1e-9, atol=1e-9)

    def test_keeps_half_precision_inputs(self) -> None:
        """Statistics are taken in float32, the output has the input's type."""
        norm = BatchNorm(2)
        norm.sample_weight = torch.tensor([1.0, 1.0, 1.0, 0.0])
        x = torch.randn(4, 2, 8)
        out = norm(x.bfloat16())
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out[:3].float(), BatchNorm(2)(x[:3]), rtol=0.05, atol=0.05)

    def test_says_when_rows_are_not_samples(self) -> None:
        norm = BatchNorm(2)
        norm.sample_weight = torch.ones(4)
        with pytest.raises(
            InputError, match="batch norm got 8 rows but 4 sample weights; keep one row a sample"
        ):
            norm(torch.randn(8, 2))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_stacked_equals_a_loop(self, weighted: bool) -> None:
        """vmap of grad over three clients with stacked running statistics agrees with one at a time."""
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(3, 6, 2, 4, 4, generator=generator)
        weight = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2, [1.0] + [0.0] * 5])
        norm = BatchNorm(2)

        def loss(params: dict, buffers: dict, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            extra = {"sample_weight": w} if weighted else {}
            return (functional_call(norm, (params, buffers, extra), (x,)) ** 3).mean((1, 2, 3)) @ w

        params = {
            "weight": torch.rand(3, 2, generator=generator),
            "bias": torch.rand(3, 2, generator=generator),
        }

        def buffers() -> dict[str, torch.Tensor]:
            return {"running_mean": torch.zeros(3, 2), "running_var": torch.ones(3, 2)}

        stacked, looped = buffers(), buffers()
        grads = vmap(grad(loss))(params, stacked, x, weight)
        for k in range(3):
            one = {name: value[k] for name, value in looped.items()}
            alone = grad(loss)({n: v[k] for n, v in params.items()}, one, x[k], weight[k])
            for name in grads:
                torch.testing.assert_close(grads[name][k], alone[name], rtol=1e-6, atol=1e-6)
        for name in stacked:
            torch.testing.assert_close(stacked[name], looped[name], rtol=1e-7, atol=1e-7)
        assert not torch.equal(stacked["running_mean"], torch.zeros(3, 2))
