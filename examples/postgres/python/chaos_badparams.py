from values import fields_of, number_of, text_of

EXPECTED = {"n": (int, float), "name": str, "flag": bool}


def validate(event):
    """Reports what is wrong with each parameter and uses a default."""
    fields = fields_of(event)
    errors = [
        f"{name}: expected {name_of(kind)}, found {type(fields[name]).__name__}"
        for name, kind in EXPECTED.items()
        if name in fields and (not isinstance(fields[name], kind) or (name == "n" and isinstance(fields[name], bool)))
    ]
    results = {
        "n": number_of(fields.get("n"), 0, least=-(10**9), most=10**9),
        "name": text_of(fields.get("name"))[:100],
        "flag": fields.get("flag") is True,
    }
    return {"ok": not errors, "errors": errors, "results": results}


def name_of(kind):
    return "a number" if isinstance(kind, tuple) else {"str": "a text", "bool": "true or false"}[kind.__name__]
