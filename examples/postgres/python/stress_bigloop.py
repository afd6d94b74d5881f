from values import fields_of, number_of

MOST = 3_000_000


def run(event):
    n = number_of(fields_of(event).get("n"), 100_000, most=MOST)
    total = 0
    for number in range(n):
        total += number
    return {"n": n, "total": total}
