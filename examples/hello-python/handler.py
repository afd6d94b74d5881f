"""hello-python greets whoever calls: POST {"name": "Ada"} or GET ?name=Ada.

Test: python3 -m unittest. Run here: sless dev . Whatever `handle` returns is the answer, what it prints is its log; packages to install
stand in requirements.txt, files that stay at home in .slessignore.
"""


def handle(event, context):
    name = event.get("name") or "world"
    print(f"greeting {name}, request {context.request_id}")
    return {"message": f"Hello, {name}!", "runtime": "python", "version": context.version}
