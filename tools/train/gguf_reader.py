"""Reads back what gguf_writer writes: metadata, and tensors as float32 arrays."""
import struct

import numpy as np

import gguf_writer as gguf


class Reader:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        magic, version, tensor_count, key_count = self.take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"{path} is not a GGUF v3 file")
        self.metadata = {}
        for _ in range(key_count):
            key = self.string()
            self.metadata[key] = self.value(*self.take("<I"))
        infos = []
        for _ in range(tensor_count):
            name, (dims,) = self.string(), self.take("<I")
            infos.append((name, self.take(f"<{dims}Q")[::-1], *self.take("<IQ")))
        self.at += -self.at % gguf.ALIGNMENT
        self.tensors = {name: self.tensor(*info) for name, *info in infos}

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def string(self):
        length, = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == gguf.STRING:
            return self.string()
        if kind == gguf.ARRAY:
            kind, length = self.take("<IQ")
            return [self.value(kind) for _ in range(length)]
        return self.take(gguf.PACKED[kind])[0]

    def tensor(self, shape, kind, offset):
        count = int(np.prod(shape))
        if kind == gguf.TENSOR_F32:
            return np.frombuffer(self.data, np.float32, count, self.at + offset).reshape(shape)
        if kind != gguf.TENSOR_Q8_0:
            raise ValueError(f"tensor type {kind} is not supported")
        layout = np.dtype([("scale", "<f2"), ("values", "i1", gguf.BLOCK)])
        blocks = np.frombuffer(self.data, layout, count // gguf.BLOCK, self.at + offset)
        return gguf.dequantise(blocks["scale"][:, None], blocks["values"], shape)
