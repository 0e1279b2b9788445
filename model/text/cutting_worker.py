"""Texts cut into tokens by a stranger's regular expressions: a program of its own, started and stopped by `cutting`.

Of what it reads, the first line of JSON is the tokenizer, {"json", "special"}, and each other a wish, {"encode" or
"decode", …}, to which it writes a line with the answer. A wish that takes more `seconds` of the processor than it says
ends it, by SIGPROF.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any

import tokenizers

MEMORY = 2 << 30  # bytes


def answer(tokenizer: tokenizers.Tokenizer, wish: Mapping[str, Any]) -> dict[str, Any]:
    """Answer to one wish."""
    if "decode" in wish:
        return {"text": tokenizer.decode(wish["decode"], skip_special_tokens=True)}
    text, *pair = wish["encode"]
    encoded = tokenizer.encode(text, pair[0] if pair else None, add_special_tokens=wish["frame"])
    fields = (encoded.ids, encoded.tokens, encoded.offsets, encoded.special_tokens_mask, encoded.type_ids)
    return {"encoded": fields}


def main() -> None:
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    first = json.loads(sys.stdin.readline())
    tokenizer = tokenizers.Tokenizer.from_str(first["json"])
    tokenizer.encode_special_tokens = first["special"]
    for line in sys.stdin:
        wish = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, wish["seconds"])  # then it is killed
        try:
            reply = answer(tokenizer, wish)
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception even
            reply = {"error": str(error)[:300], "panic": not isinstance(error, Exception)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
