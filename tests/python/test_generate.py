"""Texts: as the command writes them, whole, in pieces, in conversations and in batches."""
import asyncio
import json
import threading

import pytest
from conftest import STORIES

import pumice

PROMPT = "Once upon a time"


def test_as_the_command(stories, command):
    printed, = command("generate", STORIES, PROMPT, "-n", "12", "--no-tune", "--kv", "f16", "--temp", "0.9", "--top-k", "20", "--seed", "7")
    options = dict(max_tokens=12, temperature=0.9, top_k=20, seed=7)
    text = stories.generate(PROMPT, **options)
    assert text == printed["text"]
    assert (text.finish_reason, text.tokens) == ("length", 12)
    assert [event.token for event in stories.events(PROMPT, **options) if event.type == "token"] == printed["ids"]


def test_pieces(stories):
    whole = stories.generate(PROMPT, max_tokens=12)
    stream = stories.stream(PROMPT, max_tokens=12)
    pieces = list(stream)
    assert len(pieces) > 5 and "".join(pieces) == whole == stream.text
    assert stream.finish_reason == "length" and stream.text.tokens == 12
    assert list(stories.stream(whole, max_tokens=1))


def test_a_loop_that_is_left_ends_the_text(stories):
    for piece in stories.stream(PROMPT):
        break
    stream = stories.stream(PROMPT)
    next(stream)
    stream.close()
    assert stream.finish_reason == "cancelled" and stream.text.startswith(piece)
    assert list(stream) == []
    assert stories.generate(PROMPT, max_tokens=3) == stories.generate([*stories.tokenize(PROMPT)], max_tokens=3)


def test_async(stories):
    async def gathered(prompt):
        return "".join([piece async for piece in stories.stream(prompt, max_tokens=8)])

    async def both():
        return await asyncio.gather(gathered(PROMPT), gathered("The dog"))

    assert asyncio.run(both()) == [stories.generate(prompt, max_tokens=8) for prompt in (PROMPT, "The dog")]

    async def abandoned():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(endless(), 0.2)
        return stories.generate(PROMPT, max_tokens=2)

    async def endless():
        while True:
            async for _ in stories.stream(PROMPT, ignore_end=True):
                pass

    assert asyncio.run(abandoned())


def test_forms(stories):
    assert stories.generate("The cat is", choices=["happy", "a dog"]) in ("happy", "a dog")
    assert stories.generate("A number:", regex="[0-9]{3}").isdigit()
    schema = {"type": "object", "properties": {"pet": {"enum": ["cat", "dog"]}}, "required": ["pet"], "additionalProperties": False}
    for each in (schema, json.dumps(schema)):
        assert json.loads(stories.generate("A pet:", json_schema=each))["pet"] in ("cat", "dog")
    assert stories.generate("Say", grammar='root ::= "yes" | "no"') in ("yes", "no")
    with pytest.raises(ValueError, match="exactly one"):
        stories.generate("x", choices=["a"], regex="b")


def test_options(stories):
    whole = stories.generate(PROMPT, max_tokens=20)
    assert stories.generate(PROMPT, max_tokens=20, stop=" young") == whole.split(" young")[0]
    first = next(event.token for event in stories.events(PROMPT, max_tokens=1) if event.type == "token")
    assert stories.generate(PROMPT, max_tokens=4, banned_tokens=[first]) != stories.generate(PROMPT, max_tokens=4)
    assert stories.generate(PROMPT, max_tokens=4, logit_biases={first: -1e9}) != stories.generate(PROMPT, max_tokens=4)
    event = next(iter(stories.events(PROMPT, max_tokens=1, log_probabilities=3)))
    assert [each.token for each in event.top][0] == event.token and len(event.top) == 3
    assert abs(event.top[0].log_probability - event.log_probability) < 1e-6
    assert set(pumice.usual_sampling()) == {"temperature", "top_k", "top_p", "min_p"}
    assert stories.generate(PROMPT, max_tokens=4, **pumice.usual_sampling())
    assert set(pumice.Sampling.__annotations__) == pumice.options.SAMPLING
    for name in ("adapter", "adapter_scale", "ignore_end", "max_tokens", "stop"):
        assert name in pumice.Options.__annotations__


def test_batches(stories):
    prompts = [PROMPT, "The dog", "A little girl"]
    assert stories.generate_all(prompts, max_tokens=8) == [stories.generate(prompt, max_tokens=8) for prompt in prompts]
    assert stories.generate_all(prompts, together=1, max_tokens=2) == [stories.generate(prompt, max_tokens=2) for prompt in prompts]
    assert stories.generate_all([]) == []
    with pumice.Batch(stories, texts=2) as batch:
        kept, dropped = batch.add(PROMPT, max_tokens=4), batch.add("The dog", max_tokens=4)
        batch.drop(dropped)
        assert batch.run() == {kept: stories.generate(PROMPT, max_tokens=4)}


def test_conversations(stories, tmp_path):
    with stories.session(context=128) as session:
        first = session.generate(PROMPT, max_tokens=5)
        assert stories.detokenize(session.tokens) == PROMPT + first or session.tokens
        fork = session.fork()
        second = session.generate(max_tokens=5)
        assert fork.generate(max_tokens=5) == second
        fork.close()
        session.save(tmp_path / "saved")
        saved, tokens = session.to_bytes(), session.tokens
        assert session.generate(PROMPT, new_conversation=True, max_tokens=5) == first
        session.restore(tmp_path / "saved")
        assert session.tokens == tokens
        session.from_bytes(saved)
        assert session.tokens == tokens
        session.suspend()
        with pytest.raises(pumice.NotReady):
            session.generate(max_tokens=1)
        session.resume()
        likely, unlikely = session.score([" the", "xqz"])
        assert likely.log_probability / likely.tokens > unlikely.log_probability / unlikely.tokens
        assert session.score([stories.tokenize(" the", add_special=False)])[0].tokens >= 1
        stream = session.stream(max_tokens=50)
        next(stream)
        assert session.generate("The", max_tokens=2)  # ends the stream
        assert list(stream) == [] and stream.finish_reason == "cancelled"


def test_tokens(stories, command):
    printed, = command("tokenize", STORIES, PROMPT)
    assert stories.tokenize(PROMPT) == printed["ids"]
    assert stories.detokenize(printed["ids"]) == PROMPT
    begin, = stories.role_tokens("begin")
    assert stories.tokenize("") == [begin] and stories.tokenize("", add_special=False) == []
    assert stories.token_name(begin) == "<s>" and stories.find_token("<s>") == begin
    assert begin not in stories.tokenize("<s>", add_special=False)
    assert begin in stories.tokenize("<s>", add_special=False, parse_special=True)
    assert stories.detokenize([]) == ""


def test_threads(stories):
    """Each thread has a session of its own; all get what one gets alone."""
    expected = stories.generate(PROMPT, max_tokens=10)
    found = []
    threads = [threading.Thread(target=lambda: found.append(stories.generate(PROMPT, max_tokens=10))) for _ in range(3)]
    inner = [stories.generate("The dog", max_tokens=1) for _ in zip(range(2), stories.stream(PROMPT, max_tokens=4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 3 and len(set(inner)) == 1
    # And they take turns with one.
    with stories.session(context=64) as session:
        found.clear()
        threads = [threading.Thread(target=lambda: found.append(session.generate(PROMPT, new_conversation=True, max_tokens=10)))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 3


def test_a_model_from_memory(load):
    with pumice.Model(STORIES.read_bytes(), **load) as model:
        assert model.generate(PROMPT, max_tokens=3)
    seen = []
    pumice.Model(STORIES, **{**load, "progress": lambda done, total: seen.append((done, total))}).close()
    assert seen and seen[-1][0] <= seen[-1][1]


def test_estimates(device):
    estimate = pumice.estimate(STORIES, device=device, context=128)
    assert estimate.fits and estimate.context == 128 and estimate.weights > 2_000_000
    assert device.memory.allocated > 0 and device.name in repr(device)
    assert pumice.library_version() >= pumice.__version__
