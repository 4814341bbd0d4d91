"""Serve the built book on this machine only, compressed as a web server would, until Ctrl-C."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import os
import sys
from pathlib import Path
from typing import BinaryIO

HTML = Path(__file__).resolve().parent.parent / "_build" / "html"
COMPRESSED = {".html", ".css", ".js", ".svg", ".json"}


@functools.lru_cache(maxsize=256)
def compressed(file: Path, changed: float) -> bytes:
    """Return a file's content as gzip; `changed` makes a new one count."""
    return gzip.compress(file.read_bytes(), 9, mtime=0)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Answers with files, text compressed, over connections that stay open."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send a text's header here, any other file's as usual."""
        file = Path(self.translate_path(self.path))
        accepted = "gzip" in self.headers.get("Accept-Encoding", "")
        if (
            file.suffix not in COMPRESSED
            or not file.is_file()
            or not accepted
        ):
            return super().send_head()
        content = compressed(file, file.stat().st_mtime)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(file)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return io.BytesIO(content)


class Quiet(Handler):
    """The same, without a line for every request."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def server(
    port: int, folder: Path = HTML, handler: type[Handler] = Handler
) -> http.server.ThreadingHTTPServer:
    """Return a server of a folder on this machine; port 0 takes any free one."""
    return http.server.ThreadingHTTPServer(
        ("127.0.0.1", port),
        functools.partial(handler, directory=str(folder)),
    )


def main() -> None:
    """Serve until Ctrl-C."""
    port = os.environ.get("PORT") or "8000"
    try:
        book = server(int(port))
    except (OSError, ValueError, OverflowError):
        sys.exit(
            f"make: port {port} cannot be used: choose another with PORT=…"
        )
    print(
        f"The book is at http://127.0.0.1:{port}/ (Ctrl-C ends)", flush=True
    )
    try:
        book.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
