"""Bodies of requests and responses, for the OpenAPI description. Bodies are read by `protocol`, which bounds them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from nystream.serve.protocol import MAX_KEY, MAX_NUMBER

KEY = {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "description": "Printable characters."}
NUMBER = {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER // 2, "description": "Number of the first record."}
OPEN_BODY = {"type": "object", "required": ["key"], "properties": {"key": KEY}}
RECORD: dict[str, Any] = {"description": "As in a line of JSON for `nystream stream`: an object or an array."}
PUSH_BODY = {
    "type": "object",
    "properties": {"number": NUMBER, "record": RECORD, "records": {"type": "array", "items": RECORD, "minItems": 1}},
    "oneOf": [{"required": ["record"]}, {"required": ["records"]}],
}


class Opened(BaseModel):
    """A stream that was opened or resumed."""

    key: str
    next: int = Field(description="The number of the next record.")
    kept: int = Field(description="Records that can be sent again: the answers to the last ones are kept.")
    max_frame_bytes: int = Field(description="The largest WebSocket frame or HTTP body.")
    new: bool


class Stream(BaseModel):
    """A stream."""

    key: str
    next: int
    kept: int
    in_memory: bool
    inexact: int | None = Field(None, description="How many answers will be inexact, after a change of the model.")


class Streams(BaseModel):
    """Streams in order of their keys."""

    streams: list[Stream]


class Error(BaseModel):
    """What is wrong."""

    code: str
    message: str


class Refusal(BaseModel):
    """A request that was refused."""

    error: Error


class Result(BaseModel):
    """What became of a record: answers to its tokens, or an error if it could not be read."""

    number: int
    answers: list[dict[str, Any]] | None = None
    error: Error | None = None
    note: str | None = None
    inexact: bool | None = Field(None, description="The window of a new model was not full yet.")


class Results(BaseModel):
    """The results of records, in order."""

    results: list[Result]


def body(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an operation that describes its body."""
    forms = ("application/json", "application/msgpack")
    return {"requestBody": {"required": True, "content": {form: {"schema": schema} for form in forms}}}
