"""Code without marks around what has no colour of its own.

Names and punctuation look like the text around them, and are two of three tokens: a page is a third
smaller, and opens faster, where they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from pygments.formatters.html import HtmlFormatter
from pygments.styles import get_style_by_name
from pygments.token import Name, Token, _TokenType
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.highlighting import PygmentsBridge


class PlainTokens(HtmlFormatter[str]):
    """Writes tokens that look like a name as bare text."""

    plain: frozenset[_TokenType] = frozenset()

    def format_unencoded(
        self, tokensource: Iterable[tuple[_TokenType, str]], outfile: TextIO
    ) -> None:
        """Write the tokens; one without a kind gets no mark."""
        super().format_unencoded(
            (
                (Token if kind in self.plain else kind, text)
                for kind, text in tokensource
            ),
            outfile,
        )


def find_plain(app: Sphinx, config: Config) -> None:
    """Find the tokens that look like a name in light and in dark."""
    styles = [
        get_style_by_name(config.html_theme_options[f"pygments_{s}_style"])
        for s in ("light", "dark")
    ]
    PlainTokens.plain = frozenset(
        kind
        for kind, _ in styles[0]
        if all(
            style.style_for_token(kind) == style.style_for_token(Name)
            for style in styles
        )
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx write code so."""
    PygmentsBridge.html_formatter = PlainTokens
    app.connect("config-inited", find_plain)
    return {"version": "1", "parallel_read_safe": True}
