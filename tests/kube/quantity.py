"""Quantities: `128Mi`, `500m`, `4`; the server stores them in their canonical form."""

from decimal import Decimal, InvalidOperation

_BINARY = {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)}
_DECIMAL = {
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
}


def _split(text: str) -> tuple[Decimal, str]:
    unit = text[-2:] if text[-2:] in _BINARY else text[-1:] if text[-1:] in _DECIMAL else ""
    try:
        return Decimal(text.removesuffix(unit) if unit else text), unit
    except InvalidOperation:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'") from None


def value_of(text: str | int | float) -> Decimal:
    """In base units (bytes, cores). Raises ValueError."""
    number, unit = _split(str(text))
    return number * (_BINARY.get(unit) or _DECIMAL[unit])


def canonical(text: str | int | float) -> str:
    """A whole number in the largest possible unit, binary or decimal as in the input."""
    number, unit = _split(str(text))
    value = number * (_BINARY.get(unit) or _DECIMAL[unit])
    if value == 0:
        return "0"
    family = {"": Decimal(1), **_BINARY} if unit in _BINARY and value == value.to_integral_value() else _DECIMAL
    for name, size in sorted(family.items(), key=lambda pair: -pair[1]):
        if value % size == 0:
            return f"{int(value / size)}{name}"
    return f"{-int(-value // _DECIMAL['n'])}n"


def text_of(value: Decimal, like: str) -> str:
    """A computed value for a status: memory in binary units, everything else in decimal units."""
    if "memory" in like or "storage" in like:
        return canonical(f"{int(value / 1024)}Ki") if value % 1024 == 0 else str(int(value))
    return canonical(str(value))
