"""bandit's rules for Python. Runs in a child process, because scanning holds the interpreter lock and the input may be hostile."""

import json
import logging
import subprocess
from dataclasses import dataclass

from sless.children import run_child
from sless.domain.code_check import CodeToCheck, Finding, Opinion

_log = logging.getLogger(__name__)

CHILD_SEC = 60.0


@dataclass(frozen=True, slots=True)
class RulesValidator:
    """Implements `ports.CodeCheck`. If it `blocks`, comments such as `# nosec` have no effect."""

    blocks: bool = False
    name: str = "rules"

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        if code.language != "python":
            return Opinion()
        order = json.dumps({"package": str(code.path), "heed_comments": not self.blocks}).encode()
        try:
            done = run_child("sless.validators.rules_child", order, CHILD_SEC, packages=True)
        except subprocess.TimeoutExpired:
            return Opinion(failure=f"the rules took longer than {CHILD_SEC:.0f} s")
        if done.returncode != 0:
            _log.error("the rules of %s ended with code %d: %s", code.name, done.returncode, done.stderr.decode(errors="replace")[-2000:])
            return Opinion(failure="the code could not be read by the rules: it is nested too deeply or too large")
        answer = json.loads(done.stdout)
        found = tuple(Finding(path=item["path"], line=item["line"], message=item["message"]) for item in answer["findings"])
        return Opinion(is_unsafe=bool(found), findings=found, skipped=tuple(answer["skipped"]))
