#!/usr/bin/env python3
"""Counts how many short answers of a GGUF file of train_chat.py are exactly right, in dialogues it has not seen."""
import argparse
import os
import random

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when torch loads its BLAS
import torch

import dialogues
import tokenizer
from sample import load
from train_chat import CONTROLS, HELD_OUT_SEED, STORY_TOKENS, encode


@torch.no_grad()
def answer(model, tok, turns, limit):
    """The likeliest answer to the last turn."""
    first = len(tok.tokens) - len(CONTROLS)
    assistant, end = first + CONTROLS.index("<|assistant|>"), first + CONTROLS.index("<|end|>")
    ids, _ = encode(tok, turns)
    ids.append(assistant)
    begin = len(ids)
    while len(ids) < min(begin + limit, model.c.context):
        token = int(model(torch.tensor([ids]))[0, -1].argmax())
        if token in (end, tokenizer.EOS):
            break
        ids.append(token)
    return tok.decode(ids[begin:]).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--count", type=int, default=1000, help="answers to compare")
    parser.add_argument("--wrong", action="store_true", help="print each question whose answer differs")
    args = parser.parse_args()

    torch.set_num_threads(1)
    model, tok = load(args.model)
    tok.tokens += CONTROLS
    tok.types += [tokenizer.TYPE_CONTROL] * len(CONTROLS)
    rng = random.Random(HELD_OUT_SEED)
    counts = {False: [0, 0], True: [0, 0]}  # about a story or not: right, all
    while sum(all_ for _, all_ in counts.values()) < args.count:
        turns = dialogues.dialogue(rng)
        told = False
        for i in range(1, len(turns), 2):
            expected = turns[i][1]
            long = len(tok.encode(expected)) >= STORY_TOKENS
            if not long and len(encode(tok, turns[:i])[0]) + STORY_TOKENS < model.c.context:
                given = answer(model, tok, turns[:i], STORY_TOKENS)
                counts[told][0] += given == expected
                counts[told][1] += 1
                if args.wrong and given != expected:
                    print(f"{turns[i - 1][1]}\n  expected {expected}\n  given    {given}")
            told |= long
    for told, label in ((False, "without a story"), (True, "after a story")):
        print(f"{label}: {counts[told][0]} of {counts[told][1]} exactly right")


if __name__ == "__main__":
    main()
