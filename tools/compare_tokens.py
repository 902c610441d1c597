#!/usr/bin/env python3
"""Lets llama.cpp continue the prompts of fixtures from GGUF files, and compares its tokens with the reference's.

    tools/compare_tokens.py --words FIXTURE FOLDER
    tools/compare_tokens.py [--llama-server COMMAND] FIXTURE=MODEL.gguf ...

The first makes FOLDER: the fixture with a made-up tokenizer, for fixtures have none, and llama-server runs no model without. Then
`pumice convert FOLDER MODEL.gguf --type F32` writes what the second compares. FIXTURE is a folder with expected.safetensors. Prints
a line for each: how many tokens are equal, or what llama.cpp says of the file. The exit status is 1 unless all are.
"""

import argparse
import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


def fail(message):
    sys.exit(f"compare_tokens: {message}")


def read_ids(path, names):
    """Rows of token ids from a safetensors file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        result = []
        for name in names:
            if name not in header:
                fail(f"{path}: there is no tensor '{name}'")
            begin, end = header[name]["data_offsets"]
            file.seek(8 + size + begin)
            values = struct.unpack(f"<{(end - begin) // 8}q", file.read(end - begin))
            columns = header[name]["shape"][-1]
            result.append([list(values[i:i + columns]) for i in range(0, len(values), columns)])
    return result


def make_words(fixture, folder):
    """Links the fixture's files, and writes a tokenizer of bytes and, for the other ids, pairs of them."""
    os.makedirs(folder)
    for name in os.listdir(fixture):
        os.symlink(os.path.abspath(os.path.join(fixture, name)), os.path.join(folder, name))
    with open(os.path.join(fixture, "config.json")) as file:
        config = json.load(file)
    size = config.get("text_config", config)["vocab_size"]
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]  # as GPT-2 spells bytes
    letters = [chr(byte) for byte in printed] + [chr(256 + i) for i in range(256 - len(printed))]
    pairs = [(a, b) for a in letters[:64] for b in letters[:64]][: max(size - len(letters), 0)]
    tokens = [*letters, *(a + b for a, b in pairs)][:size]
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                           "merges": [f"{a} {b}" for a, b in pairs]}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file)


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def request(port, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    address = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(address, timeout=300) as answer:
        return json.load(answer)


class Server:
    def __init__(self, command, model):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([*command, "-m", model, "--port", str(self.port), "--host", "127.0.0.1", "-c", "256",
                                         "-np", "1", "-ngl", "0", "-fa", "off", "--no-warmup", "-t", "1"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def error(self):
        self.log.seek(0)
        lines = [line.strip() for line in self.log if any(each in line for each in ("rror", "unknown", "missing", "ASSERT"))]
        return lines[0] if lines else f"llama-server ended with status {self.process.poll()}"

    def wait(self, seconds=120):
        """None once it answers; otherwise what is wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return self.error()
            try:
                request(self.port, "/health")
                return None
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        return f"llama-server was not ready after {seconds} seconds"


def compare(command, folder, model):
    """Whether all tokens are equal, and what to say."""
    prompts, expected = read_ids(os.path.join(folder, "expected.safetensors"), ["prompt_ids", "generated_ids"])
    equal = count = 0
    first = ""
    with Server(command, model) as server:
        wrong = server.wait()
        if wrong:
            return False, wrong
        for prompt, wanted in zip(prompts, expected):
            try:
                answer = request(server.port, "/completion",
                                 {"prompt": prompt, "n_predict": len(wanted), "temperature": 0, "top_k": 1,
                                  "ignore_eos": True, "return_tokens": True, "cache_prompt": False})
            except (urllib.error.URLError, OSError) as error:
                return False, f"{error}: {server.error()}"
            given = answer.get("tokens", [])
            count += len(wanted)
            same = next((i for i, (a, b) in enumerate(zip(given, wanted)) if a != b), min(len(given), len(wanted)))
            equal += same
            if same < len(wanted) and not first:
                first = f"; expected {wanted[same:same + 3]}, found {given[same:same + 3]}"
    return equal == count, f"{equal} of {count} tokens{first}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", default="llama-server", metavar="COMMAND")
    parser.add_argument("--words", nargs=2, metavar=("FIXTURE", "FOLDER"))
    parser.add_argument("pairs", nargs="*", metavar="FIXTURE=MODEL.gguf")
    options = parser.parse_args()
    if options.words:
        make_words(*options.words)
        return
    if not options.pairs:
        fail("expected FIXTURE=MODEL.gguf")
    command = shlex.split(options.llama_server)
    all_equal = True
    for pair in options.pairs:
        folder, found, model = pair.partition("=")
        if not found:
            fail(f"expected FIXTURE=MODEL.gguf, found '{pair}'")
        equal, text = compare(command, folder, model)
        all_equal = all_equal and equal
        print(f"{os.path.basename(os.path.normpath(folder)):18} {text}", flush=True)
    sys.exit(0 if all_equal else 1)


if __name__ == "__main__":
    main()
