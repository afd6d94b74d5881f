"""Greets whoever calls: POST {"name": "Ada"} or GET ?name=Ada."""


def handle(event, context):
    name = event.get("name") or "world"
    print(f"greeting {name}, request {context.request_id}")
    return {"message": f"Hello, {name}!", "runtime": "python", "version": context.version}
