"""FedJAX: ``federated_averaging`` over compiled client updates, in one process, as it runs by default.

The models are restated with Haiku, images channels last, as JAX convolves fastest on a CPU. XLA decides by itself how
many threads it uses. The first round compiles. FedJAX was written for an older JAX: the one function that has moved
since is named again below.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.adapter import Line

jax.tree_map = jax.tree_util.tree_map

import fedjax  # noqa: E402  the library: this folder is not on the path
from fedjax.algorithms import fed_avg  # noqa: E402


def small_cnn(x: Any, classes: int, training: bool) -> Any:
    for width in (32, 64):
        x = hk.max_pool(jax.nn.relu(hk.Conv2D(width, 3)(x)), 2, 2, "VALID")
    return hk.Linear(classes)(jax.nn.relu(hk.Linear(128)(hk.Flatten()(x))))


def thesis_mnist(x: Any, classes: int, training: bool) -> Any:
    def drop(value: Any, **how: Any) -> Any:
        return hk.dropout(hk.next_rng_key(), 0.5, value, **how) if training else value

    x = jax.nn.relu(hk.max_pool(hk.Conv2D(10, 5, padding="VALID")(x), 2, 2, "VALID"))
    x = drop(hk.Conv2D(20, 5, padding="VALID")(x), broadcast_dims=(1, 2))
    x = jax.nn.relu(hk.max_pool(x, 2, 2, "VALID"))
    return hk.Linear(classes)(drop(jax.nn.relu(hk.Linear(50)(hk.Flatten()(x)))))


def mlp(x: Any, classes: int, training: bool) -> Any:
    return hk.Linear(classes)(jax.nn.relu(hk.Linear(200)(hk.Flatten()(x))))


MODELS: dict[str, Callable[[Any, int, bool], Any]] = {
    "small_cnn": small_cnn,
    "thesis_mnist": thesis_mnist,
    "mlp": mlp,
}


def main() -> None:
    line = Line()
    work = line.work
    if work.model not in MODELS:
        sys.exit(f"{work.model} is not restated for JAX; it has {', '.join(MODELS)}")

    def outputs(batch: Any, training: bool) -> Any:
        return MODELS[work.model](batch["x"], work.classes, training)

    def loss(batch: Any, answers: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(answers), batch["y"][:, None], axis=1)
        return -chosen[:, 0]

    channels, height, width = work.shape
    sample = {"x": np.zeros((1, height, width, channels), np.float32), "y": np.zeros(1, np.int32)}
    net = hk.transform(outputs)
    model = fedjax.create_model_from_haiku(
        net, sample, loss, train_kwargs={"training": True}, eval_kwargs={"training": False}
    )
    averaging = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        fedjax.optimizers.sgd(work.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=work.epochs, seed=work.seed),
    )
    held = [
        fedjax.ClientDataset(
            {"x": x.permute(0, 2, 3, 1).contiguous().numpy(), "y": y.numpy().astype(np.int32)}
        )
        for x, y in work.data
    ]
    state = averaging.init(net.init(jax.random.PRNGKey(work.seed), sample, training=False))
    line.ready(f"FedJAX {version('fedjax')}, JAX {version('jax')}, compiled, one process", threaded=False)
    for number, clients in enumerate(line.rounds()):
        keys = jax.random.split(jax.random.PRNGKey(number), len(clients))
        began = time.perf_counter()
        state, _ = averaging.apply(state, [(c, held[c], k) for c, k in zip(clients, keys, strict=True)])
        jax.block_until_ready(state.params)
        line.played(time.perf_counter() - began, work.trained(clients))


if __name__ == "__main__":
    main()
