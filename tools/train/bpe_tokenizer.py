"""Byte-pair encoding in the tokenizer.json format of Hugging Face, and its encoder.

Text is put into compatibility form and lower case, every run of white space becomes one U+2581, and
letters are merged in the order in which the merges were learned.  Digits, punctuation and ideographs
are never merged, so each is a token of its own; characters outside the vocabulary fall to their bytes.
"""
import collections
import json
import re
import unicodedata

SPACE = "\u2581"
PAD, BOS, EOS, UNK = range(4)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
FIRST_BYTE = len(SPECIAL)
# What merges happen in: letters, but not those of East Asia.
UNITS = re.compile(r"[^\W\d_\u2e80-\uffff]+")


def normalise(text):
    # Letter by letter: a Greek sigma is the same within a word and at its end.
    lower = "".join(c.lower() for c in unicodedata.normalize("NFKC", text))
    return re.sub(r"\s+", SPACE, lower.strip())


class Tokenizer:
    def __init__(self, vocab, merges):
        self.vocab = vocab  # token to id
        self.merges = merges  # pairs of tokens, first learned first
        self.tokens = sorted(vocab, key=vocab.get)
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.cache = {}

    def encode_unit(self, unit):
        symbols = list(unit)
        while True:
            best = min(((self.ranks[pair], i) for i, pair in enumerate(zip(symbols, symbols[1:]))
                        if pair in self.ranks), default=None)
            if best is None:
                break
            i = best[1]
            symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
        ids = []
        for symbol in symbols:
            ids += [self.vocab[symbol]] if symbol in self.vocab else [FIRST_BYTE + b for b in symbol.encode()]
        return ids

    def encode(self, text):
        """Token ids of `text`, with the closing </s>."""
        ids = []
        # Alternatively a run of letters and what is between two of them.
        for part in re.split(f"({UNITS.pattern})", normalise(text)):
            if part not in self.cache:
                self.cache[part] = self.encode_unit(part)
            ids += self.cache[part]
        return ids + [EOS]

    def decode(self, ids):
        data = b"".join(bytes([i - FIRST_BYTE]) if i < FIRST_BYTE + 256 else self.tokens[i].encode()
                        for i in ids if i >= FIRST_BYTE)
        return data.decode(errors="replace").replace(SPACE, " ")

    def save(self, path):
        special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": True} for i, token in enumerate(SPECIAL)]
        tree = {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": SPACE}]},
            "pre_tokenizer": None,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                         {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "special_tokens": {"</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": self.vocab, "merges": [f"{a} {b}" for a, b in self.merges]},
        }
        with open(path, "w", encoding="utf-8") as f:
            json.dump(tree, f, ensure_ascii=False, indent=1)
            f.write("\n")


def load(path):
    with open(path, encoding="utf-8") as f:
        model = json.load(f)["model"]
    return Tokenizer(model["vocab"], [tuple(merge.split(" ")) for merge in model["merges"]])


def train(texts, vocab_size, rare):
    """Learns pieces by merging, again and again, the most frequent adjacent pair.

    Symbols, and characters that occur fewer than `rare` times, are left to their bytes.
    """
    units, characters = collections.Counter(), collections.Counter()
    for text in texts:
        text = normalise(text)
        units.update(UNITS.findall(text))
        characters.update(text)
    # All of ASCII, whether it occurs or not.
    ascii_characters = [chr(c) for c in range(0x21, 0x7F) if not chr(c).isupper()]
    learned = sorted(c for c, count in characters.items()
                     if count >= rare and not c.isascii() and unicodedata.category(c)[0] != "S")
    tokens = SPECIAL + [f"<0x{b:02X}>" for b in range(256)] + [SPACE] + ascii_characters + learned
    known, merges = set(tokens), []
    words = {unit: list(unit) for unit in units if known.issuperset(unit)}
    while len(tokens) < vocab_size:
        pairs = collections.Counter()
        for word, symbols in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += units[word]
        if not pairs:
            raise ValueError("the text has too few different words for this vocabulary size")
        a, b = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append((a, b))
        if a + b not in known:  # two different pairs can spell the same piece
            known.add(a + b)
            tokens.append(a + b)
        for symbols in words.values():
            i = 0
            while i + 1 < len(symbols):
                if symbols[i] == a and symbols[i + 1] == b:
                    symbols[i:i + 2] = [a + b]
                i += 1
    return Tokenizer({token: i for i, token in enumerate(tokens)}, merges)
