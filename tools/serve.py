"""Serve the built book on this machine only, until Ctrl-C."""

import functools
import http.server
import os
import sys
from pathlib import Path

HTML = Path(__file__).resolve().parent.parent / "_build" / "html"

port = os.environ.get("PORT") or "8000"
handler = functools.partial(
    http.server.SimpleHTTPRequestHandler, directory=str(HTML)
)
try:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", int(port)), handler
    )
except (OSError, ValueError, OverflowError):
    sys.exit(f"make: port {port} cannot be used: choose another with PORT=…")
print(f"The book is at http://127.0.0.1:{port}/ (Ctrl-C ends)", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    print()
