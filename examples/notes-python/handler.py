"""Notes over REST: GET and POST /notes, GET, PUT and DELETE /notes/{id}."""

from store import Notes

notes = Notes()
MOST = {"title": 200, "text": 10_000}


def handle(event, context):
    match context.http.path.strip("/").split("/"):
        case ["notes"]:
            return many(context.http.method, event, context)
        case ["notes", note_id] if note_id.isdecimal() and len(note_id) < 19:
            return one(context.http.method, int(note_id), event)
    return not_found(f"{context.http.path}: there are /notes and /notes/ID")


def many(method, event, context):
    match method:
        case "GET" | "HEAD":
            return notes.all(event.get("word", ""))
        case "POST":
            if mistakes := mistakes_of(event):
                return {"error": "; ".join(mistakes)}, 400
            note = notes.add(event | {"text": event.get("text", "")})
            return note, 201, {"Location": f"{context.http.full_path.rstrip('/')}/{note['id']}"}
    return not_allowed("GET, POST")


def one(method, note_id, event):
    match method:
        case "GET" | "HEAD":
            return notes.find(note_id) or not_found(f"no note {note_id}")
        case "PUT":
            if mistakes := mistakes_of(event):
                return {"error": "; ".join(mistakes)}, 400
            return notes.replace(note_id, event | {"text": event.get("text", "")}) or not_found(f"no note {note_id}")
        case "DELETE":
            return None if notes.remove(note_id) else not_found(f"no note {note_id}")
    return not_allowed("GET, PUT, DELETE")


def mistakes_of(event):
    """A note is {"title", "text"}; the text is optional."""
    if not isinstance(event, dict):
        return [f"expected a JSON object, found {type(event).__name__}"]
    mistakes = [f"{name}: no such field" for name in event.keys() - MOST.keys()]
    for name, most in MOST.items():
        value = event.get(name, "")
        if not isinstance(value, str):
            mistakes.append(f"{name}: expected a string, found {type(value).__name__}")
        elif "\0" in value or len(value) > most:
            mistakes.append(f"{name}: expected at most {most} characters, without zero bytes")
        elif name == "title" and not value.strip():
            mistakes.append("title: expected a string that is not empty")
    return sorted(mistakes)


def not_found(text):
    return {"error": text}, 404


def not_allowed(methods):
    return {"error": f"expected one of {methods}"}, 405, {"Allow": methods}
