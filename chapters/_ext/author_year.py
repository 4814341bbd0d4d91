"""Citations by author and year, (Author, 2017; Author and Author, 2020), and their bibliography."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.richtext import Text
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx
from sphinxcontrib.bibtex.plugin import (
    register_plugin as register_reference_plugin,
)
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import (
    AuthorYearReferenceStyle,
)

ROUND = BracketStyle(left="(", right=")", sep="; ")


class AuthorYearLabels(BaseLabelStyle):
    """Labels such as “Vaswani et al., 2017”; a letter tells equal ones apart."""

    def format_labels(
        self, sorted_entries: Sequence[Entry]
    ) -> Iterator[str]:
        """Yield one label per entry, in order."""
        plain = [label(entry) for entry in sorted_entries]
        total, seen = Counter(plain), Counter[str]()
        for name in plain:
            letter = chr(ord("a") + seen[name]) if total[name] > 1 else ""
            seen[name] += 1
            yield name + letter


def label(entry: Entry) -> str:
    """Return “Author, year”, “Author and Author, year” or “Author et al., year”."""
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [
        " ".join(
            str(Text.from_latex(part))
            for part in person.prelast_names + person.last_names
        )
        for person in people
    ]
    if not names:
        who = entry.fields.get("organization", entry.key)
    elif len(names) > 2:
        who = f"{names[0]} et al."
    else:
        who = " and ".join(names)
    return f"{who}, {entry.fields.get('year', 'n.d.')}"


@dataclass
class RoundReferenceStyle(AuthorYearReferenceStyle):
    """Author and year in round brackets, semicolons between works."""

    bracket_parenthetical: BracketStyle = field(
        default_factory=lambda: ROUND
    )
    bracket_textual: BracketStyle = field(default_factory=lambda: ROUND)


class AuthorYearStyle(PlainStyle):
    """pybtex's plain style, with these labels, and sorted by author and year."""

    default_label_style = AuthorYearLabels
    default_sorting_style = "author_year_title"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the styles under the names that _config.yml uses."""
    register_reference_plugin(
        "sphinxcontrib.bibtex.style.referencing",
        "author_year_round",
        RoundReferenceStyle,
    )
    register_plugin(
        "pybtex.style.formatting", "author_year", AuthorYearStyle
    )
    return {"version": "1", "parallel_read_safe": True}
