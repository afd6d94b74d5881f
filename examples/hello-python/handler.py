"""hello-python greets the caller: POST {"name": "Ada"} or GET ?name=Ada.

Test: python3 -m unittest. Run locally: sless dev . `handle` returns the response; what it prints is logged. List packages to install
in requirements.txt, and files not to upload in .slessignore.
"""


def handle(event, context):
    name = event.get("name") or "world"
    print(f"greeting {name}, request {context.request_id}")
    return {"message": f"Hello, {name}!", "runtime": "python", "version": context.version}
