from values import fields_of, number_of

MOST_KB = 256
ITEM = "x" * 1000


def bigpayload(event):
    """About `size_kb` KB of JSON."""
    size_kb = number_of(fields_of(event).get("size_kb"), 16, most=MOST_KB)
    return {"items_count": size_kb, "size_kb": size_kb, "items": [{"id": number, "text": ITEM} for number in range(size_kb)]}
