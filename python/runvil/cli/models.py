"""`runvil models`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from runvil.cli.output import write_result
from runvil.cli.run import read_config
from runvil.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runvil.config import CatalogModel, Config


def show_models(path: Path | None) -> int:
    """Shows the providers, the catalog and the roles of a configuration."""
    config = read_config(path, None)
    write_result(f"config: {config.path or 'none (from the environment)'}")
    providers = [
        (name + (" (default)" if name == config.default_provider else ""), provider.base_url, _key(config, name))
        for name, provider in config.providers.items()
    ]
    _table("providers", ("name", "base_url", "key present"), providers)
    models = [
        (
            model.name,
            _provider(config, model),
            model.id,
            str(model.context),
            str(model.max_tokens or "-"),
            model.thinking,
        )
        for model in config.models.values()
    ]
    _table("models", ("name", "provider", "id", "context", "max_tokens", "thinking"), models)
    _table("roles", ("role", "model", "provider", "key present"), [_role(config, label) for label in _labels(config)])
    return 0


def _labels(config: Config) -> list[str]:
    labels = list(config.roles)
    return [*labels, "*"] if "*" not in labels and len(config.models) == 1 else labels


def _role(config: Config, label: str) -> tuple[str, str, str, str]:
    name = config.roles.get(label) or next(iter(config.models))
    provider = _provider(config, config.resolve(name))
    return label, name, provider, _key(config, provider) if provider in config.providers else "-"


def _provider(config: Config, model: CatalogModel) -> str:
    try:
        return config.provider_of(model).name
    except ConfigError:
        return f"{model.provider or ''} (none)".strip()


def _key(config: Config, provider: str) -> str:
    present = config.providers[provider].key_present(os.environ)
    return "not needed" if present is None else "yes" if present else "no"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, title=title, title_justify="left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[at]) for row in [columns, *rows]) for at in range(len(columns))]
    write_result(f"\n{title}:" + ("" if rows else " none"))
    for row in [columns, *rows] if rows else []:
        write_result("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
