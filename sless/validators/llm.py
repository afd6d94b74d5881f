"""The opinion of a language model on uploaded code."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from sless import metrics
from sless.domain.code_check import CodeToCheck, Opinion
from sless.domain.ports import VerdictStore
from sless.validators.answer import AnswerRefused, opinion_of_answer
from sless.validators.endpoint import ChatEndpoint, NoAnswer
from sless.validators.prompt import PROMPT_VERSION, Sources, messages_of, read_sources

_log = logging.getLogger(__name__)

AT_ONCE = 4
FAILURES = 3
"""After this many failures in a row, the model is not used for PAUSE_SEC, so that uploads need not wait for its time-out one by one."""
PAUSE_SEC = 30.0


class LlmValidator:
    """Implements `ports.CodeCheck`."""

    name = "llm"

    def __init__(self, endpoint: ChatEndpoint, verdicts: VerdictStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._verdicts = verdicts
        self._clock = clock
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._failures = 0
        self._rests_until = float("-inf")
        self.prompt_key = f"{PROMPT_VERSION} {endpoint.model}"

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        sources = read_sources(code.path)
        if sources.too_large:
            return Opinion(failure=sources.too_large)
        opinion = self._verdict_on(code, sources) if sources.files else Opinion()
        return opinion if opinion.failure else replace(opinion, skipped=sources.skipped)

    def _verdict_on(self, code: CodeToCheck, sources: Sources) -> Opinion:
        known = self._verdicts.find(code.sha256, self.prompt_key)
        if known is not None:
            return known
        if self._rests():
            return Opinion(failure="the model currently does not respond")
        try:
            opinion = self._ask_model(code, sources)
        except (NoAnswer, AnswerRefused) as error:
            self._failed(isinstance(error, NoAnswer))
            _log.warning("the model gave no verdict on code %s of %s: %s", code.sha256, code.name, error)
            return Opinion(failure=str(error))
        self._failures = 0
        self._verdicts.keep(code.sha256, self.prompt_key, opinion)
        return opinion

    def _ask_model(self, code: CodeToCheck, sources: Sources) -> Opinion:
        if not self._slots.acquire(timeout=self._endpoint.timeout_sec):
            raise NoAnswer("too many other uploads wait for the model")
        try:
            answer = self._endpoint.ask(messages_of(sources))
        finally:
            self._slots.release()
        prompt, completion = answer.tokens
        metrics.llm_tokens.labels("prompt").inc(prompt)
        metrics.llm_tokens.labels("completion").inc(completion)
        _log.info("the model spent %d tokens on the prompt and %d on its answer for code %s", prompt, completion, code.sha256)
        return opinion_of_answer(answer.text, sources.files)

    def _rests(self) -> bool:
        return self._clock() < self._rests_until

    def _failed(self, unreachable: bool) -> None:
        with self._lock:
            self._failures = self._failures + 1 if unreachable else 0
            if self._failures >= FAILURES:
                self._rests_until = self._clock() + PAUSE_SEC
                self._failures = 0
