"""The leaderboard as text that other programs read: CSV, and LaTeX with booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from unskew.report.results import words
from unskew.report.results.comparison import Comparison
from unskew.report.results.leaderboard import Row
from unskew.report.results.statistics import Estimate

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


def csv_text(compared: Comparison) -> str:
    """A row a group: every number in a column of its own, shares of 1, empty where there is none."""
    table: list[dict[str, Any]] = []
    for problem, rows in compared.tables:
        for row in rows:
            flat: dict[str, Any] = {"problem": problem.name}
            for name, value in row.as_dict().items():
                if isinstance(value, dict):
                    for target, reached in value.items():
                        flat[f"rounds_to_{target}"] = reached["rounds"]
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
    """A booktabs table: mean ± half the 95% interval in percent, the best of each problem in bold."""
    compares = any(row.difference for _, rows in compared.tables for row in rows)
    targets = list(
        dict.fromkeys(r.target for _, rows in compared.tables for row in rows for r in row.reached)
    )
    heads = ["Method", "Seeds", "Final", "Best"] + (["Difference", "$p$"] if compares else [])
    goals = targets if len(targets) <= 3 and len(compared.tables) == 1 else []
    heads += [f"Rounds to {100 * goal:.4g}\\%" for goal in goals] + ["Traffic", "Sample-steps"]
    lines = [
        "% needs \\usepackage{booktabs}",
        "% global test accuracy of the global model in percent: mean over seeds $\\pm$ half the 95% interval",
        "% (Student's t); difference to the baseline paired over common seeds, p of the paired t-test",
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
    ]
    for problem, rows in compared.tables:
        lines.append("\\midrule")
        if len(compared.tables) > 1:
            lines.append(f"\\multicolumn{{{len(heads)}}}{{l}}{{\\textit{{{escaped(problem.name)}}}}} \\\\")
        winner = words.contenders(rows)[0]
        lines += [
            " & ".join(_cells(row, row is winner and len(rows) > 1, compares, goals)) + " \\\\"
            for row in rows
        ]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _cells(row: Row, won: bool, compares: bool, goals: Sequence[float]) -> list[str]:
    cells = [escaped(row.group.label), str(row.final.n), _number(row.final, won), _number(row.best)]
    if compares:
        apart = row.difference
        if apart is None or apart.mean is None:
            cells += ["--", "--"]
        else:
            around = f" \\pm {words.plain(apart.half)}" if apart.half is not None else ""
            cells += [f"${100 * apart.mean:+.2f}{around}$", escaped(words.p_text(apart.p))]
    reached = {r.target: words.when_reached(r) for r in row.reached}
    cells += [escaped(reached.get(goal, words.DASH)) for goal in goals]
    traffic = words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean)
    return [*cells, escaped(traffic), escaped(words.amount(row.sample_steps.mean))]


def _number(of: Estimate, bold: bool = False) -> str:
    mean = f"\\mathbf{{{words.plain(of.mean)}}}" if bold else words.plain(of.mean)
    return f"${mean} \\pm {words.plain(of.half)}$" if of.half is not None else f"${mean}$"
