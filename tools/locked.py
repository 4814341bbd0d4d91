"""Run a command while holding a lock file, so that two makes in one folder take turns.

The lock is the kernel's: it ends with the process, however that ends.
"""

import fcntl
import os
import sys

lock, *command = sys.argv[1:]
try:
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
except OSError as error:
    sys.exit(f"make: this folder cannot be written to: {error}")
try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Waiting for another make in this folder", flush=True)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
os.set_inheritable(descriptor, True)
os.execvp(command[0], command)
