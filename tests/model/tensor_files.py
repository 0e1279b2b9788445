"""Files of tensors that tests write, and what they measure."""

import json
import struct

from model.analysis.weights.spectra import has_spectrum, spectrum
from model.analysis.weights.statistics import first_of_places, readable, statistics


def raw_safetensors(path, header, data=b"", length=None):
    """header: as an object, or as it stands in the file. length: what the file says of it, if not its own."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content) if length is None else length) + content + data)
    return path


def all_statistics(infos):
    """Each place of the file once, with what its values measure."""
    return [(info, statistics(info.load())) for info in first_of_places(infos) if readable(info)]


def all_spectra(infos):
    """Each place of the file once that has singular values, with them."""
    return [(info, spectrum(info)) for info in first_of_places(infos) if has_spectrum(info)]
