"""A minimal GGUF v3 writer: typed metadata, F32 and Q8_0 tensors."""
import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_F32, TENSOR_Q8_0 = 0, 8
FILE_TYPE_Q8_0 = 7
ALIGNMENT = 32
BLOCK = 32
PACKED = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}


def quantise(x):
    """Blocks of 32 values as (f16 scales, int8 values)."""
    blocks = np.asarray(x, np.float32).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    values = np.rint(blocks / np.where(scale == 0, 1, scale)).astype(np.int8)
    return scale.astype(np.float16), values


def dequantise(scale, values, shape):
    return (scale.astype(np.float32) * values).reshape(shape)


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    return string(v) if kind == STRING else struct.pack(PACKED[kind], v)


def write(path, metadata, tensors):
    """`metadata`: (key, type, value), the type of a list being (ARRAY, type of its items).
    `tensors`: (name, numpy array); matrices are stored as Q8_0 and vectors as F32.
    """
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, kind, v in metadata:
        head += string(key)
        if isinstance(kind, tuple):
            head += struct.pack("<IIQ", ARRAY, kind[1], len(v)) + b"".join(value(kind[1], item) for item in v)
        else:
            head += struct.pack("<I", kind) + value(kind, v)
    body = b""
    for name, x in tensors:
        if x.ndim == 2:
            scale, values = quantise(x)
            data = np.concatenate([scale.view(np.int8).reshape(-1, 2), values], axis=1).tobytes()
        else:
            data = np.asarray(x, np.float32).tobytes()
        # GGUF names the fastest-running dimension first.
        head += string(name) + struct.pack("<I", x.ndim) + struct.pack(f"<{x.ndim}Q", *reversed(x.shape))
        head += struct.pack("<IQ", TENSOR_Q8_0 if x.ndim == 2 else TENSOR_F32, len(body))
        body += data + bytes(-len(data) % ALIGNMENT)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGNMENT) + body)
