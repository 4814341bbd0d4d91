"""Lets tests import course/; last on the path, so that what is installed goes before the folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
