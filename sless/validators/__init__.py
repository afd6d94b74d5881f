"""Code checks at upload, a chain behind one protocol (`ports.Validator`). `make_validator` returns the one that the settings ask for.

`chain` the checks in order, and what their modes mean · `syntax` · `rules` bandit's rules for Python, in the child process `rules_child`
· `llm` a language model behind an OpenAI-compatible chat endpoint, `prompt` what it is asked, `answer` which of its answers count,
`endpoint` one bounded request.

Decisions:
- Nothing reaches a builder unchecked: the chain runs before a version exists, and again when stored code becomes that of another language,
  as its rules have not seen it.
- Sources are parsed by intake's child process, which has them at hand; the first check decides about what it found.
- A check that cannot give a verdict (slow, down, an answer of another form, too much code) lets the upload pass, with a warning on the
  version and a count in the metrics: a provider of models must not be able to stop deployments.
- The model sees code as JSON data, and only an answer that is exactly one object of the expected form counts. A model that was talked into
  answering something else has given no verdict.
- Verdicts of the model are kept by content hash, model and prompt version; an operator can allow one content hash.
"""

from sless.config import Settings
from sless.domain.ports import Validator, VerdictStore
from sless.errors import ConfigError
from sless.validators.chain import REQUIRE, Chain, Link
from sless.validators.endpoint import ChatEndpoint
from sless.validators.llm import LlmValidator
from sless.validators.rules import RulesValidator
from sless.validators.syntax import SyntaxValidator

__all__ = ["make_validator"]


def make_validator(settings: Settings, verdicts: VerdictStore) -> Validator:
    """Raises ConfigError."""
    links = [Link(SyntaxValidator(), REQUIRE)]
    if settings.rules_mode != "off":
        links.append(Link(RulesValidator(blocks=settings.rules_mode == "block"), settings.rules_mode))
    if settings.llm_mode != "off":
        if not settings.llm_url.startswith(("http://", "https://")) or not settings.llm_model:
            raise ConfigError("SLESS_LLM_MODE: expected SLESS_LLM_URL (http or https) and SLESS_LLM_MODEL as well")
        endpoint = ChatEndpoint(settings.llm_url, settings.llm_model, settings.llm_token, float(settings.llm_timeout_sec))
        links.append(Link(LlmValidator(endpoint, verdicts), settings.llm_mode))
    return Chain(tuple(links), verdicts)
