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


class ModelDescription(BaseModel):
    """The model of a service."""

    name: str
    task: str | None
    kind: str = Field(description="The field of an answer with its values: forecast, probabilities or output.")
    variants: list[str] = Field(description="Of the blocks; each once.")
    window: int
    landmarks: int | None
    blocks: int
    width: int
    parameters: int
    inputs: int
    outputs: int
    labels: list[str]
    units: list[str]
    seconds: float | None
    horizons: list[int]
    quantiles: list[float]
    several: bool


class ServiceDescription(BaseModel):
    """The settings of a service."""

    durability: str
    backend: str
    max_streams: int
    max_batch: int
    max_wait_ms: float
    bytes_per_stream: int
    tokens: bool = Field(description="Whether tokens are needed.")


class Throughput(BaseModel):
    """Records a second, oldest first."""

    seconds: float = Field(description="Between two of the rates.")
    rates: list[float]


class Latency(BaseModel):
    """From the arrival of a record to its answer, for the records of the last seconds."""

    seconds: float
    edges_ms: list[float]
    counts: list[int] = Field(description="Records up to each edge, and above the last.")
    p50_ms: float | None = Field(description="Estimated from the counts.")
    p99_ms: float | None


class Status(BaseModel):
    """A service: what does not change, and the present. The live feed sends the latter every second."""

    version: str
    model: ModelDescription
    service: ServiceDescription
    uptime_seconds: float
    ready: bool
    streams_in_memory: int
    waiting: int
    connections: int
    memory_bytes: int | None
    store_bytes: int | None
    records: dict[str, int] = Field(description="By what became of them, since the start.")
    throughput: Throughput
    latency: Latency


class Demo(BaseModel):
    """Records that the model can read."""

    source: str = Field(description="sample: the data set of the package; generated: made up.")
    length: int = Field(description="Records that there are.")
    records: list[Any]


def body(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an operation that describes its body."""
    forms = ("application/json", "application/msgpack")
    return {"requestBody": {"required": True, "content": {form: {"schema": schema} for form in forms}}}
