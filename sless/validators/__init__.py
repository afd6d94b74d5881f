"""Code checks at upload, a chain behind one protocol (`ports.Validator`). `make_validator` returns the one that the settings ask for.

`chain` runs the checks in order and applies their modes, and has the check of syntax · `rules` bandit's rules for Python, in the child
process `rules_child` · `llm` a language model behind an OpenAI-compatible chat endpoint, `prompt` its prompt, `answer` validates its
answer, `endpoint` one bounded request.

Decisions:
- No code reaches a builder unchecked: the chain runs before a version exists, and again when stored code gets a runtime of another
  language, whose rules have not been applied yet.
- Intake's child process, which reads the sources anyway, parses them; the first check decides about the errors that it found.
- A check without a verdict (slow, down, malformed answer, too much code) lets the upload pass, with a warning on the version and a count in
  the metrics, because a provider of models must not be able to stop deployments. So does a check that skips single files: each reason for
  skipping some is a warning that names them, also for installed packages, because a package can claim any file as installed.
- The model gets code as JSON data, and its answer must be exactly one object of the expected form. Code that persuades the model to
  answer anything else gets no verdict.
- Verdicts of the model are stored by content hash, model and prompt version; an operator can allow one content hash.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sless.config import Settings
    from sless.domain.ports import Validator, VerdictStore

__all__ = ["make_validator"]


def make_validator(settings: "Settings", verdicts: "VerdictStore") -> "Validator":
    """Raises ConfigError. Imports lazily, since the child process of the rules, which starts with each upload, needs none of it."""
    from sless.errors import ConfigError
    from sless.validators.chain import REQUIRE, Chain, ChainLink, SyntaxValidator
    from sless.validators.rules import RulesValidator

    links = [ChainLink(SyntaxValidator(), REQUIRE)]
    if settings.rules_mode != "off":
        links.append(ChainLink(RulesValidator(blocks=settings.rules_mode == "block"), settings.rules_mode))
    if settings.llm_mode != "off":
        if not settings.llm_url.startswith(("http://", "https://")) or not settings.llm_model:
            raise ConfigError("SLESS_LLM_MODE: expected SLESS_LLM_URL (http or https) and SLESS_LLM_MODEL as well")
        # Imported here: a server without a model starts sooner without an HTTP client.
        from sless.validators.endpoint import ChatEndpoint
        from sless.validators.llm import LlmValidator

        endpoint = ChatEndpoint(settings.llm_url, settings.llm_model, settings.llm_token, float(settings.llm_timeout_sec))
        links.append(ChainLink(LlmValidator(endpoint, verdicts), settings.llm_mode))
    return Chain(tuple(links), verdicts)
