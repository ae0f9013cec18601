"""Asking a chat model for one JSON object: render a prompt, parse the reply strictly, complain and retry, pay once."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Annotated, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from eval.build.journal import Call, Journal, Role
from plume_memory.errors import PlumeError

Said = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
"""A text that a model must give."""

_PROMPTS = Path(__file__).with_name("prompts")
_LONGEST_COMPLAINT = 1500
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)


class Reply(BaseModel):
    """Base of the objects that models are asked for: unknown keys and other types are complaints."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


SomeReply = TypeVar("SomeReply", bound=Reply)


class MalformedReply(PlumeError):
    """The model did not give a usable object within the retries."""

    def __init__(self, stage: str, complaint: str) -> None:
        super().__init__(f"{stage}: {complaint}")
        self.stage = stage
        self.complaint = complaint


def render(name: str, **fields: str) -> str:
    """Fill the prompt `prompts/NAME.md`. Values are put in as they are, whatever `$` or `{` they hold."""
    return Template(_template(name)).substitute(fields)


def prompts_sha256() -> str:
    """Identity of all prompts together; a build with other prompts is another build."""
    digest = hashlib.sha256()
    for path in sorted(_PROMPTS.glob("*.md")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def model_identity(model: BaseChatModel) -> str:
    """What tells two models apart for the cache: class, provider, and the parameters LangChain identifies them by.

    Values that are no JSON (clients, secrets) enter by their type's name, so that the identity is the same in the
    next process and holds no key.
    """
    named = {
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "type": model._llm_type,
        "parameters": dict(model._identifying_params),
        "attributes": dict(model.lc_attributes),
    }
    return json.dumps(named, sort_keys=True, default=lambda value: type(value).__qualname__)


class Asker:
    """A chat model in one role, with the journal that pays for every call once."""

    def __init__(self, model: BaseChatModel, role: Role, journal: Journal, *, retries: int) -> None:
        self._model = model
        self._identity = model_identity(model)
        self._role = role
        self._journal = journal
        self._retries = retries

    def ask(
        self,
        source_id: str,
        stage: str,
        prompt: str,
        reply_type: type[SomeReply],
        complain: Callable[[SomeReply], Sequence[str]] = lambda _: (),
    ) -> SomeReply:
        """Ask for one object; `complain` says what is wrong with one that has the right form.

        Raises:
            MalformedReply: no reply was usable, after as many retries as this asker allows.
        """
        messages: list[BaseMessage] = [HumanMessage(prompt)]
        for attempt in range(self._retries + 1):
            paid = self._pay(source_id, stage, messages)
            text = paid.reply
            parsed = _parse(text, reply_type)
            if isinstance(parsed, str) and paid.cut:
                # the same prompt would be cut at the same place, and paid again
                advice = "build with a larger --max-tokens, in a new folder"
                raise MalformedReply(stage, f"the reply was cut at the model's limit of tokens; {advice}")
            complaints = [parsed] if isinstance(parsed, str) else list(complain(parsed))
            if not isinstance(parsed, str) and not complaints:
                return parsed
            complaint = "; ".join(complaints)[:_LONGEST_COMPLAINT]
            if attempt < self._retries:
                messages += [AIMessage(text), HumanMessage(render("retry", complaint=complaint))]
        raise MalformedReply(stage, complaint)

    def _pay(self, source_id: str, stage: str, messages: Sequence[BaseMessage]) -> Call:
        """The model's reply to the messages: from the journal where it was paid for, else from the model."""
        said = [[message.type, str(message.text)] for message in messages]
        key = hashlib.sha256(json.dumps([self._identity, said]).encode()).hexdigest()
        known = self._journal.reply(key)
        if known is not None:
            return known
        begin = time.perf_counter()
        answer = self._model.invoke(list(messages))
        usage = answer.usage_metadata if isinstance(answer, AIMessage) else None
        call = Call(
            key=key,
            source_id=source_id,
            stage=stage,
            role=self._role,
            reply=str(answer.text),
            input_tokens=usage["input_tokens"] if usage else None,
            output_tokens=usage["output_tokens"] if usage else None,
            seconds=time.perf_counter() - begin,
            cut=_was_cut(answer),
        )
        self._journal.append(call)
        return call


def _was_cut(answer: BaseMessage) -> bool:
    """Whether a provider says that its limit of tokens ended the reply: OpenAI's word for it, or Anthropic's."""
    said = answer.response_metadata
    return said.get("finish_reason") == "length" or said.get("stop_reason") == "max_tokens"


def _parse(text: str, reply_type: type[SomeReply]) -> SomeReply | str:
    """The object, or the complaint. One Markdown fence around the whole reply is taken off, nothing else is mended."""
    fenced = _FENCE.fullmatch(text)
    try:
        return reply_type.model_validate_json(fenced["inside"] if fenced else text)
    except ValidationError as err:
        return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {e['msg']}" for e in err.errors())


def _template(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8")
