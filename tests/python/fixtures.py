"""The repository's fixtures as folders with weights, which are made from a seed: tests/support/files/made_fixtures.cpp does the same.
They have tokenizers in which each token is a word of its own, "w5"."""
import array
import json
import math
import shutil
import sys
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "fixtures" / "models"
ALL = (1 << 64) - 1


def numbers(seed, name, count, mean, spread):
    """tools/fixtures.py: uniform()."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & ALL
    state ^= seed
    factor = spread / (1 << 23)
    values = array.array("f", bytes(4 * count))
    for index in range(count):
        state = state + 0x9E3779B97F4A7C15 & ALL
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & ALL
        z = (z ^ z >> 27) * 0x94D049BB133111EB & ALL
        values[index] = mean + ((z ^ z >> 31) >> 40) * factor - spread
    return values


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, values in tensors.values():
            if sys.byteorder == "big":
                values.byteswap()
            file.write(values.tobytes())


def write_model(folder, name, **changed):
    """The fixture `name` in a folder, with these members of its config.json changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in MODELS.joinpath(name).glob("*config.json"):
        shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changed}))
    description = json.loads((MODELS / name / "weights.json").read_text())
    write_safetensors(folder / "model.safetensors", {
        tensor["name"]: (tensor["shape"], numbers(description["seed"], tensor["name"], math.prod(tensor["shape"]), tensor["mean"],
                                                  tensor["spread"]))
        for tensor in description["tensors"]})
    return folder


def write_words(folder, words=320, special=("<unk>", "<s>", "</s>"), changed=None):
    """A tokenizer that gives each token a word: 0 to 2 are special."""
    names = list(special) + [f"w{token}" for token in range(len(special), words)]
    for token, name in (changed or {}).items():
        names[token] = name
    marked = set(range(len(special))) | {token for token, name in (changed or {}).items() if name[0] in "<["}
    tokenizer = {
        "version": "1.0", "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "added_tokens": [{"id": token, "content": names[token], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for token in sorted(marked)],
        "model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {name: token for token, name in enumerate(names)}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def write_letters(folder):
    """wav2vec 2.0's tokens: each is a letter."""
    letters = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "'": 31}
    letters.update({chr(ord("A") + index): 5 + index for index in range(26)})
    (folder / "vocab.json").write_text(json.dumps(letters))
    (folder / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": 16000, "do_normalize": True}))
    return folder


def tone(samples):
    """A tone that rises and falls, at 16 kHz."""
    turns, values = 0.0, []
    for index in range(samples):
        turns += 0.03 + 0.02 * math.sin(index * 3e-4)
        values.append(0.4 * math.sin(2 * math.pi * turns))
    return values
