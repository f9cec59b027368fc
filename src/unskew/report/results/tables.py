"""The leaderboard as text that other programs read: CSV, and LaTeX with booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from unskew.report.results import words
from unskew.report.results.comparison import Comparison
from unskew.report.results.leaderboard import Row
from unskew.report.results.reach import Reached
from unskew.report.results.scores import blanks_told, leads
from unskew.report.results.statistics import Estimate, Spread

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "·": r"$\cdot$",
    "<": r"$<$",
    ">": r"$>$",
    "−": r"$-$",
    "–": "--",
}


LATEX_MEANING: dict[Spread, str] = {
    "ci": "half the 95% interval (Student's t)",
    "sd": "the standard deviation (n - 1)",
}


def csv_text(compared: Comparison) -> str:
    """A row a group: every number in a column of its own, shares of 1, empty where there is none."""
    table: list[dict[str, Any]] = []
    for problem, rows in compared.tables:
        for row in rows:
            flat: dict[str, Any] = {"problem": problem.name}
            for name, value in row.as_dict().items():
                if name == "metrics":
                    for metric, found in value.items():
                        flat |= {f"{metric}_{part}": number for part, number in found.items()}
                elif isinstance(value, dict):
                    for target, reached in value.items():
                        costs = {k: v for k, v in reached.items() if k not in ("seeds", "of")}
                        flat |= {f"{cost}_to_{target}": paid for cost, paid in costs.items()}
                        flat[f"seeds_reaching_{target}"] = reached["seeds"]
                else:
                    flat[name] = " ".join(map(str, value)) if isinstance(value, list) else value
            table.append(flat)
    columns = list(dict.fromkeys(name for flat in table for name in flat))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def latex_text(compared: Comparison) -> str:
    """A booktabs table: mean ± spread in percent, the best of each problem in bold; then what targets cost."""
    compares = any(row.difference for _, rows in compared.tables for row in rows)
    targets = list(
        dict.fromkeys(r.target for _, rows in compared.tables for row in rows for r in row.reached)
    )
    heads = ["Method", "Seeds", "Final", "Best"] + (["Difference", "$p$"] if compares else [])
    goals = targets if len(targets) <= 3 and len(compared.tables) == 1 else []
    metric = compared.tables[0][1][0].metric
    asked = [r for r in compared.tables[0][1][0].reached if r.target in goals]
    heads += [f"Rounds to {escape(words.goal(r))}" for r in asked] + ["Traffic", "Sample-steps"]
    lines = [
        "% needs \\usepackage{booktabs}",
        f"% global test {metric.title} of the global model{' in percent' if metric.percent else ''}:",
        f"% mean over seeds $\\pm$ {LATEX_MEANING[compared.spread]};",
        "% difference to the baseline paired over common seeds, p of the paired t-test",
        *(f"% {note}" for note in compared.remarks if note),
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
    ]
    for problem, rows in compared.tables:
        lines.append("\\midrule")
        if len(compared.tables) > 1:
            lines.append(f"\\multicolumn{{{len(heads)}}}{{l}}{{\\textit{{{escape(problem.name)}}}}} \\\\")
        winner = words.contenders(rows)[0]
        lines += [
            " & ".join(_cells(row, row is winner and len(rows) > 1, compares, goals)) + " \\\\"
            for row in rows
        ]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "", *_metrics(compared), *_costs(compared)])


def _metrics(compared: Comparison) -> list[str]:
    """A second table where there is more than one metric: each at the last evaluated round, the best in bold."""
    metrics = compared.tables[0][1][0].metrics
    if len(metrics) < 2:
        return []
    heads = ["Method", *(m.title + (" (\\%)" if m.percent else "") for m in metrics)]
    blanks = dict.fromkeys(line for _, rows in compared.tables for line in blanks_told(rows))
    lines = [
        "\\medskip",
        "",
        "% every metric at the last evaluated round, mean over seeds",
        *(f"% {line}" for line in blanks),
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
    ]
    for problem, rows in compared.tables:
        lines.append("\\midrule")
        if len(compared.tables) > 1:
            lines.append(f"\\multicolumn{{{len(heads)}}}{{l}}{{\\textit{{{escape(problem.name)}}}}} \\\\")
        for row in rows:
            found = [(row.scores.get(m.name), leads(row, rows, m)) for m in metrics]
            cells = ["--" if of is None else _number(of, best) for of, best in found]
            lines.append(" & ".join([escape(row.group.label), *cells]) + " \\\\")
    return [*lines, "\\bottomrule", "\\end{tabular}", ""]


def _costs(compared: Comparison) -> list[str]:
    """A second table where targets were asked for: what it cost to reach each."""
    asked = {r.name: r.target for _, rows in compared.tables for r in rows[0].reached if r.asked}
    if not asked:
        return []
    every = [r for _, rows in compared.tables for row in rows for r in row.reached]
    peers = any(r.cost.get("bytes_peer") for r in every)
    air = any("air_s" in r.cost for r in every)
    heads = ["Method", "Seeds", "Rounds", "Bytes down", "Bytes up"] + (
        ["Bytes between clients"] if peers else []
    )
    heads += (["Seconds on the air"] if air else []) + ["Sample-steps"]
    lines = [
        "\\medskip",
        "",
        "% cost until the first evaluated round at the target: mean over the seeds that reach it, of all seeds;",
        "% empty cells: no seed reaches it",
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
    ]
    for problem, rows in compared.tables:
        for at, goal in enumerate(rows[0].reached):
            if not goal.asked:
                continue
            name = f"To {words.goal(goal)}" + (f" · {problem.name}" if len(compared.tables) > 1 else "")
            lines += ["\\midrule", f"\\multicolumn{{{len(heads)}}}{{l}}{{\\textit{{{escape(name)}}}}} \\\\"]
            lines += [" & ".join(_paid(row, row.reached[at], peers, air)) + " \\\\" for row in rows]
    return [*lines, "\\bottomrule", "\\end{tabular}", ""]


def _paid(row: Row, to: Reached, peers: bool, air: bool) -> list[str]:
    cost, bound = to.cost, row.group.bound == "upper"
    seeds = f"{to.seeds} of {to.of}"
    if to.rounds is None:
        when = "never" if row.group.complete else "not so far"
        return [escape(row.group.label), seeds, when, *([""] * (3 + peers + air))]
    moved = [cost["bytes_down"], cost["bytes_up"], *([cost["bytes_peer"]] if peers else [])]
    cells = ["--" if bound else escape(words.size(count)) for count in moved]
    if air:
        cells.append("--" if bound or "air_s" not in cost else escape(words.duration(cost["air_s"])))
    steps = escape(words.amount(cost["sample_steps"]))
    return [escape(row.group.label), seeds, words.rounds(to.rounds), *cells, steps]


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _cells(row: Row, won: bool, compares: bool, goals: Sequence[float]) -> list[str]:
    cells = [escape(row.group.label), str(row.final.n), _number(row.final, won), _number(row.best)]
    if compares:
        apart = row.difference
        if apart is None or apart.mean is None:
            cells += ["--", "--"]
        else:
            around = f" \\pm {words.plain(apart.around, row.metric)}" if apart.around is not None else ""
            signed = words.signed(apart.mean, 2, row.metric).replace("−", "-")
            cells += [f"${signed}{around}$", escape(words.p_text(apart.p))]
    reached = {r.target: words.when_reached(r, row.group.complete) for r in row.reached}
    cells += [escape(reached.get(goal, words.DASH)) for goal in goals]
    traffic = words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean)
    return [*cells, escape(traffic), escape(words.amount(row.sample_steps.mean))]


def _number(of: Estimate, bold: bool = False) -> str:
    mean = words.plain(of.mean, of.metric)
    mean = f"\\mathbf{{{mean}}}" if bold else mean
    return f"${mean} \\pm {words.plain(of.around, of.metric)}$" if of.around is not None else f"${mean}$"
