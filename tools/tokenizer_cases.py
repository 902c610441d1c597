#!/usr/bin/env python3
"""Compares the token ids of pumice tokenize with a reference, for vocabularies of your own.

    tools/tokenizer_cases.py ~/llama.cpp/models/ggml-vocab-*.gguf
    tools/tokenizer_cases.py --texts ~/llama.cpp/models/ggml-vocab-gpt-2.gguf.inp model/tokenizer.json

For a GGUF file the reference is llama.cpp's: FILE.inp has the texts and FILE.out their ids, one line each. For a tokenizer.json
it is Hugging Face's tokenizers, which must be installed (pip install tokenizers); the texts are those of
tests/fixtures/gguf_splits.json, and of the .inp files that --texts names. Ends with status 1 if any ids differ.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEPARATOR = "\n__ggml_vocab_test__\n"


def read_texts(path):
    return path.read_bytes().decode().split(SEPARATOR)


def llama_cases(path):
    texts = read_texts(Path(f"{path}.inp"))
    lines = Path(f"{path}.out").read_text().split("\n")[: len(texts)]
    return [(text, [int(word) for word in line.split()]) for text, line in zip(texts, lines, strict=True)]


def hugging_face_cases(path, texts):
    from tokenizers import Tokenizer  # only where it is needed

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [(text, tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]


def pumice_ids(pumice, path, text):
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        command = [pumice, "tokenize", "--no-special", "-f", file.name, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    return [int(word) for word in done.stdout.strip().split(",") if word]


def compare(args, path, texts):
    cases = llama_cases(path) if path.suffix == ".gguf" else hugging_face_cases(path, texts)
    equal = 0
    for text, expected in cases:
        found = pumice_ids(args.pumice, path, text)
        equal += found == expected
        if found != expected and args.verbose:
            print(f"  {text!r}\n    expected {expected}\n    found    {found}")
    print(f"{equal:5} of {len(cases):4} equal  {path}", flush=True)
    return equal == len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a GGUF file, or a tokenizer.json")
    parser.add_argument("--pumice", default=str(ROOT / "build/pumice"), help="the command (build/pumice)")
    parser.add_argument("--texts", metavar="FILE", type=Path, action="append", default=[],
                        help="more texts for a tokenizer.json, in the form of llama.cpp's .inp files")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the ids that differ")
    args = parser.parse_args()
    texts = json.loads((ROOT / "tests/fixtures/gguf_splits.json").read_text())["texts"]
    for path in args.texts:
        texts += read_texts(path)
    results = []
    for path in args.files:
        if path.suffix == ".gguf" and not Path(f"{path}.inp").exists():
            print(f"    no cases        {path}")
            continue
        results.append(compare(args, path, texts))
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
