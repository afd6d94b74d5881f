import math

from values import bad_request, fields_of


def run(event):
    """Divides by zero without a divisor: an exception, and so a 500."""
    fields = fields_of(event)
    n, d = fields.get("n", 1), fields.get("d", 0)
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in (n, d)):
        return bad_request("n and d: expected numbers")
    try:
        result = n / d
    except OverflowError:
        result = math.inf
    return {"result": result} if math.isfinite(result) else bad_request("n and d: expected a quotient that a float can hold")
