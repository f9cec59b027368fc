"""Pictures of scarcity: FLea's figures 2 (accuracy against the size of clients) and 3 (scores and t-SNE)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from unskew.data.files import damaged, read_npz
from unskew.report.drawing import save_chart
from unskew.report.results.gather import Record
from unskew.report.results.look import colour_of
from unskew.report.theme import BLUE, INK, MUTED, ORANGE, PALETTE
from unskew.sealed import unseal

Picture = Any


def draw(folder: Path) -> list[Path]:
    """Draw what an analysis left in ``folder``: bars.png and tsne.png."""
    place = folder / "overfitting.json"
    record = unseal(place.read_bytes(), required=False)
    if record is None:
        raise damaged(place, "it is not JSON that fits its checksum")
    drawn = [save_chart(scores(record), folder / "bars.png", "Davies-Bouldin scores")]
    features = read_npz(folder / "features.npz")
    drawn.append(save_chart(embedded(record, features), folder / "tsne.png", "t-SNE of features"))
    return drawn


def scores(record: dict[str, Any]) -> Picture:
    """The score on training and test data, of local models and of their average, by group."""
    bars = [
        {
            "group": row["group"],
            "of": who,
            "on": on,
            "db": row[key][f"{on}_db"],
            "text": f"{row[key][f'{on}_db']:.1f}",
        }
        for row in record["groups"]
        for key, who in (("local", "local models, mean"), ("average", "their average"))
        for on in ("train", "test")
    ]
    order = [row["group"] for row in record["groups"]]
    start = record["start"]["test_db"]
    panels: list[Picture] = []
    for who in ("local models, mean", "their average"):
        mine = [bar for bar in bars if bar["of"] == who]
        base = alt.Chart(alt.InlineData(values=mine)).encode(
            x=alt.X("group:N")
            .scale(domain=order)
            .axis(title="samples of a client", labelAngle=0, ticks=False),
            xOffset=alt.XOffset("on:N").sort(["train", "test"]),
            y=alt.Y("db:Q").axis(
                title="Davies-Bouldin score" if not panels else None, tickCount=5, domain=False
            ),
        )
        tone = (
            alt.Color("on:N")
            .scale(domain=["train", "test"], range=[BLUE, ORANGE])
            .legend(title=None, orient="top")
        )
        rule = alt.Chart(alt.InlineData(values=[{"db": start, "text": f"before, test {start:.1f}"}])).encode(
            y="db:Q"
        )
        panels.append(
            alt.layer(
                base.mark_bar().encode(color=tone),
                base.mark_text(dy=-6, fontSize=10, color=INK).encode(text="text:N"),
                rule.mark_rule(strokeDash=[4, 3], color=MUTED),
                rule.mark_text(align="left", dy=-6, color=MUTED).encode(text="text:N", x=alt.value(2)),
            ).properties(width=300, height=230, title=who[0].upper() + who[1:])
        )
    return alt.hconcat(*panels).resolve_scale(y="shared")


def embedded(record: dict[str, Any], features: dict[str, Any]) -> Picture:
    """t-SNE of a local model's features on its training data and on the test set, and of the average's."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    panels: list[Picture] = []
    kinds = (("train", "one local model, its training data"), ("test", "one local model, test data"))
    for kind, words in (*kinds, ("average", "the average of local models, test data")):
        row = []
        for group in (told["group"] for told in record["groups"]):
            x, y = features[f"{group} {kind}"].astype(np.float32), features[f"labels {group} {kind}"]
            perplexity = float(min(30, max(2, (len(x) - 1) // 3)))
            # so that the number of cores changes nothing, and a busy machine stalls it less
            with threadpool_limits(1):
                at = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(x)
            dots = [
                {"a": float(a), "b": float(b), "class": str(c)}
                for (a, b), c in zip(at.round(2), y.tolist(), strict=True)
            ]
            row.append(
                alt.Chart(alt.InlineData(values=dots))
                .mark_circle(size=14, opacity=0.75)
                .encode(
                    x=alt.X("a:Q").axis(None),
                    y=alt.Y("b:Q").axis(None),
                    color=alt.Color("class:N")
                    .scale(range=[*PALETTE, "#888888", "#7a4f01", "#4b0082"])
                    .legend(None),
                )
                .properties(
                    width=170,
                    height=170,
                    title=alt.TitleParams(f"{group} samples a client", fontSize=12, offset=4),
                )
            )
        panels.append(alt.hconcat(*row, spacing=14, title=alt.TitleParams(words, fontSize=13)))
    return alt.vconcat(*panels, spacing=18).resolve_scale(x="independent", y="independent")


def accuracy_by_size(records: Sequence[Record]) -> Picture:
    """Figure 2: the best global test accuracy of every method, by how many samples clients hold."""
    bars = []
    for record in records:
        if record.judged:
            size = round(record.data["samples"] / record.data["clients"])
            bars.append(
                {"size": size, "method": record.spec.method, "accuracy": record.best["global_test_accuracy"]}
            )
    sizes = sorted({bar["size"] for bar in bars}, reverse=True)
    methods = list(dict.fromkeys(bar["method"] for bar in bars))
    base = alt.Chart(alt.InlineData(values=bars)).encode(
        x=alt.X("size:O")
        .scale(domain=sizes)
        .axis(title="samples of a client |D_k|", labelAngle=0, ticks=False),
        xOffset=alt.XOffset("method:N").sort(methods),
        y=alt.Y("mean(accuracy):Q").axis(title="best global test accuracy", format="%", domain=False),
    )
    colours = [colour_of(method) for method in methods]
    tone = alt.Color("method:N").scale(domain=methods, range=colours).legend(title=None, orient="top")
    return alt.layer(
        base.mark_bar().encode(color=tone),
        base.mark_text(dy=-6, fontSize=10, color=INK).encode(text=alt.Text("mean(accuracy):Q", format=".0%")),
    ).properties(width=560, height=260, title="Accuracy falls with the data of a client")
