"""Which tiles are fastest: the GPU's kernels for all clients, at the sizes of SEM's ResNet-9, tile by tile.

python -m benchmarks.tiles [--out FILE]      a line of JSON each: kernel, layer, clients, tile, microseconds

Kernels are compiled by several processes first, then timed alone, twenty launches a graph.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from unskew.models.kernels import convolution, normalisation
from unskew.models.kernels.layout import by_place, evenly, room_for_images, tile
from unskew.models.kernels.loaded import programs

LAYERS = {  # channels, filters, side of the image, how often ResNet-9 has it
    "conv1": (3, 32, 32, 1),
    "conv2": (32, 64, 32, 1),
    "residual1": (64, 64, 16, 2),
    "conv3": (64, 128, 16, 1),
    "conv4": (128, 256, 8, 1),
    "residual2": (256, 256, 4, 2),
}
CLIENTS, BATCH = (1, 3, 10), 8

CONVOLUTIONS = (  # places, filters, depth, stages, warps
    (128, 64, 64, 3, 4), (128, 64, 64, 4, 8), (128, 64, 64, 3, 8), (128, 128, 64, 3, 8), (128, 32, 64, 4, 4),
    (64, 64, 64, 3, 4), (64, 64, 64, 4, 4), (64, 64, 128, 3, 4), (64, 32, 64, 4, 4), (64, 32, 128, 3, 4),
    (32, 64, 64, 4, 4), (32, 64, 128, 3, 4), (32, 32, 128, 3, 4), (32, 32, 64, 5, 4), (32, 32, 128, 4, 2),
    (32, 32, 128, 4, 4), (32, 32, 256, 2, 4), (16, 64, 128, 3, 4), (16, 32, 128, 4, 2), (16, 32, 256, 3, 4),
)  # fmt: skip
GRADIENTS = (  # inner, filters, places at once, stages, warps; then places a program
    (64, 64, 128, 3, 4), (64, 64, 64, 3, 4), (64, 64, 64, 4, 4), (128, 64, 64, 3, 4), (64, 128, 64, 3, 4),
    (32, 64, 128, 3, 4), (128, 64, 64, 3, 8),
)  # fmt: skip
CHUNKS = (256, 512, 1024)
NORMS = tuple(product((64, 128, 256), (32, 64), (4, 8)))  # places, channels, warps


@dataclass(frozen=True)
class Case:
    """One launch to be timed."""

    kernel: str
    layer: str
    clients: int
    how: tuple[int, ...]


def cases() -> Iterator[Case]:
    for layer, clients in product(LAYERS, CLIENTS):
        yield from (Case("convolution", layer, clients, how) for how in CONVOLUTIONS)
        if layer != "conv1":
            yield from (Case("back", layer, clients, how) for how in CONVOLUTIONS)
        for how, chunk in product(GRADIENTS, CHUNKS):
            yield Case("filter_gradient", layer, clients, (*how, chunk))
        for kernel in ("moments", "normalise", "norm_sums", "norm_gradient"):
            yield from (Case(kernel, layer, clients, how) for how in NORMS)


class Compiler:
    """In a kernel's place: compiles it for what it would be launched with."""

    def __init__(self, program: Any):
        self.program = program

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *given, **options: self.program.warmup(*given, grid=grid, **options)


def images(clients: int, channels: int, side: int) -> Tensor:
    like = torch.empty(clients, BATCH, 1, 1, 1, dtype=torch.bfloat16, device="cuda")
    return room_for_images(like, channels, (side, side)).normal_()


def launch_of(case: Case, compile_only: bool = False) -> Callable[[], Any]:
    """What launches it once."""
    channels, out, side, _ = LAYERS[case.layer]
    clients, how = case.clients, case.how

    def program(name: str) -> Any:
        found = getattr(programs(), name)
        return Compiler(found) if compile_only else found

    if case.kernel in ("convolution", "back"):
        back = case.kernel == "back"
        x, y = (
            images(clients, out if back else channels, side),
            images(clients, channels if back else out, side),
        )
        weight = torch.randn(clients, out, 3, 3, channels, device="cuda").bfloat16().permute(0, 1, 4, 2, 3)
        weight = weight.transpose(1, 2) if back else weight
        tall, most, deepest, stages, warps = how
        inner, outer = x.shape[2], y.shape[2]
        wide, deep = tile(outer, most), convolution._part(inner, inner * 9, deepest)
        places = BATCH * side * side
        grid = (-(-places // tall), -(-outer // wide), clients)
        return lambda: program("convolution")[grid](
            x, weight, x, y, places, side, side, side, side, outer, *x.stride(), *weight.stride(), 0, 0,
            y.stride(0), y.stride(4), y.stride(2), inner, 3, 3, 1, 1, 1, 1, back, False, "tf32", tall, wide, deep,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    x = images(clients, channels, side)
    if case.kernel == "filter_gradient":
        most, broad, deep, stages, warps, chunk = how
        dy = evenly(images(clients, out, side))
        places, inner = BATCH * side * side, channels * 9
        wide, tall = tile(out, broad), convolution._part(channels, inner, most)
        parts = -(-places // chunk)
        found = torch.empty(clients, parts, out, inner, device="cuda")
        grid = (-(-out // wide), -(-inner // tall), clients * parts)
        return lambda: program("filter_gradient")[grid](
            x, dy, found, found, places, side, side, side, side, out, chunk, parts, *x.stride(), dy.stride(0),
            by_place(dy), dy.stride(2), channels, 3, 3, 1, 1, 1, 1, False, "tf32", tall, wide, deep,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    x, dy = images(clients, out, side), images(clients, out, side)
    many, broad, warps = how
    places = BATCH * side * side
    tiles, wide = -(-places // many), tile(out, broad)
    room = 8 if tiles <= 8 else 32 if tiles <= 32 else normalisation.MOST_TILES
    weight, scale = torch.ones(clients, BATCH, device="cuda"), torch.ones(clients, out, device="cuda")
    found, kept = (
        torch.ones(clients, tiles, 3, out, device="cuda"),
        torch.ones(clients, 3, out, device="cuda"),
    )
    y, grid = torch.empty_like(x), (tiles, -(-out // wide), clients)
    sizes, strides = (
        (places, side * side, out, tiles),
        (x.stride(0), by_place(x), x.stride(2), *weight.stride()),
    )
    last = dy.stride(0), by_place(dy), dy.stride(2)
    if case.kernel == "moments":
        return lambda: program("moments")[grid](
            x, weight, found, *sizes, *strides, many, wide, num_warps=warps
        )
    if case.kernel == "normalise":
        mean, var = kept[:, 0], kept[:, 1]
        return lambda: program("normalise")[grid](
            x, weight, scale, scale, mean, var, found, y, kept, *sizes, *strides, out, out, 3 * out, 3 * out,
            1e-5, 0.1, True, True, True, many, wide, room, num_warps=warps,
        )  # fmt: skip
    given = (x, weight, scale, scale, kept, dy, found)
    all_strides = (*sizes, *strides, out, out, *last, True, True, many, wide)
    if case.kernel == "norm_sums":
        return lambda: program("norm_sums")[grid](*given, *all_strides, num_warps=warps)
    return lambda: program("norm_gradient")[grid](
        *given, y, scale, scale, *all_strides, room, num_warps=warps
    )


def compiled(case: Case) -> str:
    try:
        launch_of(case, compile_only=True)()
    except Exception as error:
        return f"{case}: {type(error).__name__}: {str(error)[:100]}"
    return ""


def microseconds(launch: Callable[[], Any], launches: int = 20) -> float:
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            launch()
    took = []
    for _ in range(4):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize()
        took.append(began.elapsed_time(ended))
    return 1e3 * min(took) / launches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--only", nargs="*", default=[], help="kernels")
    given = parser.parse_args()
    every = [case for case in cases() if not given.only or case.kernel in given.only]
    began = time.perf_counter()
    distinct = [case for case in every if case.clients == 3]
    with multiprocessing.get_context("spawn").Pool(14) as pool:
        failed = {line for line in pool.imap_unordered(compiled, distinct, 8) if line}
    print(
        f"{len(distinct)} compiled in {time.perf_counter() - began:.0f} s",
        *sorted(failed)[:20],
        sep="\n",
        flush=True,
    )
    lines = []
    for case in every:
        try:
            took = microseconds(launch_of(case))
        except Exception as error:
            print(case, type(error).__name__, str(error)[:100], flush=True)
            continue
        lines.append({"kernel": case.kernel, "layer": case.layer, "clients": case.clients,
                      "how": case.how, "us": round(took, 2)})  # fmt: skip
    if given.out:
        with open(given.out, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{len(lines)} timed in {time.perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
