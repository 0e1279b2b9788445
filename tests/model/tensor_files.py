"""Files of tensors that tests write."""

import json
import struct


def raw_safetensors(path, header, data=b"", length=None):
    """header: as an object, or as it stands in the file. length: what the file says of it, if not its own."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content) if length is None else length) + content + data)
    return path
