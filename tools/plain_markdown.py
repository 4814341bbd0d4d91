"""MyST Markdown of the book, turned into Markdown that Jupyter, Colab and GitHub show.

Roles become the words that the page shows, directives quotations, paragraphs and code, formulas
plain LaTeX without the book's macros. What has no plain form here is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "chapters" / "_ext"))

from maths import aligned  # noqa: E402

ROLE = r"\{(?P<role>[a-zA-Z][\w:+-]*)\}(?P<tick>`+)(?P<content>.+?)(?<!`)(?P=tick)(?!`)"
INLINE = re.compile(
    rf"(?P<escaped>\\[^\w\s])|{ROLE}"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|\$(?P<math>(?:\\.|[^\\$])+)\$"
    r"|\]\((?P<link>[^)\s]*)",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"\{([\w:-]+)\}[ \t]*(.*)")
OPTION = re.compile(r":([\w-]+):[ \t]*(.*)")
CITATION = re.compile(r"cite(?::[a-z]+)?$")
CONTROL = re.compile(r"\\(?:[a-zA-Z]+|.)", re.DOTALL)
# A line of a formula that begins so would begin something else for one reader or another.
HAZARD = re.compile(r"[-=+*#>]|\d+[.)]|~~~|```")
PROTECTED = {"fence", "code_block", "html_block"}
ADMONITIONS = {
    "attention",
    "caution",
    "danger",
    "error",
    "hint",
    "important",
    "note",
    "seealso",
    "tip",
    "warning",
}
PROOFS = {
    "algorithm",
    "assumption",
    "axiom",
    "conjecture",
    "corollary",
    "criterion",
    "definition",
    "example",
    "lemma",
    "observation",
    "property",
    "proposition",
    "remark",
    "theorem",
}

Macros = Mapping[str, Any]


class PlainError(ValueError):
    """Something of MyST that has no plain form here; the message names it."""


def parser() -> Callable[[str], list[Token]]:
    """Return a function that parses a cell as the book does."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    extensions = set(settings["parse"]["myst_enable_extensions"])
    config = MdParserConfig(enable_extensions=extensions)
    return create_md_parser(config, RendererHTML).parse


parse = parser()


# ------------------------------------------------------------------------------------- formulas
def argument(tex: str, at: int) -> tuple[str, int]:
    """Return the argument of a macro that begins at a place, and the place after it."""
    while at < len(tex) and tex[at].isspace():
        at += 1
    if at == len(tex):
        raise PlainError(f"a macro lacks its argument in {tex!r}")
    if tex[at] != "{":
        control = CONTROL.match(tex, at)
        end = control.end() if control else at + 1
        return tex[at:end], end
    depth, start = 0, at
    while at < len(tex):
        control = CONTROL.match(tex, at)
        if control:
            at = control.end()
            continue
        depth += {"{": 1, "}": -1}.get(tex[at], 0)
        at += 1
        if not depth:
            return tex[start + 1 : at - 1], at
    raise PlainError(f"a brace is not closed in {tex!r}")


def expand(tex: str, macros: Macros) -> str:
    """Return LaTeX in which the book's macros are replaced by what they stand for."""
    out, at = [], 0
    while found := CONTROL.search(tex, at):
        out.append(tex[at : found.start()])
        at = found.end()
        macro = macros.get(found[0][1:])
        if macro is None:
            out.append(found[0])
            continue
        body, count = (macro, 0) if isinstance(macro, str) else macro
        for position in range(1, count + 1):
            given, at = argument(tex, at)
            body = body.replace(f"#{position}", given)
        out.append(expand(body, macros))
        # A body that ends in a control word must not swallow the letter that follows.
        if (
            re.search(r"\\[a-zA-Z]+$", out[-1])
            and tex[at : at + 1].isalpha()
        ):
            out.append(" ")
    return "".join([*out, tex[at:]])


def plain_tex(tex: str, macros: Macros) -> str:
    """Return a formula that no Markdown and no HTML can misread."""
    # A < that touches a letter would open a tag.
    return re.sub(r"<(?=\S)", r"\\lt ", expand(tex.strip(), macros))


def display(tex: str, number: str, macros: Macros, one_line: bool) -> str:
    """Return a display formula, with its number if it has one."""
    lines = plain_tex(aligned(tex), macros).split("\n")
    if number:
        lines[-1] += rf" \tag{{{number}}}"
    joined = [lines[0].strip()]
    for line in map(str.strip, lines[1:]):
        if one_line or HAZARD.match(line):
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return (
        f"$${joined[0]}$$" if one_line else "\n".join(["$$", *joined, "$$"])
    )


# --------------------------------------------------------------------------------------- blocks
def quote(text: str) -> str:
    """Return text as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def opened(content: str) -> tuple[dict[str, str], str]:
    """Return the options of a directive and its body."""
    lines, options = content.split("\n"), {}
    while lines and (option := OPTION.fullmatch(lines[0].strip())):
        options[option[1]] = option[2].strip()
        del lines[0]
    return options, "\n".join(lines).strip("\n")


class Page:
    """Converts the Markdown of one page, cell by cell from the first to the last.

    `numbers` is what printed_numbers.py says of the page, `book` what it says of the book. What is
    for teachers alone is kept if told so.
    """

    def __init__(
        self,
        numbers: dict[str, Any],
        book: dict[str, Any],
        teacher: bool = False,
    ) -> None:
        self.numbers, self.book, self.teacher = numbers, book, teacher
        self.macros: Macros = book["macros"]
        self.headings = iter(numbers["headings"])
        self.listings = iter(numbers["listings"])
        self.cited: set[str] = set()
        self.level = 0

    def markdown(self, source: str, one_line: bool = False) -> str:
        """Return the plain form of some Markdown; display formulas on one line if told so."""
        lines, out, at = source.split("\n"), [], 0
        for token in parse(source):
            if not token.map or token.map[0] < at:
                continue
            start, end = token.map
            block = self.block(token, lines[start:end], one_line)
            if block is None:
                continue
            out += [self.text("\n".join(lines[at:start]))] * (start > at)
            out += block
            at = end
        out += [self.text("\n".join(lines[at:]))] * (len(lines) > at)
        return "\n".join(out).strip("\n")

    def block(
        self, token: Token, lines: list[str], one_line: bool
    ) -> list[str] | None:
        """Return what becomes of a block: some text, nothing, or None where it is text itself."""
        kind = token.type
        margin = re.match(r"[ \t>]*", lines[0])[0] if lines else ""
        one_line = one_line or bool(margin)
        if kind == "heading_open":
            return [self.heading(token, lines)]
        if kind == "table_open":
            return [self.text(line, table=True) for line in lines]
        if kind in ("math_block", "math_block_label"):
            number = self.label(token.info) if token.info else ""
            text = display(token.content, number, self.macros, one_line)
        elif kind == "colon_fence" or token.info.lstrip().startswith("{"):
            text = self.directive(token, one_line)
        elif kind in PROTECTED:
            return lines
        elif kind in ("myst_target", "myst_line_comment"):
            return []
        elif kind in (
            "myst_block_break",
            "amsmath",
            "dl_open",
            "field_list_open",
        ):
            raise PlainError(f"no plain form of {kind}: {lines[0]}")
        else:
            return None
        return [f"{margin}{line}".rstrip() for line in text.split("\n")]

    def heading(self, token: Token, lines: list[str]) -> str:
        """Return a heading, with its number on the page."""
        if not token.markup.startswith("#"):
            raise PlainError(
                f"a heading is to be written with #: {lines[0]}"
            )
        number = next(self.headings, None)
        if number is None:
            raise PlainError(f"the page has no heading for: {lines[0]}")
        marks, _, title = lines[0].partition(" ")
        self.level = len(marks)
        prefix = f"{number}. " if number else ""
        return f"{marks} {prefix}{self.text(title.strip())}"

    def directive(self, token: Token, one_line: bool) -> str:
        """Return the plain form of a directive."""
        opening = DIRECTIVE.fullmatch(token.info.strip())
        if not opening:
            raise PlainError(f"no plain form of a division: {token.info!r}")
        name, title = opening[1], self.text(opening[2])
        options, body = opened(token.content)
        family, _, kind = name.rpartition(":")
        if name == "math":
            number = (
                self.label(options["label"]) if "label" in options else ""
            )
            return display(body, number, self.macros, one_line)
        if name == "package-source":
            return self.source(opening[2])
        if name == "dropdown" or "dropdown" in options.get("class", ""):
            inner = self.markdown(body)
            return f"<details><summary>{title}</summary>\n\n{inner}\n\n</details>"
        if name == "admonition" or name in ADMONITIONS:
            named = {"seealso": "See also"}.get(name, name.capitalize())
            title = title or named
            inner = self.markdown(body, one_line=True)
            return quote(f"**{title}**\n\n{inner}")
        if family == "prf" and kind == "proof":
            return self.proof(body, one_line)
        if family == "prf" and kind in PROOFS:
            called = (
                self.label(options["label"]) if "label" in options else kind
            )
            title = f" ({title})" if title else ""
            inner = self.markdown(body, one_line=True)
            return quote(f"**{called.capitalize()}**{title}\n\n{inner}")
        if name == "exercise":
            # A heading, so that Colab's and Jupyter's contents list it.
            marks = "#" * (self.level + 1)
            title = f" ({title})" if title else ""
            inner = self.markdown(body, one_line)
            return f"{marks} {self.label(options.get('label', ''))}{title}\n\n{inner}"
        if name == "solution-start":
            return f"**{self.label(options.get('label', ''))}**"
        if name == "solution-end":
            return "***"
        if name == "only" and opening[2] == "teacher":
            inner = self.markdown(body, one_line=True)
            note = quote(f"**For teachers**\n\n{inner}")
            return note if self.teacher else ""
        raise PlainError(f"no plain form of the directive {name}")

    def proof(self, body: str, one_line: bool) -> str:
        """Return a proof, from its name to its end mark."""
        text = self.markdown(body, one_line)
        opens_with_text = re.match(r"(?!\$\$|[-*+>|#] |\d+\. |```)", text)
        closes_with_text = not re.search(
            r"(?:\$\$|```|^[-*+>|].*)$", text, re.M
        ) or (text.split("\n\n")[-1][0] not in "$`-+>|")
        return (
            "*Proof.*"
            + (" " if opens_with_text else "\n\n")
            + text
            + (" ∎" if closes_with_text else "\n\n∎")
        )

    def source(self, name: str) -> str:
        """Return a piece of the package's source, as the page prints it."""
        listing = next(self.listings, None)
        shown = (
            listing["caption"].partition("`")[2].partition("`")[0]
            if listing
            else ""
        )
        if not listing or not name.endswith(shown):
            raise PlainError(f"the page does not print {name} here")
        return (
            f"**{listing['title']}** {listing['caption']}\n\n"
            f"```python\n{listing['code'].strip(chr(10))}\n```"
        )

    def label(self, label: str) -> str:
        """Return what is labelled so is called on the page."""
        called = self.numbers["labels"].get(label)
        if not called:
            raise PlainError(f"the page has no number for the label {label}")
        return called

    # ------------------------------------------------------------------------------------- text
    def text(self, text: str, table: bool = False) -> str:
        """Return text with its roles and formulas in their plain form."""

        def replaced(match: re.Match[str]) -> str:
            if match["role"]:
                return self.role(match["role"], match["content"])
            if match["math"]:
                tex = " ".join(match["math"].split())
                # In a table, a bar would end the cell.
                tex = tex.replace(r"\|", r"\vert ") if table else tex
                return f"${plain_tex(tex, self.macros)}$"
            link = match["link"]
            if link is not None and not re.match(r"https?://", link):
                raise PlainError(
                    f"a link leads nowhere outside the book: {link}"
                )
            return match[0]

        # Nothing within a line goes beyond an empty one.
        parts = re.split(r"(\n[ \t>]*\n)", text)
        return "".join(INLINE.sub(replaced, part) for part in parts)

    def role(self, name: str, content: str) -> str:
        """Return what a role says on the page, with a link if it leads to another page."""
        content = " ".join(content.split())
        if name == "math":
            return f"${plain_tex(content, self.macros)}$"
        found = self.numbers["references"].get(f":{name}:`{content}`")
        if not found:
            raise PlainError(
                f"the page does not say what {{{name}}}`{content}` is"
            )
        text, uri = found["text"], found["uri"]
        if CITATION.match(name):
            self.cited.update(key.strip() for key in content.split(","))
            return text
        elsewhere = uri and uri.partition("#")[0] != self.numbers["uri"]
        if elsewhere and self.book["pages_at"]:
            return f"[{text}]({self.book['pages_at']}{uri})"
        if elsewhere and name in ("doc", "ref") and "<" not in content:
            # Where no link sets it off, the title of another page is to be seen as one.
            return text if re.search("[*`$]", text) else f"*{text}*"
        return text
