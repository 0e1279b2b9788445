"""Python imports this when it starts, where a test puts this folder on its path: the process dies in the middle of the
write to saved models that the file DEATH names, such as "rename 2": the second renaming from then on.
"""

import os
import signal
from collections import Counter
from pathlib import Path

DEATH, SAVED = Path(os.environ["DEATH"]), os.environ["VITRINE_SAVED"]


def die_in(name):
    call, done = getattr(os, name), Counter()

    def dying(what, *arguments, **options):
        path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else os.fspath(what)
        if path.startswith(SAVED) and os.path.lexists(path) and DEATH.exists():  # rmtree tries what is not there
            done[name] += 1
            if DEATH.read_text() == f"{name} {done[name]}":
                if isinstance(what, int):  # not on the disk yet: half of it is lost
                    os.truncate(path, os.path.getsize(path) // 2)
                os.kill(os.getpid(), signal.SIGKILL)
        return call(what, *arguments, **options)

    setattr(os, name, dying)


for each in ("fsync", "rename", "replace", "rmdir"):
    die_in(each)
