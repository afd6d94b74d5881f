"""Encodes and decodes JSON with only the C half of the standard library's `json`."""

from _json import encode_basestring_ascii, make_encoder, make_scanner
from binascii import b2a_base64

from .own import standard

DEPTH_LIMIT = 200
"""Depth to which a result is searched for a value that JSON cannot hold; deeper values are reported as too deep."""


class InvalidJson(Exception):
    """The request body is declared as JSON but is not; the message names the position."""


class NotSerializable(Exception):
    """The result cannot be written as JSON; `type_name` is the exception type that `json.dumps` would raise."""

    def __init__(self, message, type_name):
        super().__init__(message)
        self.type_name = type_name


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


class ScannerOptions:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(refuse_constant)


scan = make_scanner(ScannerOptions)


def decode_json(body):
    """Decode UTF-8 bytes. Raises InvalidJson."""
    try:
        text = body.decode("utf-8")
        value, end = scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, ValueError, RecursionError, SystemError):
        pass  # the slow path below finds the reason
    return decode_json_with_care(body)


def decode_json_with_care(body):
    try:
        text = body.decode("utf-8-sig" if body[:3] == b"\xef\xbb\xbf" else "utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidJson(f"byte {wrong.start} is not UTF-8") from None
    return decode_json_text(text)


def decode_json_text(text):
    try:
        value, end = scan_value(text, 0 if text[:1] in "{[" else len(text) - len(text.lstrip(" \t\r\n")))
    except StopIteration as stop:
        raise InvalidJson(f"expected a value at character {stop.value}") from None
    except RecursionError:
        raise InvalidJson("it is nested too deeply") from None
    except ValueError as wrong:
        raise InvalidJson(str(wrong)) from None
    if end != len(text) and text[end:].strip(" \t\r\n"):
        raise InvalidJson(f"unexpected text after the value, at character {end}")
    return value


def scan_value(text, start):
    try:
        return scan(text, start)
    except SystemError:
        # The C scanner looks the exception for a syntax error up in json.decoder, which must have been imported
        standard("json.decoder")
        return scan(text, start)


def plain_of(value):
    """Convert a value that JSON does not know into one that it does. Raises TypeError."""
    kind = type(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64_of(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name, field in kind.__dataclass_fields__.items() if is_field(field)}
    for base in kind.__mro__:
        convert = CONVERSIONS.get((base.__module__, base.__name__))
        if convert is not None:
            return convert(value)
    raise TypeError(f"a {kind.__name__} cannot be written as JSON")


def is_field(field):
    """Whether a dataclass attribute is a field, not a ClassVar or InitVar."""
    return field._field_type.name == "_FIELD"


def number_of(decimal):
    exponent = decimal.as_tuple().exponent
    if isinstance(exponent, int) and 0 <= exponent < 400:
        return int(decimal)
    return float(decimal)


# By name, so that the runtime need not import `decimal`: a handler that returns a Decimal already has.
CONVERSIONS = {
    ("datetime", "datetime"): lambda value: value.isoformat(),
    ("datetime", "date"): lambda value: value.isoformat(),
    ("datetime", "time"): lambda value: value.isoformat(),
    ("uuid", "UUID"): str,
    ("decimal", "Decimal"): number_of,
    ("enum", "Enum"): lambda value: value.value,
}


def base64_of(data):
    return b2a_base64(data, newline=False).decode("ascii")


# Without a table of open containers a cycle ends in a RecursionError, and encoding is a fifth faster.
write = make_encoder(None, plain_of, encode_basestring_ascii, None, ": ", ", ", False, False, False)


def encode_json(value, root="result"):
    """JSON text with Python's separators. Raises NotSerializable, which names the path (from `root`) and type."""
    try:
        return "".join(write(value, 0))
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        raise explanation_of(value, root, wrong) from None


def explanation_of(value, root, wrong):
    try:
        found = find_unwritable(value, "", ())
    except RecursionError:
        found = None
    if found is None:
        return NotSerializable(f"{root} cannot be written as JSON: {wrong}", type(wrong).__name__)
    path, what, type_name = found
    return NotSerializable(f"{root} cannot be written as JSON: {path or root} {what}", type_name)


def find_unwritable(value, path, parents):
    """(path, fault, exception type) of the first part of `value` that JSON cannot hold, or None."""
    if value is None or isinstance(value, (str, bool, int)):
        return None
    if isinstance(value, float):
        return None if value - value == 0 else (path, f"is {number_name(value)} (float)", "ValueError")
    if id(value) in parents:
        return path, f"is a {type(value).__name__} that contains itself (a cycle)", "ValueError"
    if len(parents) > DEPTH_LIMIT:
        return path[:80], "is nested too deeply", "RecursionError"
    inside = (*parents, id(value))
    if isinstance(value, dict):
        return find_in_dict(value, path, inside)
    if isinstance(value, (list, tuple)):
        return first_found(find_unwritable(item, f"{path}[{index}]", inside) for index, item in enumerate(value))
    try:
        return find_unwritable(plain_of(value), path, inside)
    except (TypeError, ValueError, OverflowError):
        return path, f"is a {type(value).__name__}", "TypeError"


def find_in_dict(value, path, inside):
    for key, item in value.items():
        if not isinstance(key, (str, int, float, bool, type(None))):
            return path, f"has the key {key!r}, a {type(key).__name__}; expected a string", "TypeError"
        if isinstance(key, float) and key - key != 0:
            return path, f"has the key {number_name(key)}; expected a string", "ValueError"
        found = find_unwritable(item, joined(path, key), inside)
        if found is not None:
            return found
    return None


def joined(path, key):
    key = str(key)
    if not key.isidentifier():
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def first_found(items):
    return next((item for item in items if item is not None), None)


def number_name(value):
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
