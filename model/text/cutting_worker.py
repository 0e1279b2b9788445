"""Texts cut into tokens by a stranger's regular expressions: a program of its own, started and stopped by `cutting`.

It reads a line of JSON for each wish and writes one with the answer: {"load": id, "json", "special"} takes a tokenizer,
{"id", "encode" or "decode", …} uses one. A wish that takes more `seconds` of the processor than it says ends it.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import tokenizers

MEMORY = 2 << 30  # bytes
KEPT = 4  # tokenizers


def answer(known: OrderedDict[str, tokenizers.Tokenizer], wish: Mapping[str, Any]) -> dict[str, Any]:
    """Answer to one wish; unknown: whether its tokenizer is to be loaded first."""
    if "load" in wish:
        loaded = tokenizers.Tokenizer.from_str(wish["json"])
        loaded.encode_special_tokens = wish["special"]
        known[wish["load"]] = loaded
        while len(known) > KEPT:
            known.popitem(last=False)
        return {}
    if wish["id"] not in known:
        return {"unknown": True}
    known.move_to_end(wish["id"])
    tokenizer = known[wish["id"]]
    if "decode" in wish:
        return {"text": tokenizer.decode(wish["decode"], skip_special_tokens=True)}
    text, *pair = wish["encode"]
    encoded = tokenizer.encode(text, pair[0] if pair else None, add_special_tokens=wish["frame"])
    found = (encoded.ids, encoded.tokens, encoded.offsets, encoded.special_tokens_mask, encoded.type_ids)
    return {"encoded": found}


def main() -> None:
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    known: OrderedDict[str, tokenizers.Tokenizer] = OrderedDict()
    for line in sys.stdin:
        wish = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, wish["seconds"])  # then it is killed
        try:
            told = answer(known, wish)
        except BaseException as error:  # the library raises bare Exception, and panics of Rust are not even that
            told = {"error": str(error)[:300], "panic": not isinstance(error, Exception)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
