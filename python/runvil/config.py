"""`runvil.toml`: providers, models, roles and limits."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from runvil.errors import ConfigError
from runvil.http import HttpBroker
from runvil.limits import Limits
from runvil.model import Model, Thinking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from runvil.broker import Broker

FILE_NAME = "runvil.toml"
_OPENAI = "openai"
_OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that models are reached at. Times are seconds."""

    name: str
    base_url: str
    api_key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float = 120.0
    connect_timeout: float = 10.0
    retries: int = 2
    max_tokens_field: str = "max_tokens"
    stream: bool = True
    stream_usage: bool = True
    thinking_field: str | None = None
    null_content: bool = False
    strict_tools: bool = False
    proxy_from_environment: bool = False
    overflow: Literal["strict", "extended"] = "strict"

    def key_present(self, environ: Mapping[str, str]) -> bool | None:
        """Whether the key's environment variable is set; None when the provider needs no key."""
        return None if self.api_key_env is None else bool(environ.get(self.api_key_env))

    def broker(self, environ: Mapping[str, str]) -> HttpBroker:
        """The broker for this server, with the key from the environment."""
        return HttpBroker(
            self.base_url,
            api_key=environ.get(self.api_key_env) or None if self.api_key_env else None,
            headers=self.headers,
            extra_body=self.extra_body,
            timeout=self.timeout,
            connect_timeout=self.connect_timeout,
            retries=self.retries,
            max_tokens_field=self.max_tokens_field,
            stream=self.stream,
            stream_usage=self.stream_usage,
            thinking_field=self.thinking_field,
            null_content=self.null_content,
            strict_tools=self.strict_tools,
            proxy_from_environment=self.proxy_from_environment,
            overflow=self.overflow,
        )


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model of the catalog. `provider` is None where the default provider serves it."""

    name: str
    id: str
    provider: str | None = None
    context: int = 8192
    max_tokens: int | None = None
    thinking: Thinking = "never"
    description: str = ""

    def with_broker(self, broker: Broker) -> Model:
        """The model as a run takes it."""
        return Model(
            self.id,
            name=self.name,
            context=self.context,
            max_tokens=self.max_tokens,
            thinking=self.thinking,
            description=self.description,
            broker=broker,
        )


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that has been read. `path` is None when it comes from the environment."""

    path: Path | None = None
    providers: Mapping[str, Provider] = field(default_factory=dict)
    models: Mapping[str, CatalogModel] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    default_provider: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Config:
        """The configuration of a place without a file: `OPENAI_BASE_URL` and `OPENAI_API_KEY` define one provider."""
        url, key = environ.get("OPENAI_BASE_URL"), environ.get("OPENAI_API_KEY")
        if not url and not key:
            return cls()
        provider = Provider(_OPENAI, url or _OPENAI_URL, api_key_env="OPENAI_API_KEY" if key else None)
        return cls(providers={_OPENAI: provider}, default_provider=_OPENAI)

    @classmethod
    def load(cls, path: Path) -> Config:
        """Reads a file.

        Raises:
            OSError: It cannot be read.
            ConfigError: It is not valid; the message names the file, the key and the line.
        """
        try:
            text = path.read_bytes().decode("utf-8-sig")
            values = tomllib.loads(text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: not valid TOML: {error}") from None
        return _read(values, _Source(path, text))

    def resolve(self, name: str) -> CatalogModel:
        """The model a text names: a catalog entry, else `PROVIDER/ID`, else an id on the default provider.

        Raises:
            ConfigError: The text names no model.
        """
        if name in self.models:
            return self.models[name]
        provider, slash, identifier = name.partition("/")
        if slash and provider in self.providers:
            if not identifier:
                raise ConfigError(f'model "{name}" names the provider "{provider}" but no model id after the /')
            return CatalogModel(name, identifier, provider)
        if not name:
            raise ConfigError("a model name must not be empty")
        return CatalogModel(name, name)

    def provider_of(self, model: CatalogModel) -> Provider:
        """The provider that serves a model.

        Raises:
            ConfigError: There is none; the message says what to do.
        """
        name = model.provider or self.default_provider
        if name is None:
            raise ConfigError(f'model "{model.name}" has no provider: {self._no_provider()}')
        if name not in self.providers:
            known = ", ".join(self.providers) or "none"
            raise ConfigError(f'{self.path}: models.{model.name}.provider names "{name}"; providers: {known}')
        return self.providers[name]

    def _no_provider(self) -> str:
        if len(self.providers) > 1:
            return f"{self.path} has several; name one with default_provider, or write PROVIDER/ID"
        if self.path is not None:
            return f"{self.path} has no [providers.NAME] table"
        return f"there is no {FILE_NAME}, and neither OPENAI_BASE_URL nor OPENAI_API_KEY is set"


def find_config(prompt_folder: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The configuration file: beside the prompt, else in the working directory, else in the user's config folder."""
    folders = [folder for folder in (prompt_folder, Path(), _user_folder(environ)) if folder is not None]
    return next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)


def _user_folder(environ: Mapping[str, str]) -> Path | None:
    if sys.platform == "win32":
        roaming = environ.get("APPDATA")
        return Path(roaming) / "runvil" if roaming else None
    base = environ.get("XDG_CONFIG_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "runvil"
    home = environ.get("HOME")
    return Path(home) / ".config" / "runvil" if home else None


class _Source:
    """The file's name and text, for error messages."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def error(self, keys: tuple[str, ...], message: str) -> ConfigError:
        line = self._line_of(keys)
        return ConfigError(f"{self._path}{f':{line}' if line else ''}: {'.'.join(keys)} {message}")

    def _line_of(self, keys: tuple[str, ...]) -> int | None:
        """The line that a key stands on, else the line of the closest table around it; None when neither is found."""
        found, depth = None, 0
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, start=1):
            if header := re.match(r"\s*\[\[?([^\]]*)\]", line):
                table = _key_parts(header[1])
                here = table
            elif entry := re.match(r"\s*([^=#]+?)\s*=", line):
                here = table + _key_parts(entry[1])
            else:
                continue
            if len(here) > depth and keys[: len(here)] == here:
                found, depth = number, len(here)
        return found


def _key_parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", text))


class _Table:
    """A table of the file, read key by key; what is left over is an unknown key."""

    def __init__(self, values: Any, keys: tuple[str, ...], source: _Source) -> None:
        if not isinstance(values, dict):
            raise source.error(keys, f"must be a table, got {_toml_type(values)}")
        self.values: dict[str, Any] = values
        self.keys = keys
        self.source = source
        self._known: list[str] = []

    def error(self, key: str, message: str) -> ConfigError:
        return self.source.error((*self.keys, key), message)

    def take(self, key: str, wanted: str, test: Callable[[Any], bool]) -> Any:
        """The value of a key; None when it is absent."""
        self._known.append(key)
        if key not in self.values:
            return None
        if not test(self.values[key]):
            raise self.error(key, f"must be {wanted}, got {_toml_type(self.values[key])}")
        return self.values[key]

    def text(self, key: str) -> str | None:
        value: str | None = self.take(key, "a non-empty string", lambda value: isinstance(value, str) and value != "")
        return value

    def flag(self, key: str) -> bool | None:
        value: bool | None = self.take(key, "true or false", lambda value: isinstance(value, bool))
        return value

    def count(self, key: str, lowest: int = 1) -> int | None:
        wanted = f"a whole number between {lowest} and {2**32 - 1}"
        value: int | None = self.take(key, wanted, lambda value: _is_int(value) and lowest <= value <= 2**32 - 1)
        return value

    def seconds(self, key: str) -> float | None:
        value = self.take(key, "a positive number of seconds", _is_seconds)
        return None if value is None else float(value)

    def one_of(self, key: str, choices: Iterable[str]) -> Any:
        listed = list(choices)
        return self.take(key, f"one of {', '.join(listed)}", lambda value: value in listed)

    def tables(self, key: str) -> dict[str, _Table]:
        values = self.take(key, "a table", lambda value: isinstance(value, dict)) or {}
        return {name: _Table(value, (*self.keys, key, name), self.source) for name, value in values.items()}

    def finish(self, hint: str = "") -> None:
        unknown = next((key for key in self.values if key not in self._known), None)
        if unknown is not None:
            raise self.error(unknown, f"is unknown; known keys: {', '.join(self._known)}{hint}")


def _read(values: dict[str, Any], source: _Source) -> Config:
    top = _Table(values, (), source)
    default_provider = top.text("default_provider")
    providers = {name: _read_provider(name, table) for name, table in top.tables("providers").items()}
    models = {name: _read_model(name, table) for name, table in top.tables("models").items()}
    roles = _read_roles(top)
    limits = _read_limits(top)
    top.finish()
    if default_provider is not None and default_provider not in providers:
        raise top.error("default_provider", f'names "{default_provider}"; providers: {", ".join(providers) or "none"}')
    if default_provider is None and len(providers) == 1:
        default_provider = next(iter(providers))
    return Config(source._path, providers, models, roles, limits, default_provider)


def _read_provider(name: str, table: _Table) -> Provider:
    base_url = table.take("base_url", "an http:// or https:// URL", _is_url)
    if base_url is None:
        raise table.error("base_url", "is missing")
    read = {
        "api_key_env": table.take("api_key_env", "the name of an environment variable", _is_variable),
        "headers": table.take("headers", "a table of strings", _is_texts),
        "extra_body": table.take("extra_body", "a table", lambda value: isinstance(value, dict)),
        "timeout": table.seconds("timeout"),
        "connect_timeout": table.seconds("connect_timeout"),
        "retries": table.count("retries", lowest=0),
        "max_tokens_field": table.one_of("max_tokens_field", ("max_tokens", "max_completion_tokens")),
        "stream": table.flag("stream"),
        "stream_usage": table.flag("stream_usage"),
        "thinking_field": table.take("thinking_field", "a dotted path of field names", _is_path),
        "null_content": table.flag("null_content"),
        "strict_tools": table.flag("strict_tools"),
        "proxy_from_environment": table.flag("proxy_from_environment"),
        "overflow": table.one_of("overflow", ("strict", "extended")),
    }
    table.finish("; a key is never written here: name its environment variable with api_key_env")
    return Provider(name, base_url, **{key: value for key, value in read.items() if value is not None})


def _read_model(name: str, table: _Table) -> CatalogModel:
    read = {
        "provider": table.text("provider"),
        "context": table.count("context"),
        "max_tokens": table.count("max_tokens"),
        "thinking": table.one_of("thinking", get_args(Thinking)),
        "description": table.take("description", "a string", lambda value: isinstance(value, str)),
    }
    identifier = table.text("id") or name
    table.finish()
    return CatalogModel(name, identifier, **{key: value for key, value in read.items() if value is not None})


def _read_roles(top: _Table) -> dict[str, str]:
    values = top.take("roles", "a table", lambda value: isinstance(value, dict)) or {}
    table = _Table(values, ("roles",), top.source)
    return {label: table.text(label) or "" for label in values}


def _read_limits(top: _Table) -> Limits:
    values = top.take("limits", "a table", lambda value: isinstance(value, dict)) or {}
    table = _Table(values, ("limits",), top.source)
    read = {name: table.count(name) for name in Limits().to_dict()}
    table.finish()
    return Limits(**{name: value for name, value in read.items() if value is not None})


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and re.match(r"https?://[^/\s]", value) is not None


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is not None


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value != "" and all(value.split("."))


def _toml_type(value: Any) -> str:
    names = {dict: "a table", list: "an array", bool: "a boolean", str: "a string"}
    if type(value) in names:
        return names[type(value)]
    return f"the number {value}" if isinstance(value, int | float) else f"a {type(value).__name__}"
