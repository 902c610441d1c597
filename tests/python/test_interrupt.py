"""Ctrl-C, which Python sees between two of its own instructions only."""
import os
import signal
import threading
import time

import pytest

import pumice

SOON = 2  # seconds, on a machine that does other things too; the work itself takes longer


def interrupted_after(seconds, work):
    """How long after Ctrl-C the work ended with it."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:
                work()
    finally:
        timer.cancel()
    return time.monotonic() - sent[0]


def test_texts(stories):
    session = stories.session()
    prompt = "Once upon a time " * 90
    assert interrupted_after(0.2, lambda: session.generate(prompt, new_conversation=True, ignore_end=True)) < SOON
    assert session.generate("Once", new_conversation=True, max_tokens=2)
    assert interrupted_after(0.2, lambda: list(session.stream("Once", new_conversation=True, ignore_end=True))) < SOON
    assert interrupted_after(0.2, lambda: stories.generate_all(["Once", "The dog"], ignore_end=True)) < SOON
    assert session.generate("Once", new_conversation=True, max_tokens=2)
    session.close()


def test_other_tasks(made, load):
    with pumice.Embedder(made("bert"), batch_tokens=256, **load) as embedder:
        texts = ["w5 w6 w7 " * 20] * 3000
        assert interrupted_after(0.2, lambda: embedder.embed(texts)) < SOON
        assert len(embedder.embed(texts[:1])) == 1


def test_loading(load):
    from conftest import STORIES
    assert interrupted_after(0.1, lambda: pumice.Model(STORIES, **load).close()) < SOON
