"""with_structured_output: a schema of any kind to a constrained answer and its parser.

All methods decode under the same grammar; there is one internal option, OpenAI's `response_format`.
"""

import json
from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import Generation
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel

from plume_memory.errors import InvalidInput

if TYPE_CHECKING:
    from langchain_core.output_parsers.pydantic import TBaseModel  # noqa: F401 — pydantic's mypy plugin looks for it

Method = Literal["json_schema", "function_calling", "json_mode"]
Schema = dict[str, Any] | type

_SCHEMA_WORDS = {"type", "properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"}
"""One of these makes a dictionary a JSON schema rather than a function's description."""


def structured(
    model: BaseChatModel, schema: Schema | None, *, method: Method, include_raw: bool, strict: bool | None
) -> Runnable[LanguageModelInput, Any]:
    """Return a runnable that answers with values of a schema. See `ChatPlume.with_structured_output`."""
    if method not in ("json_schema", "function_calling", "json_mode"):
        raise InvalidInput(f"method is json_schema, function_calling or json_mode; got {method!r}.")
    if method == "json_mode" and strict is not None:
        raise InvalidInput("`strict` belongs to the other methods; leave it out with json_mode.")
    if method != "json_mode" and schema is None:
        raise InvalidInput(f"method={method!r} needs a schema; pass one, or use method='json_mode'.")
    given = {"strict": strict} if strict is not None else {}
    bound = model.bind(
        response_format=response_format(schema, strict=strict),
        ls_structured_output_format={"kwargs": {"method": method, **given}, "schema": schema},
    )
    parser = _parser(schema)
    if not include_raw:
        return bound | parser
    parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=RunnableLambda(_nothing))
    failed = RunnablePassthrough.assign(parsed=RunnableLambda(_nothing))
    return {"raw": bound} | parsed.with_fallbacks([failed], exception_key="parsing_error")


def response_format(schema: Schema | None, *, strict: bool | None = None) -> dict[str, Any]:
    """Return OpenAI's `response_format` of a schema; of any JSON object without one."""
    if schema is None:
        return {"type": "json_object"}
    own = _json_schema(schema)
    named = {"name": str(own.get("title", "response")), "schema": own}
    return {"type": "json_schema", "json_schema": named if strict is None else {**named, "strict": strict}}


def _json_schema(schema: Schema) -> dict[str, Any]:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()  # with its $defs: a recursive model stays one
    if isinstance(schema, Mapping) and "parameters" not in schema and set(schema) & _SCHEMA_WORDS:
        return dict(schema)
    try:
        return convert_to_json_schema(schema)
    except (ValueError, TypeError) as err:
        raise InvalidInput(
            f"A schema is a pydantic class, a TypedDict or a JSON schema; got {type(schema).__name__}: {err}"
        ) from err


def _nothing(_: Any) -> None:
    return None


class _Whole:
    """Refuses half an answer: LangChain's JSON parsers would repair one that the token budget cut."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        if not partial:
            text = result[0].text.strip()
            try:
                json.loads(text)
            except json.JSONDecodeError as err:
                raise OutputParserException(
                    f"The answer is not whole JSON ({err}). Was it cut? Raise max_tokens, or lower max_string_chars.",
                    llm_output=text,
                ) from err
        return super().parse_result(result, partial=partial)  # type: ignore[misc]


class WholeJson(_Whole, JsonOutputParser):
    """Parses a whole JSON answer; while it streams, what is there so far."""


class WholePydantic(_Whole, PydanticOutputParser[Any]):
    """Parses a whole JSON answer to a pydantic object."""


def _parser(schema: Schema | None) -> Runnable[Any, Any]:
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return WholePydantic(pydantic_object=schema)
    return WholeJson()
