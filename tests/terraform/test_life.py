"""Plan, apply, no change, edit, destroy."""

import requests

FUNCTION = """
resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/code"
  memory_mb  = 64
  min_instances = 2
}

resource "sless_trigger" "hello" {
  name         = "hello"
  type         = "http"
  function_ref = sless_function.hello.name
}

output "url" {
  value = sless_trigger.hello.url
}
"""


def test_a_function_and_its_trigger_from_plan_to_destroy(workspace):
    code = workspace.code()
    workspace.write(FUNCTION)
    changes = workspace.plan()
    assert {address: change["actions"] for address, change in changes.items()} == {
        "sless_function.hello": ["create"],
        "sless_trigger.hello": ["create"],
    }
    assert len(changes["sless_function.hello"]["after"]["code_hash"]) == 64
    url = workspace.apply()["url"]
    assert requests.get(url, timeout=10).json() == {"text": "one"}
    (code / "handler.py").touch()
    assert workspace.is_unchanged()

    workspace.code("def handle(event):\n    return {'text': 'two'}\n")
    assert workspace.plan()["sless_function.hello"]["actions"] == ["update"]
    workspace.apply()
    assert requests.get(url, timeout=10).json() == {"text": "two"}

    assert workspace.tenant.get("functions/hello").json()["min_instances"] == 2
    workspace.write(FUNCTION.replace("  memory_mb  = 64\n  min_instances = 2\n", ""))
    workspace.apply()
    found = workspace.tenant.get("functions/hello").json()
    assert (found["memory_mb"], found["min_instances"]) == (128, 1), "a removed attribute returns to its default, here the operator's"
    assert workspace.is_unchanged()

    workspace.write(FUNCTION.replace('= "hello"\n  runtime', '= "other"\n  runtime').replace('"http"', '"http"\n  enabled = false'))
    changes = workspace.plan()
    assert {address: change["actions"] for address, change in changes.items()} == {
        "sless_function.hello": ["delete", "create"],
        "sless_trigger.hello": ["update"],
    }
    workspace.ok("destroy", "-auto-approve")
    assert workspace.tenant.get("functions/hello").status_code == 404
    assert workspace.tenant.get("triggers/hello").status_code == 404
