"""Files of tensors that tests write."""

import json
import struct


def raw_safetensors(path, header, data=b""):
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + data)
    return path
