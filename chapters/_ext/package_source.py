"""The directive `package-source`: prints a package's own source, so that it cannot drift.

    ```{package-source} attention.reference.softmax
    ```

shows the function as it is in the file, without its docstring (`:docstring:` keeps it), under a
caption that names the file and links a public name to the API reference. Nothing is run.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def find_source(root: Path, name: str) -> tuple[Path, Definition, str]:
    """Return file, definition and kind (`func`, `meth` or `class`) of a dotted name.

    Raises LookupError, with a sentence that says what is missing, if there is no such definition.
    """
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = root.joinpath(*parts[:length])
        file = next(
            (
                f
                for f in (module.with_suffix(".py"), module / "__init__.py")
                if f.is_file()
            ),
            None,
        )
        if file:
            break
    else:
        raise LookupError(f"no module of the package holds {name!r}")
    scope: ast.Module | Definition = ast.parse(file.read_text("utf-8"))
    kind = "func"
    for part in parts[length:]:
        kind = "meth" if isinstance(scope, ast.ClassDef) else "func"
        found = [
            n
            for n in scope.body
            if isinstance(n, Definition) and n.name == part
        ]
        if not found:
            raise LookupError(
                f"{file.relative_to(root).as_posix()} does not define {name!r}"
            )
        scope = found[-1]  # The last one counts, after any typing.overload.
    assert isinstance(scope, Definition)
    return file, scope, "class" if isinstance(scope, ast.ClassDef) else kind


def source_text(
    file: Path, definition: Definition, docstring: bool = False
) -> str:
    """Return a definition's lines as they are in the file, dedented, without docstrings."""
    lines = file.read_text("utf-8").splitlines()
    first = min(
        [definition.lineno, *(d.lineno for d in definition.decorator_list)]
    )
    dropped: set[int] = set()
    for inner in ast.walk(definition) if not docstring else ():
        if (
            isinstance(inner, Definition)
            and ast.get_docstring(inner, clean=False) is not None
        ):
            text = inner.body[0]
            assert text.end_lineno is not None
            dropped.update(range(text.lineno, text.end_lineno + 1))
            if not "".join(
                lines[text.end_lineno : text.end_lineno + 1]
            ).strip():
                dropped.add(
                    text.end_lineno + 1
                )  # The empty line between docstring and body.
    assert definition.end_lineno is not None
    kept = [
        lines[n - 1]
        for n in range(first, definition.end_lineno + 1)
        if n not in dropped
    ]
    return textwrap.dedent("\n".join(kept))


class PackageSource(SphinxDirective):
    """Shows the source of a function, a class or a method."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "docstring": directives.flag,
        "name": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the highlighted source under its caption."""
        name = self.arguments[0]
        root = Path(
            self.env.srcdir, self.config.package_source_root
        ).resolve()
        try:
            file, definition, kind = find_source(root, name)
        except (LookupError, SyntaxError) as problem:
            raise self.error(f"package-source: {problem}") from problem
        self.env.note_dependency(str(file))

        code = source_text(file, definition, "docstring" in self.options)
        literal = nodes.literal_block(code, code, language="python")
        literal["classes"].append("package-source")
        self.set_source_info(literal)

        title: nodes.Element = nodes.literal(
            "", name.removeprefix(self.module(root, file) + ".")
        )
        if not re.search(
            r"\._", name
        ):  # What is private has no entry to link to.
            title = addnodes.pending_xref(
                "",
                title,
                refdomain="py",
                reftype=kind,
                reftarget=name,
                refdoc=self.env.docname,
                refexplicit=True,
                refwarn=True,
            )
        caption = nodes.caption("", "", title, nodes.Text(" in "))
        caption += nodes.literal("", file.relative_to(root).as_posix())
        self.set_source_info(caption)

        block = nodes.container("", caption, literal, literal_block=True)
        block["classes"] += ["literal-block-wrapper", "package-source"]
        self.set_source_info(block)
        if "name" in self.options:
            self.add_name(block)
        else:  # An id is what Sphinx numbers.
            self.state.document.set_id(
                block, suggested_prefix="listing-" + name.replace(".", "-")
            )
        return [block]

    @staticmethod
    def module(root: Path, file: Path) -> str:
        """Return the dotted name of a module's file."""
        parts = file.relative_to(root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def prefer_own_package(app: Sphinx, config: Config) -> None:
    """Let autodoc describe the package beside the book, not another copy that is installed."""
    sys.path.insert(
        0, str(Path(app.srcdir, config.package_source_root).resolve())
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.connect("config-inited", prefer_own_package)
    app.add_config_value("package_source_root", ".", "env", str)
    app.add_directive("package-source", PackageSource)
    return {"version": "1", "parallel_read_safe": True}
