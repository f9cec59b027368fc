"""Convolution and batch norm of stacked clients on a GPU, each one kernel for all of them.

Under ``vmap``, over clients with weights of their own, these layers call the kernels of ``unskew.models.kernels``;
anywhere else they are the layers that they were. Weights stay in float32 also where images are bf16: the kernels round
them as they read them, and their gradients come back whole.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from unskew.models.layers import BatchNorm, Dropout
from unskew.models.patches import can_be_patched, sides
from unskew.models.split import Stages

TILE = 256
"""Places in a tile of batch norm."""

MOST_TILES = 128
"""Tiles of batch norm whose moments one program reads."""


@functools.cache
def has_kernels(device: str) -> bool:
    """Whether the kernels run on such a device: Triton's compiler makes them, which torch brings along with CUDA.

    Its interpreter (``TRITON_INTERPRET=1``) runs them on a CPU, slowly: for tests.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    return device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


def kernels_of() -> Any:
    """The kernels, loaded where they are first needed: most machines have no Triton."""
    from unskew.models import kernels

    return kernels


def use_kernels(module: nn.Module) -> frozenset[str]:
    """Let a model's plain convolutions and its batch norm run by kernels when they are stacked, in place.

    The names of the convolutions' weights, which the kernels round themselves.
    """
    rounded = set()
    for path, layer in module.named_modules():
        if can_be_patched(layer):
            layer.__class__ = StackedConv2d
            rounded |= {f"{path}.{name}" if path else name for name, _ in layer.named_parameters()}
        elif type(layer) is BatchNorm:
            layer.__class__ = StackedBatchNorm
        elif type(layer) is nn.MaxPool2d and _side_by_side(layer):
            layer.__class__ = StackedMaxPool2d
        elif type(layer) is Dropout and not layer.channels:
            layer.__class__ = StackedDropout
    if isinstance(module, Stages):  # nobody cuts it inside a stage
        for part in module.modules():
            if isinstance(part, nn.Sequential):
                _join_relu(part)
    return frozenset(rounded)


def fits_kernels(module: nn.Module) -> bool:
    """Whether a model convolves, and every convolution is one that the kernels do fast: tensor cores take sixteen
    channels at once."""
    filters = [m for m in module.modules() if isinstance(m, nn.modules.conv._ConvNd)]
    return bool(filters) and all(can_be_patched(m) and m.out_channels % 16 == 0 for m in filters)


def _join_relu(layers: nn.Sequential) -> None:
    """Batch norm does the work of a ReLU right behind it."""
    for before, after in zip([*layers], [*layers][1:], strict=False):
        if isinstance(before, StackedBatchNorm) and type(after) is nn.ReLU:
            before.relu = True
            after.__class__ = _Done


class _Done(nn.ReLU):
    """A ReLU whose work was done by the layer before it."""

    def forward(self, input: Tensor) -> Tensor:
        return input


def _stacked(*tensors: Tensor) -> bool:
    """Whether ``vmap`` runs over all of these, and nothing else (a gradient inside the loss, say)."""
    return all(map(torch._C._functorch.is_batchedtensor, tensors))


class StackedConv2d(nn.Conv2d):
    """nn.Conv2d."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if input.dim() == 4 and _stacked(input, weight):
            return _Convolve.apply(input, weight, bias, _Walk(self.stride, sides(self)))  # type: ignore[no-any-return, arg-type]
        bias = None if bias is None else bias.to(input.dtype)
        return super()._conv_forward(input, weight.to(input.dtype), bias)


class StackedBatchNorm(BatchNorm):
    """BatchNorm, and the ReLU behind it where that was joined to it."""

    relu = False

    def forward(self, x: Tensor) -> Tensor:
        if self.training and _stacked(x) and _tiles(x) <= MOST_TILES:
            weight = self.sample_weight
            if weight.numel() == 0:
                weight = x.new_ones(x.shape[0])
            how = (self.eps, self.momentum, self.relu)
            running = self.running_mean, self.running_var
            return _Normalise.apply(x, weight, self.weight, self.bias, *running, how)  # type: ignore[no-any-return]
        found = self._by_running(x) if not self.training and _stacked(x) else super().forward(x)
        return F.relu(found) if self.relu else found

    def _by_running(self, x: Tensor) -> Tensor:
        """By the running statistics: torch's own asks stacked images for their memory format, which vmap cannot tell."""
        if self.running_mean is None or self.running_var is None:
            return super()._weighted(x)
        column = (1, -1, *[1] * (x.ndim - 2))
        scale = torch.rsqrt(self.running_var + self.eps)
        scale = scale if self.weight is None else scale * self.weight
        out = (x - self.running_mean.reshape(column)) * scale.reshape(column)
        out = out if self.bias is None else out + self.bias.reshape(column)
        return out.to(x.dtype)


class StackedMaxPool2d(nn.MaxPool2d):
    """nn.MaxPool2d whose windows lie side by side."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 4 and _stacked(input):
            return _Pool.apply(input, _pair(self.kernel_size))  # type: ignore[no-any-return]
        return super().forward(input)


def _side_by_side(layer: nn.MaxPool2d) -> bool:
    """Whether no place lies under two windows, and none outside the image."""
    plain = _pair(layer.padding) == (0, 0) and _pair(layer.dilation) == (1, 1)
    window = _pair(layer.kernel_size)
    alike = plain and window == _pair(layer.stride) and window[0] * window[1] <= 64
    return alike and not (layer.ceil_mode or layer.return_indices)


def _pair(side: Any) -> tuple[int, int]:
    return (side, side) if isinstance(side, int) else tuple(side)


class StackedDropout(Dropout):
    """Dropout."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and 0 < self.p < 1 and x.dim() == 2 and _stacked(x, self.seed):
            return _Drop.apply(x, self.seed, (self.p, self.index))  # type: ignore[no-any-return]
        return super().forward(x)


def _tiles(x: Tensor) -> int:
    """Of one client's batch."""
    return -(-x.numel() // x.shape[1] // TILE)


class _Beside:
    """Gradients of filters on a stream of their own, beside the rest of a backward pass, which does not wait for them."""

    on = False
    streams: ClassVar[dict[torch.device, torch.cuda.Stream]] = {}
    held: ClassVar[list[Tensor]] = []  # what is still being read: nobody may be given its memory


@contextlib.contextmanager
def filters_beside() -> Iterator[None]:
    """Around a backward pass in which no weight is used twice: nobody reads its gradient before the end."""
    _Beside.on = True  # for all threads: torch runs a GPU's backward pass in one of its own
    try:
        yield
    finally:
        _Beside.on = False
        for device, stream in _Beside.streams.items():
            torch.cuda.current_stream(device).wait_stream(stream)
        _Beside.held.clear()
        _Beside.streams.clear()


@contextlib.contextmanager
def _aside(*used: Tensor) -> Iterator[None]:
    """What is launched inside goes beside the rest, where that was asked for."""
    if not (_Beside.on and used[0].is_cuda):
        yield
        return
    device = used[0].device
    stream = _Beside.streams[device] = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    _Beside.held.extend(used)
    with torch.cuda.stream(stream):
        yield


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-any-return, no-untyped-call]


class _Walk(NamedTuple):
    """How filters walk over an image."""

    stride: tuple[int, int]
    padding: tuple[int, int]


class _UnderVmap(Function):
    """What is one client's under ``vmap`` and all clients' at once below it."""

    @staticmethod
    def forward(*args: Any) -> Any:
        raise NotImplementedError("a layer that is not stacked is torch's own")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError("a layer that is not stacked is torch's own")


class _Convolve(_UnderVmap):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weight: Tensor, bias: Tensor | None, walk: _Walk) -> Any:
        x, weight, *rest = _rows(info, in_dims, x, weight, bias)
        return _ConvolveAll.apply(x, weight, *rest, walk), 0  # type: ignore[no-untyped-call]


class _Normalise(_UnderVmap):
    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> Any:
        *tensors, how = given
        *tensors, mean, var = _rows(info, in_dims, *tensors)
        return _NormaliseAll.apply(*tensors, mean, var, how), 0  # type: ignore[no-untyped-call]


class _Pool(_UnderVmap):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, window: tuple[int, int]) -> Any:
        return _PoolAll.apply(*_rows(info, in_dims, x), window), 0  # type: ignore[no-untyped-call]


class _Drop(_UnderVmap):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, seed: Tensor, how: tuple[float, int]) -> Any:
        return _DropAll.apply(*_rows(info, in_dims, x, seed), how), 0  # type: ignore[no-untyped-call]


def _rows(info: Any, in_dims: Any, *tensors: Tensor | None) -> list[Any]:
    """Each with a row for every client."""
    found: list[Tensor | None] = []
    for tensor, axis in zip(tensors, in_dims, strict=False):
        if tensor is None:
            found.append(None)
        elif axis is None:
            found.append(tensor.expand(info.batch_size, *tensor.shape))
        else:
            found.append(tensor.movedim(axis, 0))
    return found


class _ConvolveAll(Function):
    """[clients, samples, channels, rows, columns] through [clients, out, channels, rows, columns]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, walk: _Walk) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.walk, ctx.biased = walk, bias is not None
        size = [
            (n + 2 * pad - side) // step + 1
            for n, pad, side, step in zip(
                x.shape[3:], walk.padding, weight.shape[3:], walk.stride, strict=True
            )
        ]
        y = _images(x, weight.shape[1], size)
        _convolve(x, weight, bias, y, walk, back=False)
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (dy,) = slopes
        x, weight = ctx.saved_tensors
        dx = dw = db = None
        dy = _even(dy)
        if ctx.needs_input_grad[0]:
            dx = _images(x, x.shape[2], x.shape[3:])
            _convolve(dy, weight.transpose(1, 2), None, dx, ctx.walk, back=True)
        if ctx.needs_input_grad[1]:
            dw, db = _filter_gradient(x, dy, weight, ctx.walk, ctx.biased)
        return dx, dw, db, None


def _images(like: Tensor, channels: int, size: Any) -> Tensor:
    """Room for images, channels innermost."""
    return like.new_empty(*like.shape[:2], *size, channels).permute(0, 1, 4, 2, 3)


def _even(value: Tensor) -> Tensor:
    """With one step from place to place, whatever the image: so that places have one number."""
    n, height, width = value.shape[1], value.shape[3], value.shape[4]
    _, by_sample, _, by_row, by_column = value.stride()
    even = (by_row == width * by_column or height == 1) and (
        by_sample == height * width * by_column or n == 1
    )
    if even and by_column:
        return value
    return value.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def _precision(x: Tensor) -> str:
    """How numbers are multiplied: tensor cores round float32 where torch's own convolutions may."""
    return "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "ieee"


def _tile(n: int, most: int) -> int:
    """The power of two that holds n, up to the most, and of 16 at least, as tensor cores take them."""
    return min(most, max(16, 1 << (n - 1).bit_length()))


def _part(channels: int, inner: int, most: int) -> int:
    """The length of a tile of filters: so that it lies under one place of the filter, where channels allow it."""
    whole = channels & -channels  # the largest power of two in it
    return min(most, whole) if whole >= 16 else _tile(inner, 32)


ENOUGH = 100
"""Programs that keep a GPU busy: with fewer, tiles are smaller. This and the tiles below were measured on one H200 with
ResNet-9's convolutions in bf16, of two and of ten clients."""

TILES = ((128, 64, 64, 3), (32, 64, 64, 4), (32, 32, 128, 3))
"""Places, channels and depth of a convolution's tile, and how many are on their way at once; the largest comes first."""


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, walk: _Walk, back: bool) -> None:
    """A convolution's outputs into ``y``, or, going ``back``, the gradient of its input."""
    (clients, samples, channels, height, width), (_, out, _, rows, columns) = x.shape, weight.shape
    places = samples * y.shape[3] * y.shape[4]
    for tall, most, deepest, stages in TILES:  # noqa: B007  the last one, where none gives enough
        wide = _tile(out, most)
        grid = (-(-places // tall), -(-out // wide), clients)
        if grid[0] * grid[1] * grid[2] >= ENOUGH:
            break
    deep = _part(channels, channels * rows * columns, deepest if x.element_size() == 2 else deepest // 2)
    kernels_of().convolution[grid](
        x, weight, x if bias is None else bias, y,
        places, height, width, y.shape[3], y.shape[4], out,
        *x.stride(), *weight.stride(),
        *((0, 0) if bias is None else bias.stride()),
        y.stride(0), y.stride(4), y.stride(2),
        channels, rows, columns, *walk.stride, *walk.padding,
        back, bias is not None, _precision(x), tall, wide, deep,
        num_warps=4, num_stages=stages,
    )  # fmt: skip


CHUNKS = (1024, 512)
"""Places whose gradients of filters one program adds up, of many clients and of few: of more places several programs
each do a part."""


def _filter_gradient(
    x: Tensor, dy: Tensor, weight: Tensor, walk: _Walk, biased: bool
) -> tuple[Tensor, Tensor | None]:
    """Of all clients, the gradient by the filters, and by the bias."""
    (clients, samples, channels, height, width), (_, out, _, rows, columns) = x.shape, weight.shape
    places, inner = samples * dy.shape[3] * dy.shape[4], channels * rows * columns
    wide, tall = _tile(out, 64), _part(channels, inner, 64)
    tiles = -(-out // wide) * -(-inner // tall) * clients
    chunk = CHUNKS[0] if tiles >= ENOUGH / 2 else CHUNKS[1]
    parts = -(-places // chunk)
    found = x.new_empty(clients, parts, out, inner, dtype=torch.float32)
    summed = x.new_empty(clients, parts, out, dtype=torch.float32) if biased else found
    deep = (128 if places >= 1024 else 64) // (x.element_size() // 2)
    launch = (
        x, dy, found, summed,
        places, height, width, dy.shape[3], dy.shape[4], out, chunk, parts,
        *x.stride(),
        dy.stride(0), dy.stride(4), dy.stride(2),
        channels, rows, columns, *walk.stride, *walk.padding,
        biased, _precision(x), tall, wide, deep,
    )  # fmt: skip
    grid = (-(-out // wide), -(-inner // tall), clients * parts)
    with _aside(x, dy, found, summed):
        kernels_of().filter_gradient[grid](*launch, num_warps=4, num_stages=3)
        dw = (found[:, 0] if parts == 1 else found.sum(1)).view(clients, out, rows, columns, channels)
        db = (summed[:, 0] if parts == 1 else summed.sum(1)) if biased else None
    return dw.permute(0, 1, 4, 2, 3).to(weight.dtype), db


class _NormaliseAll(Function):
    """Batch norm of [clients, samples, channels, ...]; running statistics move in place."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, scale: Any, shift: Any, mean: Any, var: Any, how: Any
    ) -> Tensor:
        eps, momentum, relu = how
        at = _Places.of(x, weight)
        found = x.new_empty(at.clients, at.tiles, 3, at.channels, dtype=torch.float32)
        kept = x.new_empty(at.clients, 3, at.channels, dtype=torch.float32)
        y = at.like(x)
        kernels_of().moments[at.grid](at.x, weight, found, *at.sizes, *at.strides, TILE, at.wide)
        affine, runs = scale is not None, mean is not None
        kernels_of().normalise[at.grid](
            at.x, weight, scale if affine else x, shift if affine else x, mean if runs else x, var if runs else x,
            found, y, kept, *at.sizes, *at.strides, *(t.stride(0) if t is not None else 0 for t in (scale, shift)),
            *(t.stride(0) if t is not None else 0 for t in (mean, var)), eps, momentum,
            runs, relu, affine, TILE, at.wide, at.room,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, kept, *((scale, shift) if affine else ()))
        ctx.relu, ctx.affine = relu, affine
        return y.permute(0, 1, -1, *range(2, x.dim() - 1))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, weight, kept, *rest = ctx.saved_tensors
        scale, shift = rest if ctx.affine else (x, x)
        at = _Places.of(x, weight)
        dy = _Places.of(slopes[0], weight)
        found = x.new_empty(at.clients, at.tiles, 2, at.channels, dtype=torch.float32)
        dx = at.like(x)
        dscale = x.new_empty(at.clients, at.channels, dtype=torch.float32)
        dshift = torch.empty_like(dscale)
        affine = (scale.stride(0), shift.stride(0)) if ctx.affine else (0, 0)
        strides = (*at.sizes, *at.strides, *affine, *dy.strides[:3])
        how = (ctx.relu, ctx.affine, TILE, at.wide)
        kernels_of().norm_sums[at.grid](at.x, weight, scale, shift, kept, dy.x, found, *strides, *how)
        kernels_of().norm_gradient[at.grid](
            at.x, weight, scale, shift, kept, dy.x, found, dx, dscale, dshift, *strides, *how, at.room
        )
        back = dx.permute(0, 1, -1, *range(2, x.dim() - 1))
        if not ctx.affine:
            return back, None, None, None, None, None, None
        return back, None, dscale.to(scale.dtype), dshift.to(shift.dtype), None, None, None


class _Places(NamedTuple):
    """Images as places with channels: what the kernels of batch norm are told."""

    x: Tensor
    clients: int
    channels: int
    tiles: int
    wide: int
    sizes: tuple[int, int, int, int]  # places of a client, and of one sample; channels; tiles
    strides: tuple[
        int, int, int, int, int
    ]  # of x by client, place and channel; of weights by client and sample

    @classmethod
    def of(cls, x: Tensor, weight: Tensor) -> _Places:
        clients, samples, channels, *size = x.shape
        area = 1
        for n in size:
            area *= n
        if len(size) == 2:
            x = _even(x)
            by_place = x.stride(4) if x.shape[4] > 1 else x.stride(3) if x.shape[3] > 1 else x.stride(1)
        else:
            x = x.movedim(2, -1).contiguous().movedim(-1, 2)
            by_place = channels
        if not size:
            by_place = x.stride(1)
        strides = (x.stride(0), by_place, x.stride(2), *weight.stride())
        tiles = -(-samples * area // TILE)
        return cls(
            x, clients, channels, tiles, _tile(channels, 32), (samples * area, area, channels, tiles), strides
        )  # type: ignore[arg-type]

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.tiles, -(-self.channels // self.wide), self.clients

    @property
    def room(self) -> int:
        """For how many tiles' moments a program has room: few sizes, so that few kernels are compiled."""
        return 8 if self.tiles <= 8 else 32 if self.tiles <= 32 else MOST_TILES

    def like(self, x: Tensor) -> Tensor:
        """Room for as many, channels innermost."""
        return x.new_empty(x.shape[0], x.shape[1], *x.shape[3:], self.channels)


class _PoolAll(Function):
    """Max pooling of [clients, samples, channels, rows, columns]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, int]) -> Tensor:
        x = _innermost(x)
        size = [side // step for side, step in zip(x.shape[3:], window, strict=True)]
        y = _images(x, x.shape[2], size)
        which = torch.empty_like(y, dtype=torch.uint8)
        ctx.save_for_backward(which)
        ctx.window, ctx.shape = window, x.shape
        kernels_of().pool[_pool_grid(y)](
            x, y, which, y.shape[1] * size[0] * size[1], *size, x.shape[2], *_but_channels(x), *window, *POOLED,
        )  # fmt: skip
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        dy = _innermost(slopes[0])
        (which,) = ctx.saved_tensors
        size = ctx.shape[3:]
        dx = _images(dy, ctx.shape[2], size)
        if any(side % step for side, step in zip(size, ctx.window, strict=True)):
            dx.zero_()  # some places are under no window
        kernels_of().pool_gradient[_pool_grid(dy)](
            dy, which, dx, dy.shape[1] * dy.shape[3] * dy.shape[4], *dy.shape[3:], dy.shape[2], *_but_channels(dy),
            *_but_channels(dx), *ctx.window, *POOLED,
        )  # fmt: skip
        return dx, None


POOLED = (32, 32)
"""Windows and channels that one program pools."""


def _pool_grid(y: Tensor) -> tuple[int, int, int]:
    clients, samples, channels, height, width = y.shape
    return -(-samples * height * width // POOLED[0]), -(-channels // POOLED[1]), clients


def _innermost(x: Tensor) -> Tensor:
    """With channels side by side."""
    return x if x.stride(2) == 1 else x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def _but_channels(x: Tensor) -> tuple[int, ...]:
    clients, samples, _, rows, columns = x.stride()
    return clients, samples, rows, columns


class _DropAll(Function):
    """Dropout of [clients, samples, features], with masks by each client's seed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: Tensor, how: tuple[float, int]) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.how = how
        return _dropped(x, seed, how)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (seed,) = ctx.saved_tensors
        return _dropped(slopes[0], seed, ctx.how), None, None


def _dropped(x: Tensor, seed: Tensor, how: tuple[float, int]) -> Tensor:
    (p, index), count = how, x[0].numel()
    x = x.contiguous()
    y = torch.empty_like(x)
    grid = (-(-count // 1024), x.shape[0])
    least, stream = round(p * 2**32) - 2**31, 0x61C88647 * (index + 1)
    kernels_of().drop[grid](x, seed, y, count, x.stride(0), seed.stride(0), 1 / (1 - p), least, stream, 1024)
    return y
