"""A SentencePiece-style BPE vocabulary with byte fallback, and its encoder.

The encoder follows llama.cpp's "llama" tokenizer, because that is how the runtime will cut prompts:
the text gets a leading space, spaces become U+2581, and the adjacent pair whose merged piece has the
highest score is merged (the leftmost on ties) until no pair is left; what is not a piece then falls
to its bytes.
"""
import collections
import re

SPACE = "\u2581"
UNK, BOS, EOS = 0, 1, 2
FIRST_BYTE = 3
TYPE_NORMAL, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_BYTE = 1, 2, 3, 6
# Pieces are learned inside these, so none spans two words or joins letters to punctuation.
UNITS = re.compile(rf"'[a-z]+|{SPACE}?[A-Za-z]+|{SPACE}?[^A-Za-z{SPACE}\n]+")
# No piece holds a newline, or a space other than at its start: these parts can be encoded on their own.
PARTS = re.compile(rf"\n|{SPACE}[^{SPACE}\n]*|[^{SPACE}\n]+")


def normalise(text):
    return (" " + text).replace(" ", SPACE)


class Tokenizer:
    def __init__(self, pieces):
        """`pieces`: the normal pieces, earliest merge first."""
        self.tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + list(pieces)
        self.types = [TYPE_UNKNOWN, TYPE_CONTROL, TYPE_CONTROL] + [TYPE_BYTE] * 256 + [TYPE_NORMAL] * len(pieces)
        self.scores = [0.0] * (FIRST_BYTE + 256) + [-float(rank) for rank in range(len(pieces))]
        self.ids = {piece: FIRST_BYTE + 256 + rank for rank, piece in enumerate(pieces)}
        self.cache = {}

    def encode_part(self, part):
        symbols = list(part)
        while True:
            # A lower id is an earlier merge, hence the higher score; min() keeps the leftmost on ties.
            best = min(((self.ids[a + b], i) for i, (a, b) in enumerate(zip(symbols, symbols[1:]))
                        if a + b in self.ids), default=None)
            if best is None:
                break
            i = best[1]
            symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
        out = []
        for symbol in symbols:
            known = self.ids.get(symbol)
            out.extend([FIRST_BYTE + b for b in symbol.encode()] if known is None else [known])
        return out

    def encode(self, text):
        """Token ids of `text`, without <s> and </s>."""
        out = []
        for part in PARTS.findall(normalise(text)):
            if part not in self.cache:
                self.cache[part] = self.encode_part(part)
            out.extend(self.cache[part])
        return out

    def decode(self, ids):
        data = b"".join(bytes([i - FIRST_BYTE]) if self.types[i] == TYPE_BYTE else
                        self.tokens[i].replace(SPACE, " ").encode() for i in ids
                        if self.types[i] in (TYPE_BYTE, TYPE_NORMAL))
        return data.decode(errors="replace").removeprefix(" ")


def train(texts, vocab_size):
    """Learns pieces by merging, again and again, the most frequent adjacent pair."""
    counts = collections.Counter()
    for text in texts:
        counts.update(UNITS.findall(normalise(text)))
    # All of ASCII, so that English prompts never need byte fallback.
    characters = [SPACE] + [chr(c) for c in range(0x21, 0x7F)]
    words = {word: list(word) for word in counts}
    merges = []
    while FIRST_BYTE + 256 + len(characters) + len(merges) < vocab_size:
        pairs = collections.Counter()
        for word, symbols in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += counts[word]
        if not pairs:
            raise ValueError("the text has too few different words for this vocabulary size")
        a, b = max(pairs, key=lambda pair: (pairs[pair], pair))
        if a + b not in merges:  # two different pairs can spell the same piece
            merges.append(a + b)
        for symbols in words.values():
            i = 0
            while i + 1 < len(symbols):
                if symbols[i] == a and symbols[i + 1] == b:
                    symbols[i:i + 2] = [a + b]
                i += 1
    return Tokenizer(merges + characters)
