"""Parts of a report that other pages have too: who won and how sure that is, what it cost, how it was learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unskew.report.page import Block, Figure, Heading, Paragraph
from unskew.report.results import words
from unskew.report.results.choice import choices
from unskew.report.results.curves import WIDTH, learning_curves
from unskew.report.results.front import front_picture, front_told, has_front
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style
from unskew.report.results.markup import cost_table, leaderboard_table, notice, scores_table
from unskew.report.results.scores import blanks_told
from unskew.report.theme import themed


def leaderboard_section(
    rows: Sequence[Row], looks: Mapping[str, Style], tail: str = "", level: int = 2
) -> Iterator[Block]:
    """The leaderboard, which settings are chosen, and every metric where there are several."""
    yield Heading("Leaderboard", f"leaderboard{tail}", level)
    yield leaderboard_table(rows, looks)
    yield from (Paragraph(choice.in_words()) for choice in choices(rows))
    if len(rows[0].metrics) > 1:
        yield Heading("By every metric", f"metrics{tail}", level)
        yield scores_table(rows, looks)
        meant = [f"{m.title[0].upper()}{m.title[1:]}: {m.help}" for m in rows[0].metrics if m.help]
        yield Paragraph(" ".join(meant), quiet=True)
        if blanks := blanks_told(rows):
            yield notice(blanks, "Without a number")


def target_section(rows: Sequence[Row], tail: str = "", level: int = 2) -> Iterator[Block]:
    """What it cost to reach each target."""
    for at, goal in enumerate(rows[0].reached):
        yield Heading(f"Cost to reach {words.goal(goal)}", f"reach{at}{tail}", level)
        if not goal.asked:
            yield Paragraph(
                "Nobody named a target (as by --target 0.8): this is the baseline's mean at the end.",
                quiet=True,
            )
        yield cost_table(rows, at)


def curves_section(
    rows: Sequence[Row], looks: Mapping[str, Style], tail: str = "", level: int = 2, width: int = WIDTH
) -> Iterator[Block]:
    """Against rounds, bytes, sample-steps and seconds on the air."""
    yield Heading("Learning curves", f"curves{tail}", level)
    several = any(row.final.n > 1 for row in rows)
    yield Figure(
        themed(learning_curves(rows, looks, width=width)),
        "Click a name in the legend to single it out, again to let it go."
        + (
            " Lines are means over seeds; bands reach from the lowest to the highest seed." if several else ""
        ),
        alt=f"Learning curves. {words.problem_line(rows)}",
    )


def front_section(
    rows: Sequence[Row], looks: Mapping[str, Style], tail: str = "", level: int = 2, width: int = WIDTH
) -> Iterator[Block]:
    """What more of one costs of the others: where there are two methods to choose from."""
    if not has_front(rows):
        return
    told = front_told(rows)
    yield Heading("Trade-offs", f"front{tail}", level)
    yield Figure(
        themed(front_picture(rows, looks, width=width)),
        f"{told} Filled: nobody beats it in {rows[0].metric.title}, traffic and the number of kinds of things that "
        "leave a client beyond model updates. Hollow: another is at least as good in each and better in one.",
        alt=f"{rows[0].metric.title} against traffic. {told}",
    )
