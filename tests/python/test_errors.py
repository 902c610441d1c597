"""Bad input has a sentence and an exception; what is closed stays so; callbacks and threads do no harm."""
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest
from conftest import CHAT, PACKAGE, STORIES

import pumice


@pytest.mark.parametrize("options, kind, words", [
    (dict(temperature=-1), ValueError, "temperature is -1"),
    (dict(temperature="hot"), TypeError, "temperature is 'hot'"),
    (dict(top_k=-1), ValueError, "top_k is -1"),
    (dict(max_tokens=2 ** 32), ValueError, "max_tokens is 4294967296"),
    (dict(max_tokens=1.5), TypeError, "max_tokens is 1.5"),
    (dict(seed=-1), ValueError, "seed is -1"),
    (dict(stop=["a", 5]), TypeError, r"stops\[1\] is 5"),
    (dict(stop=""), ValueError, "stop"),
    (dict(choices="yes"), TypeError, "choices is one text"),
    (dict(choices=[]), ValueError, "form"),
    (dict(regex="("), ValueError, "byte 1"),
    (dict(json_schema={"type": "thing"}), pumice.Error, "thing"),
    (dict(grammar="root = 1"), ValueError, "grammar"),
    (dict(temprature=1), TypeError, "temprature"),
    (dict(banned_tokens=[10 ** 6]), ValueError, "1000000"),
])
def test_wrong_options(stories, options, kind, words):
    for function in (stories.generate, stories.stream, stories.events):
        with pytest.raises(kind, match=words):
            list(function("Once", **options))


@pytest.mark.parametrize("prompt, kind", [
    ("a\0b", ValueError), (5, TypeError), (b"Once", TypeError), ([-1], ValueError), ([0.5], TypeError), ([2 ** 31], ValueError),
    ("x " * 9000, pumice.ContextFull), ("\ud800", ValueError)])
def test_wrong_prompts(stories, prompt, kind):
    with pytest.raises(kind):
        stories.generate(prompt, max_tokens=2)


def test_wrong_models(load, tmp_path, stories):
    with pytest.raises(FileNotFoundError, match="nowhere.gguf") as caught:
        pumice.Model(tmp_path / "nowhere.gguf", **load)
    assert caught.value.code == pumice.Code.NOT_FOUND and isinstance(caught.value, pumice.Error)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 100)
    with pytest.raises(ValueError):
        pumice.Model(tmp_path / "bad.gguf", **load)
    for options, kind in ((dict(purpose="fun"), ValueError), (dict(cache="f64"), ValueError), (dict(experts=1), ValueError),
                          (dict(quantize="Q9"), ValueError), (dict(settings={"a": 1}), ValueError)):
        with pytest.raises(kind):
            with pumice.Model(STORIES, **{**load, **options}) as model:
                model.generate("x", max_tokens=1)
    with pytest.raises(TypeError, match="loaded already"):
        pumice.Embedder(stories, device=None, quantize="Q8_0")
    with pytest.raises(NotImplementedError):
        pumice.Embedder(stories)
    with pytest.raises(FileNotFoundError):
        pumice.Chat(stories)  # it has no template
    with pytest.raises(MemoryError):
        with pumice.Device(memory_limit=1000, cache=None) as small:
            pumice.Model(STORIES, **{**load, "device": small})
    with pytest.raises(FileNotFoundError, match="Riva"):
        pumice.Device("Riva", cache=None)


def test_what_is_closed(load):
    model = pumice.Model(STORIES, **load)
    session = model.session(context=64)
    stream = model.stream("Once")
    next(stream)
    model.close()
    model.close()
    with pytest.raises(ValueError, match="the model is closed"):
        model.generate("Once")
    with pytest.raises(pumice.Cancelled):
        list(stream)
    assert session.generate("Once", max_tokens=2)  # it keeps what it needs
    session.close()
    session.close()
    for use in (lambda: session.tokens, lambda: session.generate("Once"), session.cancel, session.fork):
        with pytest.raises(pumice.InvalidArgument, match="the session is closed"):
            use()
    assert "closed" in repr(model)


def test_closing_in_a_callback(load):
    """Of something that runs: it takes effect when the call returns."""
    closed = []

    def progress(done, total):
        closed.append(device.close())

    device = pumice.Device(cache=None)
    with pytest.raises(ValueError, match="closed"):
        pumice.Model(STORIES, **{**load, "device": device, "progress": progress}).close()
        pumice.Model(STORIES, **{**load, "device": device})
    assert closed and device.closed
    with pytest.raises(pumice.Cancelled):
        pumice.Model(STORIES, **{**load, "progress": lambda done, total: False})
    with pytest.raises(ZeroDivisionError):
        pumice.Model(STORIES, **{**load, "progress": lambda done, total: 1 // 0})


def test_other_threads_end_a_text(stories):
    session = stories.session()
    threading.Timer(0.1, session.cancel).start()
    with pytest.raises(pumice.Cancelled):
        while True:
            session.generate("Once", new_conversation=True, ignore_end=True)
    assert session.tokens
    threading.Timer(0.1, session.close).start()
    with pytest.raises(pumice.Error):
        while True:
            session.generate("Once", new_conversation=True, ignore_end=True)
    assert session.closed


def test_nothing_is_kept(load):
    """What nobody refers to is freed at once, without Python's search for cycles."""
    gc.disable()
    try:
        model = pumice.Model(STORIES, **load)
        chat = pumice.Chat(CHAT, load=load)
        before = load["device"].memory.allocated
        chat.ask("Hello", max_tokens=2)
        model.generate("Once", max_tokens=1)
        for _ in model.stream("Once"):
            break
        seen = [weakref.ref(each) for each in (model, chat, chat.session, chat._model)]
        del model, chat
        assert [each() for each in seen] == [None] * 4
        assert load["device"].memory.allocated < before
    finally:
        gc.enable()


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment})


def test_without_a_library():
    ended = run("import pumice", PUMICE_LIBRARY="/nowhere/libpumice.so.1")
    assert "/nowhere/libpumice.so.1" in ended.stderr and "Set PUMICE_LIBRARY" in ended.stderr
    ended = run("import pumice", PUMICE_LIBRARY="libc.so.6")
    assert "libc.so.6 lacks pumice_version and" in ended.stderr


def test_the_end_of_a_program():
    """With everything still open, a stream under way, and a log that Python's shutdown would not survive."""
    code = f"""
import pumice
device = pumice.Device(cache=None, log=print)
model = pumice.Model({str(STORIES)!r}, device=device, tune_seconds=-1)
stream = model.stream("Once", ignore_end=True)
print(next(stream))
"""
    ended = run(code)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
