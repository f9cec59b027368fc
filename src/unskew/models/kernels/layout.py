"""How images of many clients lie: [clients, samples, channels, rows, columns], channels side by side in memory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def room_for_images(like: Tensor, channels: int, size: Sequence[int]) -> Tensor:
    """Room for images of the same clients and samples, in the type of those.

    Not a view of other memory: a model may write into what a layer puts out, as ``nn.ReLU(inplace=True)`` does.
    """
    clients, samples, (height, width) = *like.shape[:2], size
    steps = (samples * height * width * channels, height * width * channels, 1, width * channels, channels)
    return like.new_empty_strided((clients, samples, channels, height, width), steps)


def channels_inside(x: Tensor) -> Tensor:
    """With channels side by side, one place after the other."""
    return x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def evenly(x: Tensor) -> Tensor:
    """With one step from place to place across all images of a client, so that places have one number."""
    samples, height, width = x.shape[1], x.shape[3], x.shape[4]
    step = by_place(x)
    even = (x.stride(3) == width * step or 1 in (height, width)) and (
        x.stride(1) == height * width * step or samples == 1
    )
    return x if even and step else channels_inside(x)


def by_place(x: Tensor) -> int:
    """That step. Along an axis of length 1 a tensor may have any, which says nothing."""
    return x.stride(4) if x.shape[4] > 1 else x.stride(3) if x.shape[3] > 1 else x.stride(1)


def steps_but_channels(x: Tensor) -> tuple[int, ...]:
    """How far apart clients, samples, rows and columns are."""
    clients, samples, _, rows, columns = x.stride()
    return clients, samples, rows, columns


def tile(n: int, most: int) -> int:
    """The power of two that holds n, up to the most, and of 16 at least, as tensor cores take them."""
    return min(most, max(16, power_of_two(n)))


def power_of_two(n: int) -> int:
    """The next one: a tile of any shape has so many numbers along each axis."""
    return 1 << (n - 1).bit_length()
