#!/usr/bin/env python3
"""Sends random requests to a server that it starts, and checks what comes back.

    tools/serve_load.py build/pumice MODEL... [--requests 10000] [--clients 16] [--seed 1] [--seconds S]

A request is valid, or has wrong fields, broken JSON, a broken form or broken HTTP; it comes at once, slowly, in chunks, by half,
or its client goes in the middle of the answer. The first MODEL answers chats; what the others can do is asked too. Checked:
the server lives; a valid greedy request has the answer that it had alone; a refusal is JSON with a sentence; nothing fails with
500 or hangs; memory does not grow; at the end nothing runs, /health is well and SIGTERM ends the server with 0.

With --seconds, clients ask for streams for so long instead, and half of them leave in the middle: the times to the first token and
between tokens, and the memory, are printed. With --ladder, 1, 2, 4 ... 64 clients ask for 64 tokens each, again and again for so many
seconds: the tokens of all in a second are printed, of every pass.
"""
import argparse
import asyncio
import base64
import collections
import copy
import json
import random
import re
import signal
import socket
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 180  # seconds for an answer
# What differs between two answers to the same request.
VOLATILE = re.compile(r"^(id|call_id|item_id|created|created_at|.*duration|.*cache.*)$")
PICTURE = ("iVBORw0KGgoAAAANSUhEUgAAAAUAAAADCAIAAADUVFKvAAAAG0lEQVR4nGNkYGAwQkIsDAEMDAwicATna0AQADccAk6FyYYHAAAAAElFTkSuQmCC")
HOSTILE = [None, True, -1, 0, 1, -2**63, 2**63, 2**64, 2**200, 1e308, -1e-320, 0.5, "", "a", "\0", "\U0001F600" * 50, "../../etc/passwd",
           "http://127.0.0.1/", "data:image/png;base64,!!!", "data:image/png;base64," + PICTURE[:40], [], {}, [[]], [None], [{}],
           {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, {"": None}, "x" * 20000, list(range(3000)),
           {"type": "object", "properties": {"a": {"$ref": "#"}}}, "(" * 500, "(a|b)*" * 50, {"role": "user"}]


class Answer:
    def __init__(self, status, kind, body, whole):
        self.status, self.kind, self.body, self.whole = status, kind, body, whole

    def pieces(self):
        """The JSON values of a body, a stream of events or lines."""
        text = self.body.decode()
        if self.kind.startswith("text/event-stream"):
            return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
        if self.kind.startswith("application/x-ndjson"):
            return [json.loads(line) for line in text.splitlines() if line]
        return [json.loads(text)] if self.kind.startswith("application/json") else [text]

    def lasting(self):
        return json.dumps([without_volatile(piece) for piece in self.pieces()])


def without_volatile(value):
    if isinstance(value, dict):
        return {name: without_volatile(each) for name, each in value.items() if not VOLATILE.match(name)}
    return [without_volatile(each) for each in value] if isinstance(value, list) else value


def http(method, path, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def post(path, value, headers=()):
    return http("POST", path, json.dumps(value).encode(), headers)


def form(fields, boundary="----x"):
    body = b""
    for name, value in fields.items():
        file = '; filename="a.wav"' if isinstance(value, bytes) else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
        body += (value if isinstance(value, bytes) else value.encode()) + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


def post_form(path, body, boundary="----x"):
    return http("POST", path, body, [f"Content-Type: multipart/form-data; boundary={boundary}"])


class Server:
    def __init__(self, arguments):
        self.arguments = arguments

    async def __aenter__(self):
        self.errors = tempfile.TemporaryFile()
        self.process = await asyncio.create_subprocess_exec(*self.arguments, stdout=asyncio.subprocess.PIPE, stderr=self.errors)
        line = (await self.process.stdout.readline()).decode()
        if not line.startswith("listening on"):
            await self.process.wait()
            sys.stderr.write(self.said())
            sys.exit(77 if "this build has no server" in self.said() else 1)
        self.port = int(line.rsplit(":", 1)[1])
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def memory(self):
        """MiB that are resident."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    async def say(self, pieces, wait=0.0, leave_after=None, on_data=None):
        """Sends pieces, with waits between them, and reads the answer; None where the client left after so many bytes of it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        try:
            async with asyncio.timeout(PATIENCE):
                try:
                    for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                        if wait:
                            await asyncio.sleep(wait)
                except ConnectionError:
                    pass  # it was refused before its end: the answer is there
                data = b""
                while leave_after is None or len(data) < leave_after:
                    try:
                        more = await reader.read(1 << 16)
                    except ConnectionError:
                        break
                    if not more:
                        return read_answer(data)
                    data += more
                    if on_data:
                        on_data(data)
                if leave_after is not None and random.random() < 0.5:  # with a reset, not a farewell
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return None
        finally:
            writer.transport.abort() if leave_after is not None else writer.close()


def read_answer(data):
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return None
    text = head.decode("latin-1")
    headers = dict(line.lower().split(": ", 1) for line in text.split("\r\n")[1:] if ": " in line)
    whole = True
    if headers.get("transfer-encoding") == "chunked":
        rest, body, whole = body, b"", False
        while (at := rest.find(b"\r\n")) > 0:
            size = int(rest[:at], 16)
            body += rest[at + 2:at + 2 + size]
            rest = rest[at + 4 + size:]
            if size == 0:
                whole = True
                break
    return Answer(int(text.split()[1]), headers.get("content-type", ""), body, whole)


def valid_requests(models, sound):
    """Requests whose answers do not depend on chance: (path, value or form)."""
    greedy = {"temperature": 0, "max_tokens": 12}
    texts = ["What does a cow say?", "Tell me a story.", "Is a dog an animal?", "How many legs has a cat? " * 4, "\u00e9\U0001F600"]
    tool = {"name": "weather", "description": "of a place", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
    for model in models:
        name, kind = model["id"], model["kind"]
        both = {"model": name}
        if model.get("transcribes") or kind == "speech":
            for style in ("json", "verbose_json"):
                yield "/v1/audio/transcriptions", form({"file": sound, "model": name, "response_format": style})
        if model.get("audio"):
            heard = {"type": "input_audio", "input_audio": {"data": base64.b64encode(sound).decode(), "format": "wav"}}
            yield "/v1/chat/completions", {**both, **greedy, "messages": [{"role": "user", "content": [heard, {"type": "text", "text": "w20"}]}]}
        elif kind == "text":
            for text in texts:
                messages = [{"role": "user", "content": text}]
                if model.get("vision"):
                    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PICTURE}}
                    yield "/v1/chat/completions", {**both, **greedy, "messages": [{"role": "user", "content": [
                        shown, {"type": "text", "text": "w20"}]}]}
                    break
                for stream in (False, True):
                    yield "/v1/chat/completions", {**both, **greedy, "messages": messages, "stream": stream}
                    yield "/v1/completions", {**both, **greedy, "prompt": text, "stream": stream, "logprobs": 2}
                    yield "/v1/responses", {**both, "temperature": 0, "max_output_tokens": 12, "input": text, "stream": stream}
                    yield "/v1/messages", {**both, **greedy, "messages": messages, "stream": stream}
                    yield "/api/chat", {**both, "messages": messages, "stream": stream, "options": {"temperature": 0, "num_predict": 12}}
                    yield "/api/generate", {**both, "prompt": text, "stream": stream, "options": {"temperature": 0, "num_predict": 12}}
                yield "/v1/chat/completions", {**both, "seed": 7, "max_tokens": 12, "n": 3, "messages": messages}
                yield "/v1/chat/completions", {**both, **greedy, "messages": messages, "tools": [{"type": "function", "function": tool}]}
                yield "/v1/completions", {**both, **greedy, "max_tokens": 30, "prompt": text, "json_schema": schema}
                yield "/v1/messages/count_tokens", {**both, "messages": messages}
                yield "/tokenize", {**both, "content": text}
        elif kind == "vectors":
            yield "/v1/embeddings", {**both, "input": texts}
            yield "/api/embed", {**both, "input": texts[0]}
        elif kind == "ranks":
            yield "/v1/rerank", {**both, "query": texts[0], "documents": texts, "return_documents": True}
        elif kind in ("classes", "spans"):
            yield "/classify", {**both, "image": "data:image/png;base64," + PICTURE} if model["reads"] == "image" else {**both, "input": texts}
        elif kind == "translation":
            yield "/translate", {**both, "text": ["le 3 mars 2021", "May 4, 1999"], "alignment": True}
            yield "/translate", {**both, "text": "12 juin 1987", "beams": 3, "n_best": 2}
        elif kind == "captions":
            yield "/caption", {**both, "image": "data:image/png;base64," + PICTURE, "max_tokens": 8}


def hostile(dice):
    return copy.deepcopy(dice.choice(HOSTILE))


def places(value, path=()):
    """All places in a value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in entries:
        yield from places(each, (*path, name))


def mutated(value, dice):
    """The text of a value that is wrong in a place, most likely."""
    value = copy.deepcopy(value)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        path = dice.choice(list(places(value))[1:] or [()])
        if not path:
            return json.dumps(dice.choice(HOSTILE)).encode()
        inner = value
        for name in path[:-1]:
            inner = inner[name]
        kind = dice.random()
        if kind < 0.15:
            del inner[path[-1]]
        elif kind < 0.25 and isinstance(inner, dict):
            inner[dice.choice(["n", "stop", "stream", "logit_bias", "tools", "tool_choice", "response_format", "regex", "grammar", "seed",
                               "top_k", "options", "format", "system", "think", "keep_alive", "beams", "images", "top_p"])] = hostile(dice)
        else:
            inner[path[-1]] = hostile(dice)
    text = json.dumps(value).encode()
    kind = dice.random()
    if kind < 0.1:
        text = text[:dice.randrange(len(text))]
    elif kind < 0.2:
        at = dice.randrange(len(text))
        text = text[:at] + bytes([dice.randrange(256)]) + text[at + 1:]
    elif kind < 0.25:
        text = text[:-1] + b', "deep": ' + dice.choice((b"[", b'{"a":')) * dice.choice((100, 200, 60000))
    return text


def broken_http(dice):
    request = bytearray(post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}))
    kind = dice.randrange(6)
    if kind == 0:
        return bytes(dice.randrange(256) for _ in range(dice.randrange(1, 400))) + b"\r\n\r\n"
    if kind == 1:
        request[dice.randrange(80)] = dice.randrange(256)
    elif kind == 2:
        return bytes(request).replace(b"Content-Length: ", b"Content-Length: " + dice.choice((b"-", b"9999", b"0x", b"1\r\nContent-Length: ")))
    elif kind == 3:
        return bytes(request).replace(b"Host:", b"X-" + b"a" * dice.choice((10, 20000)) + b": b\r\n" + dice.choice((b"Host:", b"Most:")))
    elif kind == 4:
        return http("POST", "/v1/completions", b"", ["Transfer-Encoding: chunked"]) + dice.choice((b"zz\r\n", b"-1\r\n", b"ffffffffffffffff\r\n"))
    else:
        return http(dice.choice(("GET", "PUT", "DELETE", "OPTIONS", "HEAD")), dice.choice(("/v1/messages", "/../etc/passwd", "/%00", "/v1/models/" + "a" * 3000)))
    return bytes(request)


def broken_form(sound, dice):
    body = bytearray(form({"file": sound, "temperature": "0"}))
    kind = dice.randrange(4)
    boundary = "----x"
    if kind == 0:
        boundary = dice.choice(("", "y", "a" * 100, '"', '"x', "----"))
    elif kind == 1:
        body = body[:dice.randrange(len(body))]
    elif kind == 2:
        for _ in range(dice.randrange(1, 20)):
            body[dice.randrange(300)] = dice.randrange(256)
    else:
        body = bytearray(form({dice.choice(("file", "temperature", "language", "stream", "x")): dice.choice((b"", b"RIFF", sound[:50], "9e99", "-1", "\0"))}))
    return post_form("/v1/audio/transcriptions", bytes(body), boundary)


def pieces_of(request, dice):
    """In pieces, and the wait behind each."""
    if dice.random() < 0.7:
        return [request], 0
    count = dice.randrange(2, 8)
    cuts = sorted(dice.randrange(len(request)) for _ in range(count))
    return [request[a:b] for a, b in zip([0, *cuts], [*cuts, len(request)])], dice.choice((0, 0.001, 0.05))


class Load:
    def __init__(self, server, known, sound, seed):
        self.server, self.known, self.sound, self.seed = server, known, sound, seed
        self.failures, self.seen, self.memory = [], collections.Counter(), []

    def fail(self, index, what, request):
        self.failures.append(index)
        if len(self.failures) <= 20:
            print(f"request {index}: {what}\n  {request[:700]!r}", flush=True)

    def check(self, index, kind, request, answer):
        if answer is None:
            return self.fail(index, f"{kind}: no answer", request)
        self.seen[f"{kind} {answer.status}"] += 1
        if answer.status >= 500 and answer.status not in (501, 503, 505):
            return self.fail(index, f"{kind}: {answer.status} {answer.body[:300]}", request)
        if answer.status >= 400 and not request.startswith(b"HEAD"):
            try:
                error = json.loads(answer.body)["error"]
                sentence = error if isinstance(error, str) else error["message"]
            except (ValueError, KeyError, TypeError):
                sentence = ""
            if not sentence:
                self.fail(index, f"{kind}: a refusal without a sentence: {answer.status} {answer.body[:300]}", request)
        elif answer.status == 200 and not answer.whole:
            self.fail(index, f"{kind}: a stream without its end", request)

    async def one(self, index):
        dice = random.Random(f"{self.seed}.{index}")
        path, value, request, expected = dice.choice(self.known)
        kind = dice.choices(("valid", "leaves", "half", "fields", "http", "form"), (40, 15, 8, 27, 5, 5))[0]
        if kind == "valid":
            pieces, wait = pieces_of(request, dice)
            answer = await self.server.say(pieces, wait)
            self.check(index, kind, request, answer)
            if answer and answer.status != 503 and (answer.status != 200 or answer.lasting() != expected):
                self.fail(index, f"another answer than alone:\n  {answer.body[:600]}\n  {expected[:600]}", request)
            return
        if kind == "leaves":
            self.seen[kind] += 1
            await self.server.say([request], leave_after=dice.choice((1, 200, 600, 2000)))
            return
        if kind == "half":
            self.seen[kind] += 1
            await self.server.say([request[:dice.randrange(len(request))]], dice.choice((0, 0.02)), leave_after=0)
            return
        if kind == "fields":
            request = http("POST", path, mutated(value, dice)) if isinstance(value, dict) else broken_form(self.sound, dice)
        elif kind == "http":
            request = broken_http(dice)
            if b"zz\r\n" in request or b"Content-Length: 9999" in request:  # what the server waits for does not come
                await self.server.say([request], 0.01, leave_after=0)
                return
        else:
            request = broken_form(self.sound, dice)
        pieces, wait = pieces_of(request, dice)
        try:
            answer = await self.server.say(pieces, wait)
        except TimeoutError:
            return self.fail(index, f"{kind}: it hangs", request)
        self.check(index, kind, request, answer)

    async def run(self, requests, clients):
        numbers = iter(range(requests))
        began = time.monotonic()

        async def client():
            for index in numbers:
                if self.server.process.returncode is not None:
                    return
                await self.one(index)
                if index % max(requests // 50, 1) == 0:
                    self.memory.append(self.server.memory())
                    if requests >= 1000:
                        print(f"{index} requests, {time.monotonic() - began:.0f} s, {self.memory[-1]:.1f} MiB", flush=True)

        await asyncio.gather(*(client() for _ in range(clients)))
        print(f"{requests} requests in {time.monotonic() - began:.1f} s: {dict(sorted(self.seen.items()))}")


async def streams(server, name, clients, seconds, seed):
    """Clients that ask for streams, half of which leave."""
    began = time.monotonic()
    firsts, gaps, memory, counts = [], [], [], collections.Counter()

    async def client(number):
        dice = random.Random(f"{seed}.{number}")
        while time.monotonic() - began < seconds:
            value = {"model": name, "stream": True, "max_tokens": dice.randrange(8, 100), "seed": dice.randrange(1000),
                     "messages": [{"role": "user", "content": f"Tell me a story of {dice.randrange(1000)} cows. " * dice.randrange(1, 10)}]}
            sent, times = time.monotonic(), []

            def on_data(data, times=times):
                if b'"content":"' in data.replace(b'"content":""', b""):
                    times.append(time.monotonic())

            leaves = dice.random() < 0.5
            answer = await server.say([post("/v1/chat/completions", value)], leave_after=dice.randrange(1, 8000) if leaves else None, on_data=on_data)
            if times:
                firsts.append(times[0] - sent)
                gaps.extend(b - a for a, b in zip(times, times[1:]))
            counts["left" if answer is None else f"{answer.status}{'' if answer.whole else ' cut'}"] += 1

    async def watch():
        while time.monotonic() - began < seconds:
            memory.append(server.memory())
            print(f"{time.monotonic() - began:.0f} s: {memory[-1]:.1f} MiB, {dict(counts)}", flush=True)
            await asyncio.sleep(max(seconds / 20, 1))

    await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    for what, values in (("first token", firsts), ("between tokens", gaps)):
        values.sort()
        if values:
            print(f"{what}: p50 {statistics.median(values) * 1e3:.1f} ms, p99 {values[int(len(values) * 0.99)] * 1e3:.1f} ms, "
                  f"most {values[-1] * 1e3:.1f} ms, of {len(values)}")
    return memory


async def ladder(server, name, seconds):
    """Tokens a second of more and more clients, in three passes after one that is not counted."""
    rows = collections.defaultdict(list)
    for turn in range(4):
        for clients in (1, 2, 4, 8, 16, 32, 64):
            began, tokens = time.monotonic(), 0

            async def client(number, clients=clients, began=began):
                nonlocal tokens
                while time.monotonic() - began < seconds:
                    value = {"model": name, "prompt": f"Once upon a time there was cow {number}", "max_tokens": 64}
                    answer = await server.say([post("/v1/completions", value)])
                    tokens += json.loads(answer.body)["usage"]["completion_tokens"]

            await asyncio.gather(*(client(number) for number in range(clients)))
            if turn > 0:
                rows[clients].append(tokens / (time.monotonic() - began))
        print("clients " + ", ".join(f"{clients}: {statistics.median(rows[clients]):.0f} of {[round(each) for each in rows[clients]]}"
                                     for clients in rows), flush=True)


async def quiet(server):
    """Nothing runs any more, within ten seconds."""
    for _ in range(100):
        text = (await server.say([http("GET", "/metrics")])).body.decode()
        if all(float(each) == 0 for each in re.findall(r"^pumice_texts_(?:running|waiting)\S* (\S+)", text, re.M)):
            return True
        await asyncio.sleep(0.1)
    return False


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pumice")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--ladder", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--options", default="", help="further options of the server, in one word")
    given = parser.parse_args()
    sound = b"RIFF\x24\x3e\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\0\x3e\0\0" + bytes(range(256)) * 62
    wrong = []
    async with Server([given.pumice, "serve", *given.models, "--port", "0", "--context", "256", "--no-tune", *given.options.split()]) as server:
        models = json.loads((await server.say([http("GET", "/v1/models")])).body)["data"]
        known = []
        for path, value in valid_requests(models, sound):
            request = post(path, value) if isinstance(value, dict) else post_form(path, value)
            answer = await server.say([request])
            if answer is None or answer.status != 200:
                sys.exit(f"{path} {value}: {answer and answer.body}")
            known.append((path, value, request, answer.lasting()))
        print(f"{len(models)} models, {len(known)} known requests, {server.memory():.1f} MiB", flush=True)
        if given.ladder:
            await ladder(server, models[0]["id"], given.ladder)
            memory = [server.memory()]
        elif given.seconds:
            memory = await streams(server, models[0]["id"], given.clients, given.seconds, given.seed)
        else:
            load = Load(server, known, sound, given.seed)
            await load.run(given.requests, given.clients)
            memory = load.memory
            if load.failures:
                wrong.append(f"{len(load.failures)} requests: {load.failures[:50]}")
        if server.process.returncode is None:
            if not await quiet(server):
                wrong.append("texts run that nobody waits for")
            if (await server.say([http("GET", "/health")])).status != 200:
                wrong.append("/health is not well")
            for path, value, request, expected in known:
                if (await server.say([request])).lasting() != expected:
                    wrong.append(f"another answer at the end: {path} {value}")
            server.process.send_signal(signal.SIGTERM)
        status = await server.process.wait()
        if status != 0:
            wrong.append(f"the server ended with {status}")
        third = max(len(memory) // 3, 1)
        early, late = statistics.median(memory[third:2 * third] or memory), statistics.median(memory[2 * third:] or memory)
        print(f"memory: {early:.1f} MiB in the middle third, {late:.1f} MiB in the last")
        if late > early * 1.05 + 4:
            wrong.append("memory grows")
    if wrong:
        print(server.said())
    print("\n".join(wrong) if wrong else "all is well")
    return 1 if wrong else 0


if __name__ == "__main__":
    if not hasattr(asyncio, "timeout"):
        sys.exit(77)  # a Python before 3.11
    sys.exit(asyncio.run(main()))
