"""Rows of the bench's table, and its text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`value` is the measurement, `aim` the target ("" if none), `met` None without an aim. `detail` has absolute figures, valid only for
    this machine and run."""

    name: str
    value: str
    aim: str = ""
    met: bool | None = None
    detail: str = ""


def at_least(name: str, value: float, aim: float, *, detail: str = "", unit: str = "×") -> Row:
    return Row(name=name, value=f"{value:.3g} {unit}", aim=f"≥ {aim:g} {unit}", met=value >= aim, detail=detail)


def at_most(name: str, value: float, aim: float, *, detail: str = "", unit: str) -> Row:
    return Row(name=name, value=f"{value:.3g} {unit}", aim=f"≤ {aim:g} {unit}", met=value <= aim, detail=detail)


def ratio(name: str, value: float, *, detail: str = "") -> Row:
    return Row(name=name, value=f"{value:.3g} ×", detail=detail)


def text_of(rows: list[Row]) -> str:
    """A Markdown table."""
    cells = [("what", "measured", "aim", "", "figures of this run")]
    cells += [(row.name, row.value, row.aim, _mark(row.met), row.detail) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _mark(met: bool | None) -> str:
    return "" if met is None else "met" if met else "MISSED"
