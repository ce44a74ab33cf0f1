"""`runvil.toml`: what it may hold and what its errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from runvil.config import Config, Provider, find_config
from runvil.errors import ConfigError

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

FULL = """
default_provider = "local"

[providers.local]
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_API_KEY"
headers = { "X-Team" = "a" }
extra_body = { cache_prompt = true }
timeout = 60
connect_timeout = 2.5
retries = 0
max_tokens_field = "max_completion_tokens"
stream = false
stream_usage = false
thinking_field = "chat_template_kwargs.enable_thinking"
null_content = true
strict_tools = true
proxy_from_environment = true
overflow = "extended"

[providers.other]
base_url = "https://example.org/v1"

[models.small]
provider = "local"
id = "qwen3-8b"
context = 32768
max_tokens = 2048
description = "quick"
thinking = "switchable"

[models.plain]

[roles]
writer = "small"
"*" = "plain"

[limits]
rounds = 12
"""


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "runvil.toml"
    file.write_text(text, encoding="utf-8")
    return Config.load(file)


def test_every_key_is_read(tmp_path: Path) -> None:
    config = load(tmp_path, FULL)
    assert config.default_provider == "local"
    assert config.providers["local"] == Provider(
        "local",
        "http://127.0.0.1:8080/v1",
        api_key_env="LOCAL_API_KEY",
        headers={"X-Team": "a"},
        extra_body={"cache_prompt": True},
        timeout=60.0,
        connect_timeout=2.5,
        retries=0,
        max_tokens_field="max_completion_tokens",
        stream=False,
        stream_usage=False,
        thinking_field="chat_template_kwargs.enable_thinking",
        null_content=True,
        strict_tools=True,
        proxy_from_environment=True,
        overflow="extended",
    )
    assert config.providers["other"].overflow == "strict"
    small = config.models["small"]
    assert (small.id, small.provider, small.context, small.max_tokens) == ("qwen3-8b", "local", 32768, 2048)
    assert (small.description, small.thinking) == ("quick", "switchable")
    assert config.roles == {"writer": "small", "*": "plain"}
    assert config.limits.rounds == 12


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    config = load(tmp_path, '[providers.one]\nbase_url = "http://h/v1"\n[models.plain]\n')
    provider, model = config.providers["one"], config.models["plain"]
    assert config.default_provider == "one"
    assert (provider.timeout, provider.connect_timeout, provider.retries) == (120, 10, 2)
    assert (provider.max_tokens_field, provider.stream, provider.stream_usage) == ("max_tokens", True, True)
    assert (provider.api_key_env, provider.thinking_field) == (None, None)
    assert (provider.null_content, provider.strict_tools, provider.proxy_from_environment) == (False, False, False)
    assert (model.id, model.context, model.max_tokens, model.thinking) == ("plain", 8192, None, "never")
    assert config.limits.rounds == 24
    assert config.provider_of(model) is provider


def test_the_examples_of_providers_are_valid() -> None:
    config = Config.load(EXAMPLES / "providers.toml")
    servers = "openai azure openrouter groq mistral deepseek ollama llamacpp vllm lmstudio"
    assert list(config.providers) == servers.split()
    for provider in config.providers.values():
        environ = {} if provider.api_key_env is None else {provider.api_key_env: "some-key"}
        assert provider.key_present(environ) in (True, None)
        assert provider.base_url.removesuffix("/v1") in repr(provider.broker(environ))
    for model in config.models.values():
        assert config.provider_of(model).name in config.providers


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("colour = 1", 1, "colour is unknown; known keys: default_provider, providers, models, roles, limits"),
        (
            "\n[providers.a]\nbase_url = 1",
            3,
            "providers.a.base_url must be an http:// or https:// URL, got the number 1",
        ),
        ("[providers.a]\n", 1, "providers.a.base_url is missing"),
        ('[providers.a]\nbase_url = "http://h"\napi_key = "sk-1"', 3, "providers.a.api_key is unknown"),
        ('[providers.a]\nbase_url = "http://h"\ntimeout = 0', 3, "timeout must be a positive number of seconds"),
        ('[providers.a]\nbase_url = "http://h"\nretries = -1', 3, "retries must be a whole number between 0"),
        ('[providers.a]\nbase_url = "http://h"\nheaders = { X = 1 }', 3, "headers must be a table of strings"),
        ('[providers.a]\nbase_url = "http://h"\nthinking_field = "a..b"', 3, "thinking_field must be a dotted path"),
        ('[providers.a]\nbase_url = "http://h"\nmax_tokens_field = "n"', 3, "one of max_tokens, max_completion_tokens"),
        ('[providers.a]\nbase_url = "http://h"\nstream = "yes"', 3, "stream must be true or false, got a string"),
        ('[providers.a]\nbase_url = "http://h"\napi_key_env = "sk-live-1"', 3, "the name of an environment variable"),
        ("[models.small]\ncontext = 0", 2, "models.small.context must be a whole number between 1 and 4294967295"),
        ("[models.small]\ncontext = true", 2, "models.small.context must be a whole number"),
        (
            '[providers.p]\nbase_url = "http://h"\noverflow = "wide"',
            3,
            "providers.p.overflow must be one of strict, extended",
        ),
        ('[models.small]\nthinking = "maybe"', 2, "models.small.thinking must be one of never, always, switchable"),
        ("[models]\nsmall = 3", 2, "models.small must be a table, got the number 3"),
        ("[roles]\nwriter = 3", 2, "roles.writer must be a non-empty string, got the number 3"),
        ("[limits]\nrounds = 0", 2, "limits.rounds must be a whole number between 1"),
        ("[limits]\nspeed = 1", 2, "limits.speed is unknown; known keys: rounds, memory_bytes, log_events"),
        ('default_provider = "x"', 1, 'default_provider names "x"; providers: none'),
        ('[models."a.b"]\n\ncontext = "big"', 3, "models.a.b.context must be a whole number"),
    ],
)
def test_a_mistake_is_named_with_file_key_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'runvil.toml'}:{line}: ")
    assert words in str(caught.value)
    assert "sk-" not in str(caught.value)


def test_text_that_is_no_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"runvil\.toml: not valid TOML: .*line 2"):
        load(tmp_path, "a = 1\nb = = 2\n")


@pytest.mark.parametrize(
    ("name", "identifier", "provider"),
    [
        ("small", "qwen3-8b", "local"),
        ("other/some/model", "some/model", "other"),
        ("unknown/model", "unknown/model", None),
        ("raw", "raw", None),
    ],
)
def test_a_model_text_is_a_catalog_name_then_a_provider_and_id_then_a_raw_id(
    tmp_path: Path, name: str, identifier: str, provider: str | None
) -> None:
    model = load(tmp_path, FULL).resolve(name)
    assert (model.name, model.id, model.provider) == (name, identifier, provider) or name == "small"
    assert (model.id, model.provider) == (identifier, provider)


def test_a_catalog_name_with_a_slash_wins_over_provider_and_id(tmp_path: Path) -> None:
    text = '[providers.p]\nbase_url = "http://h"\n[models."p/x"]\nid = "mine"\n'
    assert load(tmp_path, text).resolve("p/x").id == "mine"


def test_a_model_without_a_provider_says_what_to_do(tmp_path: Path) -> None:
    two = '[providers.a]\nbase_url = "http://h"\n[providers.b]\nbase_url = "http://h"\n[models.m]\n'
    config = load(tmp_path, two)
    with pytest.raises(ConfigError, match="name one with default_provider, or write PROVIDER/ID"):
        config.provider_of(config.models["m"])
    with pytest.raises(ConfigError, match="neither OPENAI_BASE_URL nor OPENAI_API_KEY is set"):
        Config().provider_of(Config().resolve("m"))
    stray = load(tmp_path, '[models.m]\nprovider = "gone"\n')
    with pytest.raises(ConfigError, match=r'models\.m\.provider names "gone"; providers: none'):
        stray.provider_of(stray.models["m"])


def test_the_environment_stands_in_for_a_file() -> None:
    assert Config.from_environment({}).providers == {}
    both = Config.from_environment({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "sk-1"})
    assert both.default_provider == "openai"
    assert both.providers["openai"].base_url == "http://h/v1"
    assert both.providers["openai"].key_present({"OPENAI_API_KEY": "sk-1"}) is True
    only_key = Config.from_environment({"OPENAI_API_KEY": "sk-1"})
    assert only_key.providers["openai"].base_url == "https://api.openai.com/v1"
    assert Config.from_environment({"OPENAI_BASE_URL": "http://h/v1"}).providers["openai"].api_key_env is None
    assert "sk-1" not in repr(both)


def test_no_repr_shows_a_key_or_a_header(tmp_path: Path) -> None:
    config = load(tmp_path, FULL)
    broker = config.providers["local"].broker({"LOCAL_API_KEY": "sk-secret"})
    shown = repr(config) + repr(broker) + repr(vars(broker)) + repr(config.models["small"].with_broker(broker))
    assert "sk-secret" not in shown
    assert "X-Team" not in repr(broker)


def test_the_file_is_looked_for_beside_the_prompt_then_here_then_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here, home = tmp_path / "prompts", tmp_path / "here", tmp_path / "home"
    for folder in (beside, here, home / "runvil"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setattr("sys.platform", "linux")
    environ = {"XDG_CONFIG_HOME": str(home)}
    assert find_config(beside, environ) is None
    for folder in (home / "runvil", here, beside):
        (folder / "runvil.toml").touch()
        found = find_config(beside, environ)
        assert found is not None
        assert found.resolve() == (folder / "runvil.toml").resolve()
