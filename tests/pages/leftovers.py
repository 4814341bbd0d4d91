"""What Jupyter, Colab or GitHub would show as broken markup: a strict look at plain Markdown.

It looks twice, without any code that makes the editions: for marks in the text, and for what the
book's own parser would still read as MyST.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from mdit_py_plugins.dollarmath import dollarmath_plugin
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

# Marks that mean nothing outside MyST, in text without code and formulas.
MARKS = {
    "a role": r"\{[\w:+-]+\}\s*`|`[^`]*`\{",
    "a directive": r":{3,}|~{3,}|^\s*\{[\w:-]+\}",
    "an option": r"^\s*:[\w-]+:(?:\s|$)",
    "a target": r"^\s*\([\w:. -]+\)=",
    "a label": r"^\s*\([\w:.-]+\)\s*$",
    "a comment": r"^\s*%",
    "a break": r"^\s*\+\+\+",
    "a substitution": r"\{\{|\}\}",
    "attributes": r"[\])]\{|^\s*\{[.#]",
    "a footnote": r"\[\^",
    "a definition list": r"^:\s+\S",
    "a field": r"^\s*:[\w-]+:",
    "reStructuredText": r"^\.\. |:[\w:]+:`",
    "a link that leads nowhere outside": r"\]\((?!https?://)",
    "a dollar that no formula has": r"(?<!\\)\$",
}
# What the book's parser may find in a plain cell.
PLAIN = re.compile(
    r"(?:paragraph|heading|bullet_list|ordered_list|list_item|blockquote|table|thead|tbody|tr|th|td)_"
    r"(?:open|close)|inline|text|softbreak|hardbreak|code_inline|fence|hr|html_block|html_inline"
    r"|(?:em|strong|link)_(?:open|close)|math_inline|math_block|text_special"
)
FORMULA = ("math_inline", "math_inline_double", "math_block")
# Not LaTeX's own, or nothing that a formula outside a document knows.
UNKNOWN = re.compile(
    r"\\(?:label|ref|eqref|newcommand|def|DeclareMathOperator)\b|\\begin\{(?:equation|align)\*?\}"
)

plain = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
myst = create_md_parser(
    MdParserConfig(
        enable_extensions={
            "amsmath",
            "attrs_block",
            "attrs_inline",
            "colon_fence",
            "deflist",
            "dollarmath",
            "fieldlist",
            "substitution",
        }
    ),
    RendererHTML,
)


def tokens(parser: MarkdownIt, markdown: str) -> Iterator:
    """Yield every token of some Markdown."""
    for token in parser.parse(markdown):
        yield token
        yield from token.children or ()


def formulas(markdown: str) -> list[tuple[str, bool]]:
    """Return the formulas of some Markdown, and whether each stands on a line of its own."""
    return [
        (token.content.strip(), token.type != "math_inline")
        for token in tokens(plain, markdown)
        if token.type in FORMULA
    ]


def bare_text(markdown: str) -> str:
    """Return Markdown without its code and its formulas; quotation marks dropped."""
    lines = markdown.split("\n")
    for token in plain.parse(markdown):
        if token.type in ("fence", "math_block") and token.map:
            start, end = token.map
            lines[start:end] = [""] * (end - start)
    text = "\n".join(re.sub(r"^(?:\s*>)+ ?", "", line) for line in lines)
    text = re.sub(
        r"\$\$.*?\$\$|\$(?:\\.|[^\\$])+\$", "formula", text, flags=re.S
    )
    # A role keeps its tick: `{name}` before it is what tells it from code.
    return re.sub(
        r"(?<![}`])(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?![`{])",
        "code",
        text,
        flags=re.S,
    )


def leftovers(markdown: str, macros: Iterable[str]) -> list[str]:
    """Return what is left of MyST in a cell, in words."""
    text = bare_text(markdown)
    found = [
        f"{name}: {match[0]!r}"
        for name, pattern in MARKS.items()
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    found += [
        f"{token.type}: {token.content or token.info!r}"
        for token in tokens(myst, markdown)
        if not PLAIN.fullmatch(token.type)
        or (
            token.type == "fence" and not re.fullmatch(r"python", token.info)
        )
    ]
    own = re.compile(
        rf"\\(?:{'|'.join(map(re.escape, macros))})(?![a-zA-Z])"
    )
    for tex, _ in formulas(markdown):
        found += [f"a macro: {m[0]}" for m in own.finditer(tex)]
        found += [
            f"not for a formula: {m[0]}" for m in UNKNOWN.finditer(tex)
        ]
    return found
