"""The Rust half of Runvil. Internal: import the public names from `runvil`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, Literal, Self, SupportsIndex, final, overload

from typing_extensions import Buffer, disjoint_base

from runvil.errors import LoopError

__version__: str

@final
class Problem:
    """One thing wrong with a prompt document. Lines and columns are 1-based; columns count bytes."""

    @property
    def kind(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def column(self) -> int | None: ...

@final
class Role:
    """A model role that a prompt declares."""

    @property
    def label(self) -> str: ...
    @property
    def keywords(self) -> list[str]: ...
    @property
    def min_context(self) -> int | None: ...
    @property
    def description(self) -> str | None: ...

@final
class Prompt:
    """A parsed prompt document with its Lua compiled."""

    @staticmethod
    def parse(source: bytes) -> tuple[Prompt | None, list[Problem]]: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def version(self) -> int | None: ...
    @property
    def dialect(self) -> str | None: ...
    @property
    def source(self) -> str: ...
    @property
    def warnings(self) -> list[Problem]: ...
    @property
    def max_tool_iterations(self) -> int | None: ...
    @property
    def roles(self) -> list[Role]: ...
    @property
    def uses(self) -> list[tuple[str, bool, object]]: ...

@final
class Event:
    """Something a run reports."""

    @property
    def kind(self) -> str: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class CountRequest:
    """A request whose tokens are to be counted before its precheck."""

    @property
    def model(self) -> str: ...
    @property
    def role(self) -> str | None: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def tools(self) -> list[dict[str, Any]]: ...
    def messages(self) -> list[dict[str, Any]]: ...

@final
class LoopStep:
    """What a loop's driver does next: `round`, `send`, `calls`, `wait`, `compact`, `finished` or `failed`."""

    @property
    def kind(self) -> str: ...
    @property
    def request(self) -> RoundRequest: ...
    @property
    def count(self) -> CountRequest: ...
    @property
    def calls(self) -> list[tuple[int, str, str, dict[str, Any]]]: ...
    @property
    def reason(self) -> str: ...
    @property
    def error(self) -> LoopError: ...

@final
class ConversationLoop:
    """One loop over a conversation: answers go in, steps come out."""

    def __new__(
        cls,
        conversation: Conversation,
        tools: list[dict[str, Any]],
        *,
        max_rounds: int,
        seed: int,
        is_lenient: bool = False,
        keeps_finished: bool = False,
    ) -> Self: ...
    @property
    def turns(self) -> int: ...
    @property
    def overflow(self) -> tuple[int | None, int | None]: ...
    def close(self) -> None: ...
    def events(self) -> list[Event]: ...
    def send(self, model: dict[str, Any], options: dict[str, Any]) -> LoopStep: ...
    def counted(self, tokens: int) -> LoopStep: ...
    def replied(self, reply: Any) -> LoopStep: ...
    def failed(self, failure: Any) -> LoopStep: ...
    def call_answered(self, index: int, outcome: str, text: str = "", is_trusted: bool = False) -> LoopStep: ...
    def compacted(self, number: int) -> LoopStep: ...
    def compaction_failed(self, records: int, estimate: int) -> None: ...
    def measure(self) -> tuple[int, int]: ...

def check_rendered_tool(tool: Any) -> None: ...
def check_json(value: Any, what: str) -> None: ...
def check_reply(answer: dict[str, Any]) -> None: ...
def exhausted_message(reason: str) -> str: ...
def turn_bounds(conversation: Conversation, turns: int) -> tuple[int, int | None]: ...
def single_round(prompt: str, model: dict[str, Any]) -> RoundRequest | None: ...

@final
class RoundRequest:
    """A model request. Counts, reserve and window are tokens."""

    @property
    def model(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    @property
    def role(self) -> str | None: ...
    @property
    def handle(self) -> str | None: ...
    @property
    def round(self) -> int: ...
    @property
    def origin(self) -> Literal["chat", "infer"]: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def section(self) -> str: ...
    @property
    def estimate(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def reserve(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def estimator(self) -> str | None: ...
    @property
    def tools(self) -> list[dict[str, Any]]: ...
    @property
    def tool_names(self) -> list[str]: ...
    @property
    def options(self) -> dict[str, Any]: ...
    def messages(self) -> list[dict[str, Any]]: ...
    def messages_json(self) -> bytes: ...
    def difference(self, earlier: RoundRequest) -> tuple[int, bytes]: ...
    def body(self, fields: Mapping[str, Any]) -> bytes: ...

@final
class Effect:
    """Work that a run asks for. Attributes that another kind carries raise AttributeError."""

    @property
    def id(self) -> int: ...
    @property
    def kind(
        self,
    ) -> Literal["round", "count_tokens", "tool_call", "render_packs", "load_library", "user_input", "timer"]: ...
    @property
    def count(self) -> CountRequest: ...
    @property
    def tools(self) -> list[str]: ...
    @property
    def caller(self) -> Literal["script", "model"]: ...
    @property
    def call_id(self) -> str: ...
    @property
    def section(self) -> str: ...
    @property
    def request(self) -> RoundRequest: ...
    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def origin(self) -> str: ...
    @property
    def seconds(self) -> float: ...

@final
class Outcome:
    """How a run ended."""

    @property
    def status(self) -> Literal["completed", "failed", "cancelled"]: ...
    @property
    def text(self) -> str | None: ...
    @property
    def error(self) -> dict[str, Any] | None: ...
    @property
    def turns(self) -> int: ...
    @property
    def usage(self) -> dict[str, int]: ...

@final
class Step:
    """What one step of a run produced."""

    @property
    def done(self) -> bool: ...
    @property
    def effects(self) -> list[Effect]: ...
    @property
    def events(self) -> list[Event]: ...
    @property
    def outcome(self) -> Outcome | None: ...

@final
class Run:
    """The state machine of one run."""

    def __new__(cls, prompt: Prompt, params: Mapping[str, Any]) -> Run: ...
    def step(self) -> Step: ...
    def step_within(self, work: int) -> Step | None: ...
    def resume(self, effect_id: int, answer: tuple[str, Any]) -> None: ...
    def cancel(self) -> None: ...
    @property
    def decided(self) -> bool: ...

@final
class Record:
    """A record of a conversation, read-only. It stays as it is whatever happens to the conversation.

    Each read of a list or a dict gives a new one; changing it changes nothing else. Records are equal when all their
    fields are.
    """

    @property
    def role(self) -> Literal["system", "user", "assistant", "tool"]:
        """Who speaks."""

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """The text, or the content parts."""

    @property
    def tool_calls(self) -> list[dict[str, Any]] | None:
        """The calls as `{"id": …, "name": …, "arguments": {…}}`; None when there are none."""

    @property
    def tool_call_id(self) -> str | None:
        """The id of the call that the record answers; None when it answers none."""

    @property
    def meta(self) -> Any:
        """The metadata; None when there is none."""

    def to_dict(self) -> dict[str, Any]:
        """The fields that the record has, as a new dict."""

    def __hash__(self) -> int: ...

@final
class RecordIterator(Iterator[Record]):
    """Walks the records that a conversation held when the walk began."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def __length_hint__(self) -> int: ...

@final
class Precheck:
    """Whether a request fits a model's context window. All counts are tokens. It is true when the request fits."""

    @property
    def admitted(self) -> bool:
        """Whether the request may be sent."""

    @property
    def count(self) -> int:
        """What the request was counted as."""

    @property
    def reserve(self) -> int:
        """The room kept for the reply."""

    @property
    def total(self) -> int:
        """The sum, which must not be larger than the window."""

    def __bool__(self) -> bool: ...

@final
class Change:
    """One change that `Conversation.repair` made."""

    @property
    def position(self) -> int:
        """The record's position, from 1, among the records that were given."""

    @property
    def kind(self) -> str:
        """What was done in one word, such as `orphan_removed` or `result_added`."""

    @property
    def message(self) -> str:
        """What was done, and why."""

@final
class ComposedRequest:
    """What one round sends: the composed messages of a conversation, frozen. Its length is the number of messages."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in their wire form, converted when they are first read."""

    @property
    def estimate(self) -> int:
        """The estimated tokens of the messages."""

    def precheck(self, *, context: int, max_tokens: int | None = None, model: str | None = None) -> Precheck:
        """Checks the request against a context window of `context` tokens.

        `max_tokens` is the largest reply; without it an eighth of the window is kept free, at most 8192 tokens. When
        the request extends a round that `Conversation.record_reply` recorded with its usage, the count starts from that
        usage, if `model` names the model of that round or is None; else the count is the estimate.
        """

    def to_json(self) -> bytes:
        """The messages as a JSON array."""

    def body(self, *, model: str, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any) -> bytes:
        """The whole JSON body of a chat completion request.

        It holds `model`, `messages`, `tools` unless there are none, and the options in their order; an option that is
        None is left out.
        """

    def json_view(self) -> memoryview:
        """The bytes of `to_json`, lent as a read-only memoryview instead of copied."""

    def body_view(self, *, model: str, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any) -> memoryview:
        """The bytes of `body`, lent as a read-only memoryview.

        The conversation keeps the memory: once this view is released, the next one writes only what was added since.
        """

    def __len__(self) -> int: ...

@disjoint_base
class Conversation:
    """The native half of `runvil.Conversation`."""

    def __new__(cls, *args: object, **options: object) -> Self: ...
    def system(self, content: object, meta: object = None) -> Self:
        """Appends a system record. System records lead the list."""

    def user(self, content: object, meta: object = None) -> Self:
        """Appends a user record."""

    def assistant(self, content: object, tool_calls: object = None, meta: object = None) -> Self:
        """Appends an assistant record. A tool call is `{"id": …, "name": …, "arguments": {…}}`."""

    def tool(self, content: object, tool_call_id: object, meta: object = None) -> Self:
        """Appends a tool record: the result of the call with this id."""

    def append(self, record: object) -> Self:
        """Appends a record: a dict with its fields, or a record that was read. Other keys of the dict are dropped."""

    def extend(self, records: Iterable[object]) -> Self:
        """Appends the records of an iterable or of another conversation: all of them or none."""

    def replace(self, first: float, last: float, *records: object) -> Self:
        """Replaces the records `first` to `last`, counted from 1 and inclusive, by these: all of them or none.

        Only a compactor may do so; see `compact`. `replace(n, n - 1, ...)` inserts before record `n`.
        """

    def roles(self) -> list[Literal["system", "user", "assistant", "tool"]]:
        """The role of each record."""

    def texts(self) -> list[str]:
        """The text of each record; of content parts, their texts one after the other."""

    def copy(self) -> Self:
        """A fork: a conversation with the same records, of the same class. It costs the same for any length."""

    def check(self) -> None:
        """Checks the rules that span records: the leading system block, unique call ids, one result for every call."""

    def compose(self) -> ComposedRequest:
        """Composes the request that the records make now; `check` comes first. An empty conversation makes none."""

    def to_json(self, form: Literal["record", "openai"] = "record") -> bytes:
        """The records as a JSON array: in the record form, or one message each in the form of OpenAI's chat API."""

    @classmethod
    def from_json(cls, data: bytes | str | Buffer | Sequence[object]) -> Self:
        """Reads a JSON array of messages, as text or as a list, in the record form or in the form of OpenAI's chat API.

        Each message shows which form it has. The rules that span records are left to `check`.
        """

    @classmethod
    def repair(cls, records: bytes | str | Buffer | Iterable[object]) -> tuple[Self, list[Change]]:
        """Makes a conversation that passes `check` out of a history that may not. Returns it, and what was changed."""

    @classmethod
    def _unpickled(cls, data: bytes) -> Self: ...
    def _anchor(self, request: ComposedRequest, model: str, usage: Sequence[int | None] | None) -> None: ...
    def _enter_compaction(self, in_loop: bool = False) -> tuple[int, Token[tuple[int, ...]]]: ...
    def _leave_compaction(self, number: int, keep: bool) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Record: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[Record]: ...
    def __iter__(self) -> RecordIterator: ...

compactions: ContextVar[tuple[int, ...]]

@final
class OverflowRule:
    """A rule of the application's: failed answers with this wording are, or are not, context overflows."""

    def __new__(cls, pattern: str, *, status: int | None = None, overflow: bool = True) -> OverflowRule: ...

@final
class HttpClient:
    """A connection pool to one OpenAI-compatible server. Times are seconds."""

    def __new__(
        cls,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 2,
        max_response_bytes: int = ...,
        proxy_from_environment: bool = False,
        overflow: str = "strict",
        overflow_rules: list[OverflowRule] | None = None,
    ) -> HttpClient: ...
    def complete(
        self,
        body: Buffer,
        on_fragment: Callable[[str], object] | None = None,
        on_retry: Callable[[int, float, str, int | None], object] | None = None,
    ) -> Awaitable[dict[str, Any]]: ...
    def send(
        self,
        request: RoundRequest,
        fields: Mapping[str, Any],
        on_fragment: Callable[[str], object] | None = None,
        on_retry: Callable[[int, float, str, int | None], object] | None = None,
        null_content: bool = False,
        strict_tools: bool = False,
    ) -> Awaitable[dict[str, Any]]: ...

def classify(status: int | None, body: str, streamed: bool = False, overflow: str = "strict") -> str: ...
def failure_text(kind: str, status: int | None, note: str | None) -> str: ...
