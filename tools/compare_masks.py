#!/usr/bin/env python3
"""Holds the masks of forms against llguidance's, and their speed: which tokens may follow in JSON of a schema.

    python3 -m venv venv && venv/bin/pip install llguidance && venv/bin/pip install --no-deps mistral-common
    ninja -C build mask_lines && venv/bin/python tools/compare_masks.py

Schemas are made by chance, each with a document that is valid for it. Both programs follow the document, token by token, in
turn. White space is what README.md of runtime/form says: none, or one space after a colon or a comma. The vocabulary is
Mistral's Tekken, of 131,072 tokens, from the package mistral-common; --vocabulary takes another one, a JSON list of the tokens'
bytes in base64.

With --walks N, texts of tokens drawn from Pumice's masks are checked instead, N of each schema: python3-jsonschema has to find them
valid, and they have to be UTF-8.
"""

import argparse
import base64
import collections
import ctypes
import glob
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["id", "name", "title", "tags", "count", "state", "owner", "created_at", "x-y", "größe", "items", "price", "url", "a", "b"]
FORMATS = {"date": "2024-02-29", "time": "23:59:01Z", "date-time": "2024-02-29T23:59:01+01:00", "ipv4": "10.0.255.1",
           "uuid": "123e4567-e89b-12d3-a456-426614174000", "email": "jo.doe@example.org"}
PATTERNS = {"^[A-Z]{2,4}-[0-9]+$": "AB-2041", "^(red|green|blue)$": "green", "^#[0-9a-f]{6}$": "#00ff7f",
            "^[a-z]+(_[a-z]+)*$": "snake_case", "^\\d{3}-\\d{4}$": "555-0199"}
TEXTS = ["", "a", "Hello, world", "it's \"quoted\"", "back\\slash", "naïve 漢字 😀", "two\nlines\ttab", "The quick brown fox", "x" * 40]


class Schemas:
    """Schemas with documents that are valid for them. `used`: the keywords of the last one."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def make(self):
        self.used, self.definitions = set(), {}
        schema, value = self.any(0) if self.random.random() < 0.2 else self.object(0)
        if self.definitions:
            schema = {**schema, "$defs": self.definitions}
        return schema, value

    def any(self, depth):
        leaves = [self.string, self.string, self.integer, self.number, self.enum, self.boolean, self.format, self.pattern, self.const]
        nodes = [self.object, self.object, self.array, self.array, self.any_of, self.one_of, self.recursive, self.tuple]
        return self.random.choice(leaves + (nodes if depth < 4 else []))(depth)

    def text(self):
        return self.random.choice(TEXTS + ["".join(self.random.choices(string.printable[:95], k=self.random.randrange(20)))])

    def string(self, depth):
        value, schema = self.text(), {"type": "string"}
        if self.random.random() < 0.3:
            self.used.add("maxLength")
            schema["maxLength"] = len(value) + self.random.randrange(20)
        if self.random.random() < 0.2:
            self.used.add("minLength")
            schema["minLength"] = self.random.randrange(len(value) + 1)
        return schema, value

    def integer(self, depth):
        value, schema = self.random.choice([0, 1, -7, 42, 1000, 123456]), {"type": "integer"}
        if self.random.random() < 0.5:
            self.used.add("minimum of integers")
            schema["minimum"] = value - self.random.randrange(100)
        if self.random.random() < 0.5:
            self.used.add("maximum of integers")
            schema["maximum"] = value + self.random.randrange(1000)
        return schema, value

    def number(self, depth):
        self.used.add("number")
        return {"type": "number"}, self.random.choice([0, 1.5, -2.25, 3e-05, 100, 0.125])

    def boolean(self, depth):
        return self.random.choice([({"type": "boolean"}, True), ({"type": "null"}, None), ({"type": ["boolean", "null"]}, False)])

    def enum(self, depth):
        self.used.add("enum")
        values = self.random.sample(["north", "south", "up", 1, 2.5, True, None, "größer", "north-east"], self.random.randrange(1, 6))
        return {"enum": values}, self.random.choice(values)

    def const(self, depth):
        self.used.add("const")
        value = self.text()
        return {"const": value}, value

    def format(self, depth):
        name = self.random.choice(list(FORMATS))
        self.used.add("format " + name)
        return {"type": "string", "format": name}, FORMATS[name]

    def pattern(self, depth):
        self.used.add("pattern")
        pattern = self.random.choice(list(PATTERNS))
        return {"type": "string", "pattern": pattern}, PATTERNS[pattern]

    def object(self, depth):
        properties, value, required = {}, {}, []
        for name in self.random.sample(NAMES, self.random.randrange(0, 6)):
            properties[name], inside = self.any(depth + 1)
            if self.random.random() < 0.7:
                required.append(name)
            if name in required or self.random.random() < 0.5:
                value[name] = inside
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        more = self.random.random()
        if more < 0.15:
            self.used.add("additionalProperties")
            schema["additionalProperties"], inside = self.any(depth + 1)
            value["extra"] = inside
        elif more < 0.25 and not properties:
            self.used.add("patternProperties")
            schema["patternProperties"] = {"^s_[a-z]+$": {"type": "integer"}}
            value["s_one"] = 1
        return schema, value

    def array(self, depth):
        items, value = self.any(depth + 1)
        values = [value] * self.random.randrange(0, 4)
        schema = {"type": "array", "items": items}
        if self.random.random() < 0.4:
            self.used.add("minItems and maxItems")
            schema["minItems"] = self.random.randrange(len(values) + 1)
            schema["maxItems"] = len(values) + self.random.randrange(4)
        return schema, values

    def tuple(self, depth):
        self.used.add("prefixItems")
        pairs = [self.any(depth + 1) for _ in range(self.random.randrange(1, 4))]
        return ({"type": "array", "prefixItems": [each[0] for each in pairs], "items": False, "minItems": len(pairs)},
                [each[1] for each in pairs])

    def any_of(self, depth):
        self.used.add("anyOf")
        pairs = [self.any(depth + 1) for _ in range(self.random.randrange(2, 4))]
        return {"anyOf": [each[0] for each in pairs]}, self.random.choice(pairs)[1]

    def one_of(self, depth):
        self.used.add("oneOf")
        kinds = [({"type": "string", "maxLength": 9}, "abc"), ({"type": "integer"}, 12), ({"type": "null"}, None),
                 ({"type": "array", "items": {"type": "boolean"}}, [True, False])]
        chosen = self.random.sample(kinds, self.random.randrange(2, 4))
        return {"oneOf": [each[0] for each in chosen]}, self.random.choice(chosen)[1]

    def recursive(self, depth):
        self.used.add("$ref")
        name = "node%d" % len(self.definitions)
        self.definitions[name] = {}
        inside, value = self.any(max(depth + 1, 3))
        self.definitions[name] = {"type": "object", "properties": {"value": inside, "next": {"anyOf": [
            {"$ref": "#/$defs/" + name}, {"type": "null"}]}}, "required": ["value", "next"], "additionalProperties": False}
        document = None
        for _ in range(self.random.randrange(1, 4)):
            document = {"value": value, "next": document}
        return {"$ref": "#/$defs/" + name}, document


def tekken():
    """Mistral's vocabulary: the tokens' bytes, which come after the special ones there."""
    import importlib.util
    root = importlib.util.find_spec("mistral_common").submodule_search_locations[0]
    with open(sorted(glob.glob(os.path.join(root, "data", "tekken_*.json")))[-1]) as file:
        vocabulary = json.load(file)
    settings = vocabulary["config"]
    size = settings["default_vocab_size"] - settings["default_num_special_tokens"]
    return [base64.b64decode(each["token_bytes"]) for each in vocabulary["vocab"][:size]]


class Greedy:
    """Cuts texts into the longest tokens."""

    def __init__(self, tokens):
        self.ids = {}
        for token, bytes_of in enumerate(tokens):
            self.ids.setdefault(bytes_of, token)
        self.longest = max(map(len, tokens))

    def __call__(self, text):
        text, at, ids = text.encode() if isinstance(text, str) else text, 0, []
        while at < len(text):
            for end in range(min(at + self.longest, len(text)), at, -1):
                if text[at:end] in self.ids:
                    break
            ids.append(self.ids[text[at:end]])
            at = end
        return ids


class Theirs:
    """llguidance with its settings for JSON."""

    def __init__(self, tokens, greedy):
        import llguidance
        self.library = llguidance

        class Vocabulary:
            eos_token_id, bos_token_id = len(tokens), None
            special_token_ids = [len(tokens)]

            def __call__(self, text):
                return greedy(text)
        Vocabulary.tokens = tokens + [b"<|end|>"]
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Vocabulary()), n_vocab=len(tokens) + 1,
                                                slices=llguidance.LLTokenizer.json_slices())
        self.words = len(tokens) // 32 + 1

    def follow(self, schema, ids):
        options = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
        start = time.perf_counter()
        grammar = self.library.LLMatcher.grammar_from_json_schema(schema, overrides=options)
        matcher = self.library.LLMatcher(self.tokenizer, grammar, log_level=0)
        made = time.perf_counter() - start
        if matcher.is_error():
            return {"error": matcher.get_error()}, []
        masks, times = [], []
        for n in range(len(ids) + 1):
            buffer = ctypes.create_string_buffer(4 * self.words)
            start = time.perf_counter()
            if n and not matcher.consume_token(ids[n - 1]):
                break
            matcher.unsafe_compute_mask_ptr(ctypes.addressof(buffer), 4 * self.words)
            times.append(time.perf_counter() - start)
            if matcher.is_error():
                return {"error": matcher.get_error()}, []
            masks.append(buffer.raw)
        return {"make": made, "times": times}, masks


class Ours:
    """build/mask_lines."""

    def __init__(self, program, tokens):
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.writelines(each.hex() + "\n" for each in tokens)
        self.words = len(tokens) // 32 + 1
        self.process = subprocess.Popen([program, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.follow({"type": "null"}, [])
        os.unlink(file.name)

    def walk(self, schema, number):
        self.process.stdin.write(json.dumps({"schema": schema, "walk": number}).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def follow(self, schema, ids):
        self.process.stdin.write(json.dumps({"schema": schema, "tokens": ids}).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        masks = [self.process.stdout.read(4 * self.words) for _ in range(answer.get("masks", 0))]
        return answer, masks


def open_string(text):
    """What a JSON text has of the string that it ends in; None: it ends in no string."""
    begin, at = None, 0
    while at < len(text):
        if begin is not None and text[at] == 0x5C:
            at += 1
        elif text[at] == 0x22:
            begin = None if begin is not None else at + 1
        at += 1
    return None if begin is None else text[begin:]


# What explains that a token may follow in one program alone: of the string or the number that the text ends in, with the token.
IN_STRINGS = {  # only in llguidance
    "seconds of 60": rb"\d\d:\d\d:6",
    "a small t between date and time": rb"^\d{4}-\d\d-\d\dt",
    "a small z after a time": rb"\d\d:\d\d:\d\d(\.\d+)?z",
    "labels of more than 63 characters in addresses": rb"@([^.]*\.)*[^.]{64}",
    "\\u for characters that are written otherwise": rb"\\(u[0-9a-fA-F]{0,4})?$",
}
IN_STRINGS_OF_PUMICE = {"an escaped slash, and \\u for all characters": rb"\\(/|u)"}
IN_NUMBERS = {"exponents of more than two digits": rb"[eE][-+]?\d{3}"}
IN_NUMBERS_OF_PUMICE = {"-0 of an integer with bounds": rb"-0$"}


def reason_of(before, token, only_pumice):
    inside = open_string(before)
    if inside is not None:
        # A token may go on behind the end of the string.
        end = open_string(before + token)
        after = inside + token if end is not None else (inside + token)[:(inside + token).rfind(b'"')]
        known = IN_STRINGS_OF_PUMICE if only_pumice else IN_STRINGS
    else:
        number = re.search(rb"[-+0-9.eE]*$", before).group()
        after = re.match(rb"[-+0-9.eE]*", number + token).group()
        known = IN_NUMBERS_OF_PUMICE if only_pumice else IN_NUMBERS
    return next((name for name, pattern in known.items() if re.search(pattern, after)), None)


def walk(ours, options):
    """Texts of each schema that the masks allow; 0 if all are valid."""
    import jsonschema
    schemas, counts, wrong = Schemas(options.seed), collections.Counter(), 0
    for number in range(options.schemas):
        schema, _ = schemas.make()
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for round_number in range(options.walks):
            answer = ours.walk(schema, number * options.walks + round_number)
            if "error" in answer or answer["text"] is None:
                counts["refused: " + answer["error"] if "error" in answer else "without an end"] += 1
                continue
            counts["texts"] += 1
            counts["tokens"] += answer["tokens"]
            text = bytes.fromhex(answer["text"])
            try:
                problem = next(validator.iter_errors(json.loads(text.decode())), None)
            except ValueError as error:
                problem = error
            if problem is not None:
                wrong += 1
                print(f"not valid: {text[:300]!r}\n    {str(problem)[:200]}\n    {json.dumps(schema)[:500]}", file=sys.stderr)
    for name, count in counts.items():
        print(f"  {name}: {count:,}")
    print(f"  not valid: {wrong:,}")
    return 1 if wrong else 0


def percentile(values, part):
    values = sorted(values)
    return values[min(int(part * len(values)), len(values) - 1)] if values else float("nan")


def tokens_of(number, words):
    """The numbers of the bits."""
    return [8 * at + bit for at, byte in enumerate(number.to_bytes(4 * words, "little")) if byte for bit in range(8)
            if byte >> bit & 1]


def row(name, ours, theirs, scale, digits=1):
    cells = []
    for values in (ours, theirs):
        mean = sum(values) / max(len(values), 1)
        for value in (mean, percentile(values, 0.5), percentile(values, 0.99), max(values, default=0)):
            cells.append(f"{value * scale:,.{digits}f}")
    print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(HERE, "..", "build", "mask_lines"))
    parser.add_argument("--schemas", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocabulary", help="a JSON list of the tokens' bytes in base64")
    parser.add_argument("--show", type=int, default=10, help="differences to show (10)")
    parser.add_argument("--walks", type=int, default=0, help="check so many texts of each schema instead")
    options = parser.parse_args()
    try:
        import llguidance
    except ImportError:
        if not options.walks:
            print("skipped: llguidance is not installed")
            return 77
    if options.vocabulary:
        with open(options.vocabulary) as file:
            tokens = [base64.b64decode(each) for each in json.load(file)]
    else:
        tokens = tekken()
    if options.walks:
        return walk(Ours(options.program, tokens), options)
    greedy = Greedy(tokens)
    ours, theirs = Ours(options.program, tokens), Theirs(tokens, greedy)

    counts, refused = collections.Counter(), collections.Counter()
    times, makes, tables = ([], []), ([], []), []
    reasons, shown = collections.Counter(), 0
    schemas = Schemas(options.seed)
    for number in range(options.schemas):
        schema, value = schemas.make()
        spaced = number % 2 == 0
        text = json.dumps(value, ensure_ascii=False, separators=(", ", ": ") if spaced else (",", ":"))
        ids = greedy(text)
        pair = [None, None]
        for who in (0, 1) if number % 2 else (1, 0):
            pair[who] = (ours, theirs)[who].follow(schema, ids)
        for who in (0, 1):
            if "error" in pair[who][0]:
                refused[(("pumice", "llguidance")[who], pair[who][0]["error"].split("\n")[0][:90])] += 1
        if "error" in pair[0][0] or "error" in pair[1][0]:
            counts["refused by one"] += 1
            continue
        counts["schemas"] += 1
        counts["with a table"] += pair[0][0]["places"] is not None
        tables.append(pair[0][0]["table"])
        for who in (0, 1):
            times[who].extend(pair[who][0]["times"])
            makes[who].append(pair[who][0]["make"])
            counts[("pumice", "llguidance")[who] + " did not accept a document"] += len(pair[who][1]) <= len(ids)
        alike = True
        for n, (mine, other) in enumerate(zip(pair[0][1], pair[1][1])):
            counts["masks"] += 1
            if mine == other:
                continue
            mine, other = int.from_bytes(mine, "little"), int.from_bytes(other, "little")
            if other & other - 1 == 0 and other & mine == other:
                counts["masks that differ: llguidance has the one token that it would cut the forced text into"] += 1
                continue
            more, fewer = tokens_of(mine & ~other, ours.words), tokens_of(other & ~mine, ours.words)
            # Characters in strings that JSON has and llguidance does not write: DEL, and an escaped slash.
            if not fewer and all(b"\x7f" in tokens[each] or b"\\/" in tokens[each] for each in more if each < len(tokens)):
                counts["masks that differ: in DEL and \\/ alone, which only pumice has"] += 1
                continue
            alike = False
            before = b"".join(tokens[each] for each in ids[:n])
            known = {reason_of(before, tokens[each] if each < len(tokens) else b"", only_pumice)
                     for only_pumice, which in ((True, more), (False, fewer)) for each in which
                     if not only_pumice or each >= len(tokens) or not (b"\x7f" in tokens[each] or b"\\/" in tokens[each])}
            if None not in known:
                for each in known:
                    counts["masks that differ: " + each] += 1
                continue
            counts["masks that differ in other tokens"] += 1
            if shown < options.show:
                shown += 1
                def some(which):
                    return [(tokens[each] if each < len(tokens) else b"<end>") for each in which[:6]]
                print(f"after {before[-60:]!r}: only pumice {len(more)} {some(more)}, only llguidance {len(fewer)} {some(fewer)}\n"
                      f"    {json.dumps(schema)[:300]}", file=sys.stderr)
            for keyword in schemas.used or {"none of these"}:
                reasons[keyword] += 1
        counts["schemas whose masks are the same but for that"] += alike

    print(f"{len(tokens):,} tokens; llguidance {getattr(llguidance, '__version__', '')}")
    for name, count in counts.items():
        print(f"  {name}: {count:,}")
    for (who, error), count in refused.most_common(10):
        print(f"  {who} refuses {count}: {error}")
    print("  keywords of schemas with differences:", dict(reasons.most_common(12)))
    print("\n| | Pumice: mean | median | 99 % | most | llguidance: mean | median | 99 % | most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    row("a mask, with its step, us", *times, 1e6)
    row("making a form, ms", *makes, 1e3, 2)
    row("its table, ms", tables, [], 1e3, 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
