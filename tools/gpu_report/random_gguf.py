#!/usr/bin/env python3
"""Writes llamas with random weights as GGUF, for measuring: their numbers have the sizes of a trained model's, their texts mean nothing.

    random_gguf.py [8b-q4|1b-f16|tiny FILE.gguf]...
"""

import os
import random
import struct
import sys

TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210)}  # number in GGUF, values and bytes of a block
MODELS = {  # width, layers, heads, heads of keys and values, head size, width of the feed-forward part, vocabulary, type
    "8b-q4": (4096, 32, 32, 8, 128, 14336, 128256, "Q4_K"),
    "1b-f16": (2048, 16, 32, 8, 64, 8192, 128256, "F16"),
    "tiny": (512, 2, 8, 2, 64, 1024, 2000, "Q4_K"),
}


def uint(value):
    return struct.pack("<I", value)


def string(text):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text


def settings(width, layers, heads, kv_heads, head_dim, feed_forward, vocabulary, kind):
    pairs = []

    def add(key, kind_of_value, value):
        pairs.append(string(key) + uint(kind_of_value) + value)

    add("general.architecture", 8, string("llama"))
    add("general.name", 8, string("random"))
    add("general.file_type", 4, uint(1 if kind == "F16" else 15))
    for key, value in [("context_length", 131072), ("embedding_length", width), ("block_count", layers),
                       ("feed_forward_length", feed_forward), ("attention.head_count", heads),
                       ("attention.head_count_kv", kv_heads), ("rope.dimension_count", head_dim), ("vocab_size", vocabulary)]:
        add("llama." + key, 4, uint(value))
    add("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5))
    add("llama.rope.freq_base", 6, struct.pack("<f", 500000.0))
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)] + [b"t%d" % i for i in range(vocabulary - 259)]
    add("tokenizer.ggml.model", 8, string("llama"))
    add("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, vocabulary) + b"".join(map(string, tokens)))
    add("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, vocabulary) + bytes(4 * vocabulary))
    add("tokenizer.ggml.token_type", 9, struct.pack(f"<IQ{vocabulary}i", 5, vocabulary, 2, 3, 3, *[6] * 256, *[1] * (vocabulary - 259)))
    for name, token in (("bos", 1), ("eos", 2), ("unknown", 0)):
        add(f"tokenizer.ggml.{name}_token_id", 4, uint(token))
    return pairs


def tensors(width, layers, heads, kv_heads, head_dim, feed_forward, vocabulary, kind):
    """Name, shape and type. As llama.cpp's Q4_K_M, with six bits for the output and for half of two matrices of a layer."""
    finer = "F16" if kind == "F16" else "Q6_K"
    yield "token_embd.weight", (vocabulary, width), kind
    yield "output_norm.weight", (width,), "F32"
    if kind != "F16":
        yield "output.weight", (vocabulary, width), finer
    for i in range(layers):
        more = finer if i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2 else kind
        for name, shape, of in [("attn_norm", (width,), "F32"), ("ffn_norm", (width,), "F32"),
                                ("attn_q", (heads * head_dim, width), kind), ("attn_k", (kv_heads * head_dim, width), kind),
                                ("attn_v", (kv_heads * head_dim, width), more), ("attn_output", (width, heads * head_dim), kind),
                                ("ffn_gate", (feed_forward, width), kind), ("ffn_up", (feed_forward, width), kind),
                                ("ffn_down", (width, feed_forward), more)]:
            yield f"blk.{i}.{name}.weight", shape, of


def blocks(kind, columns, made={}):
    """Some thousand blocks, which tensors repeat: a prime number, so that no two rows are the same. Products keep their input's size."""
    if (kind, columns) not in made:
        spread = columns ** -0.5
        if kind == "F32":
            data = struct.pack("<f", 1.0) * 8191
        elif kind == "F16":
            values = [struct.pack("<e", (i - 127.5) / 73 * spread) for i in range(256)]
            data = b"".join([values[byte] for byte in os.urandom(1048573)])
        else:
            head = struct.pack("<ee", spread / 138, spread / 138 * 7.5) if kind == "Q4_K" else b""
            tail = struct.pack("<e", spread / 1369) if kind == "Q6_K" else b""
            size = TYPES[kind][2] - len(head) - len(tail)
            noise = os.urandom(16381 * size)
            data = b"".join([head + noise[i:i + size] + tail for i in range(0, len(noise), size)])
        made[kind, columns] = memoryview(data)
    return made[kind, columns]


def write(path, model):
    pairs, infos, listed, at = settings(*MODELS[model]), [], list(tensors(*MODELS[model])), 0
    sizes = []
    for name, shape, kind in listed:
        number, values, size = TYPES[kind]
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        infos.append(string(name) + uint(len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", number, at))
        sizes.append(count // values * size)
        at += (sizes[-1] + 31) // 32 * 32
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pairs) + b"".join(infos)
    with open(path + ".part", "wb") as file:
        file.write(header + bytes(-len(header) % 32))
        for (name, shape, kind), left in zip(listed, sizes):
            pool, size, padding = blocks(kind, shape[-1]), TYPES[kind][2], -left % 32
            start = random.randrange(len(pool) // size) * size
            while left:
                part = pool[start:start + left]
                file.write(part)
                left -= len(part)
                start = 0
            file.write(bytes(padding))
    os.rename(path + ".part", path)  # who waits for the file finds all of it


if __name__ == "__main__":
    for model, path in zip(sys.argv[1::2], sys.argv[2::2]):
        write(path, model)
