"""Writes and reads the F16 tensors of a safetensors file."""
import json
import os
import struct

import numpy as np


def write(path, tensors):
    """`tensors`: name to numpy array; all are stored as F16."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, x in sorted(tensors.items()):
        data = np.ascontiguousarray(x, np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)
    os.replace(path + ".part", path)  # a reader never sees half a file


def read(path):
    """Name to float32 array."""
    with open(path, "rb") as f:
        data = f.read()
    length, = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F16":
            raise ValueError(f"{path}: tensor {name}: expected F16, found {entry['dtype']}")
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(body[begin:end], np.float16).astype(np.float32).reshape(entry["shape"])
    return tensors
