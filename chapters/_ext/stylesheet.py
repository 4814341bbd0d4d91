"""One style sheet out of many, with only what the pages can use.

Left out are rules whose classes or identifiers occur on no page and in no script, variables that
nothing reads, fonts that nothing names, and of the icons' fonts all glyphs but those drawn. What
is left of a font lies in the sheet itself, so that icons are there with the first paint.
"""

from __future__ import annotations

import base64
import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import tinycss2
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

Tokens = list[Any]

# It reports every step at a level that Sphinx shows.
logging.getLogger("fontTools").setLevel(logging.WARNING)

LICENCE = re.compile(r"/\*!.*?\*/", re.DOTALL)
# What a sheet fetches from a file beside it.
ADDRESS = re.compile(r"url\((?!['\"]?(?:data:|#))['\"]?([^'\")]+)['\"]?\)")
WORD = re.compile(r"[A-Za-z_][\w-]*")
ATTRIBUTE = re.compile(r'\b(?:class|id)="([^"]*)"')
SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL)
VARIABLE = re.compile(r"--[\w-]+")
# An icon is a character of Unicode's private area, written out or as an escape.
ICON = re.compile(r"\\([0-9a-f]{4,6})|([\ue000-\uf8ff])", re.I)
# Whose class asks for which of the icons' files.
ICON_CLASSES = {
    "fa-solid-900": {"fa-solid", "fas", "fa"},
    "fa-regular-400": {"fa-regular", "far"},
    "fa-brands-400": {"fa-brands", "fab"},
}


@dataclass
class Words:
    """What occurs on the pages and in the scripts: names, and the variables they set or read."""

    names: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)

    def add_page(self, html: str) -> None:
        """Take in a page's classes and identifiers, and its scripts."""
        for value in ATTRIBUTE.findall(html):
            self.names.update(value.split())
        self.variables.update(VARIABLE.findall(html))
        for script in SCRIPT.findall(html):
            self.add_script(script)

    def add_script(self, script: str) -> None:
        """Take in every word of a script: any may become a class."""
        self.names.update(WORD.findall(script))
        self.variables.update(VARIABLE.findall(script))


@dataclass
class Rule:
    """A rule: declarations, or further rules inside an at-rule, or a bare at-rule."""

    prelude: str
    declarations: list[tuple[str, str]] | None = None
    rules: list[Rule] | None = None

    def __str__(self) -> str:
        """Return the rule as CSS, on one line."""
        if self.rules is not None:
            return f"{self.prelude}{{{''.join(map(str, self.rules))}}}"
        if self.declarations is not None:
            said = ";".join(f"{n}:{v}" for n, v in self.declarations)
            return f"{self.prelude}{{{said}}}"
        return f"{self.prelude};"


def combine(files: Sequence[Path], words: Words, folder: Path) -> str:
    """Return the one sheet that takes the place of these files, in their order, in a folder."""
    texts = [file.read_text("utf-8") for file in files]
    rules: list[Rule] = []
    for file, text in zip(files, texts, strict=True):
        parsed = tinycss2.parse_stylesheet(text, True, True)
        rules += read(parsed, file.parent, words)
    drop_variables(rules, words.variables)
    place_fonts(rules, words.names)
    notices = dict.fromkeys(n for t in texts for n in LICENCE.findall(t))
    sheet = "\n".join(['@charset "UTF-8";', *notices, *map(str, rules), ""])
    return ADDRESS.sub(
        lambda m: f"url({Path(m[1]).relative_to(folder).as_posix()})", sheet
    )


def read(parsed: Tokens, folder: Path, words: Words) -> list[Rule]:
    """Return the rules that can apply."""
    found = []
    for rule in parsed:
        if rule.type == "error":
            raise ValueError(f"{folder}: {rule.message}")
        made = (
            style_rule(rule, folder, words)
            if rule.type == "qualified-rule"
            else at_rule(rule, folder, words)
        )
        if made is not None:
            found.append(made)
    return found


def style_rule(rule: Any, folder: Path, words: Words) -> Rule | None:
    """Return a rule with those of its selectors that can match, or None."""
    selectors = [
        text(selector)
        for selector in split(rule.prelude)
        if names(selector) <= words.names
    ]
    if not selectors:
        return None
    said = declarations(rule.content, folder)
    return Rule(",".join(selectors), said) if said else None


def at_rule(rule: Any, folder: Path, words: Words) -> Rule | None:
    """Return a rule such as @media with what it holds, or None if that is nothing."""
    keyword = rule.lower_at_keyword
    prelude = f"@{keyword} {text(rule.prelude)}".strip()
    if keyword in {"charset", "import"}:
        return None  # One is written anew, the other's file is in the list.
    if rule.content is None:
        return Rule(prelude)
    if keyword in {"font-face", "page", "property", "counter-style"}:
        return Rule(prelude, declarations(rule.content, folder))
    parsed = tinycss2.parse_rule_list(rule.content, True, True)
    if keyword.endswith("keyframes"):
        inner = [
            Rule(text(step.prelude), declarations(step.content, folder))
            for step in parsed
        ]
    else:
        inner = read(parsed, folder, words)
    return Rule(prelude, rules=inner) if inner else None


def declarations(content: Tokens, folder: Path) -> list[tuple[str, str]]:
    """Return names and values; what is no declaration (a hack for old browsers) is dropped."""
    parsed = tinycss2.parse_blocks_contents(content, True, True)
    return [
        (
            item.name if item.name.startswith("--") else item.lower_name,
            rebased(text(item.value), folder)
            + ("!important" if item.important else ""),
        )
        for item in parsed
        if item.type == "declaration"
    ]


def rebased(value: str, folder: Path) -> str:
    """Return a value whose relative addresses have become the files' own paths."""
    return ADDRESS.sub(lambda m: f"url({(folder / m[1]).resolve()})", value)


def text(tokens: Tokens) -> str:
    """Return tokens as CSS, without comments and needless space."""
    return str(tinycss2.serialize(compact(tokens))).strip()


def compact(tokens: Tokens) -> Tokens:
    """Return tokens without comments, each space of length one."""
    kept: Tokens = []
    for token in tokens:
        if token.type == "comment":
            continue
        if token.type == "whitespace":
            if kept and kept[-1].type == "whitespace":
                continue
            token.value = " "
        for inner in ("content", "arguments"):
            if isinstance(getattr(token, inner, None), list):
                setattr(token, inner, compact(getattr(token, inner)))
        kept.append(token)
    return kept


def split(prelude: Tokens) -> Iterator[Tokens]:
    """Yield the selectors of a list."""
    selector: Tokens = []
    for token in prelude:
        if token == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def names(selector: Tokens) -> set[str]:
    """Return classes and identifiers without which a selector matches nothing.

    What stands in brackets, as in :not(…), may be absent.
    """
    found = {t.value for t in selector if t.type == "hash"}
    for before, token in pairwise(selector):
        if before == "." and token.type == "ident":
            found.add(token.value)
    return found


def flat(rules: list[Rule]) -> Iterator[Rule]:
    """Yield every rule that holds declarations."""
    for rule in rules:
        if rule.rules is not None:
            yield from flat(rule.rules)
        elif rule.declarations is not None:
            yield rule


def drop_variables(rules: list[Rule], elsewhere: set[str]) -> None:
    """Drop the variables that nothing reads, and then those that only they read."""
    while True:
        used = elsewhere | {
            name
            for rule in flat(rules)
            for _, value in rule.declarations or ()
            for name in VARIABLE.findall(value)
        }
        dropped = False
        for rule in flat(rules):
            kept = [
                (name, value)
                for name, value in rule.declarations or ()
                if not name.startswith("--") or name in used
            ]
            dropped |= kept != rule.declarations
            rule.declarations = kept
        if not dropped:
            break
    prune(rules)


def prune(rules: list[Rule]) -> None:
    """Drop the rules that are left without content, in place."""
    for rule in rules:
        if rule.rules is not None:
            prune(rule.rules)
    rules[:] = [r for r in rules if r.declarations != [] and r.rules != []]


def place_fonts(rules: list[Rule], classes: set[str]) -> None:
    """Write the icons that are drawn into the sheet; drop the other fonts' rules."""
    drawn = {
        int(escape, 16) if escape else ord(char)
        for rule in flat(rules)
        for name, value in rule.declarations or ()
        if name == "content"
        for escape, char in ICON.findall(value)
    }
    kept = []
    for rule in rules:
        if rule.prelude != "@font-face":
            kept.append(rule)
            continue
        source = dict(rule.declarations or ())["src"]
        file = re.search(r"url\(([^)]+\.ttf)\)", source)
        if file and ICON_CLASSES.get(Path(file[1]).stem, set()) & classes:
            font = subset(Path(file[1]), drawn)
            rule.declarations = [
                (name, f"url(data:font/woff;base64,{font})")
                if name == "src"
                else (name, value)
                for name, value in rule.declarations or ()
            ]
            kept.append(rule)
    rules[:] = kept


def subset(file: Path, characters: set[int]) -> str:
    """Return a font with these characters alone, as WOFF in base 64."""
    options = Options(
        hinting=False, layout_features=[], name_IDs=[], notdef_outline=True
    )
    font = TTFont(file, recalcTimestamp=False)
    cut = Subsetter(options)
    cut.populate(unicodes=characters)
    cut.subset(font)
    font.flavor = "woff"
    buffer = io.BytesIO()
    font.save(buffer)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
