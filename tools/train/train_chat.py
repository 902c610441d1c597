#!/usr/bin/env python3
"""Teaches the story model to hold a dialogue, and writes it as a GGUF file with a chat template."""
import argparse
import itertools
import os
import random
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when torch loads its BLAS
import torch
from torch.nn import functional as F

import dialogues
import gguf_writer as gguf
import tokenizer
from model import Config, Model
from sample import load
from train import export, learning_rate, make_optimiser, quantised

TRAIN_SEED, HELD_OUT_SEED = 31, 33
HELD_OUT_DIALOGUES = 400
STORY_TOKENS = 50  # longer answers are stories
CONTROLS = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
# Each text is cut into tokens on its own, so the blanks at its ends would be tokens of their own.
TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + (message['content'] | trim)"
            " + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def with_controls(model, tok):
    """The model with a token for each of CONTROLS behind the others."""
    first = len(tok.tokens)
    tok.tokens += CONTROLS
    tok.types += [tokenizer.TYPE_CONTROL] * len(CONTROLS)
    tok.scores += [0.0] * len(CONTROLS)
    config = Config(**{**model.c.__dict__, "vocab": first + len(CONTROLS)})
    grown = Model(config)
    weights = model.state_dict()
    rows = weights["token_embd.weight"]
    weights["token_embd.weight"] = torch.cat([rows, rows.mean(0) + 0.02 * torch.randn(len(CONTROLS), rows.shape[1])])
    grown.load_state_dict(weights)
    return grown


def encode(tok, turns):
    """Token ids of a dialogue, and for each how much it counts that the model writes it.

    What the user writes does not count; a story, which the model can tell already, counts less than an answer.
    """
    control = {name: len(tok.tokens) - len(CONTROLS) + i for i, name in enumerate(CONTROLS)}
    ids, weights = [tokenizer.BOS], [0.0]
    for role, text in turns:
        body = [*tok.encode(text.strip()), control["<|end|>"]]
        ids += [control[f"<|{role}|>"], *body]
        weights += [0.0] + [0.0 if role == "user" else 1.0 if len(body) < STORY_TOKENS else 0.3] * len(body)
    return ids, weights


def batches(tok, rng, tokens_per_batch, length):
    """Rows of ids and weights that start with a dialogue and go on with the next ones."""
    while True:
        rows, row_weights = [], []
        for _ in range(tokens_per_batch // length):
            ids, weights = [], []
            while len(ids) < length + 1:
                more, their_weights = encode(tok, dialogues.dialogue(rng))
                ids, weights = ids + more, weights + their_weights
            rows.append(ids[:length + 1])
            row_weights.append(weights[:length + 1])
        yield torch.tensor(rows), torch.tensor(row_weights)


def loss_of(model, ids, weights):
    """The mean over the tokens after the first, by their weights."""
    nats = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weights = weights[:, 1:].flatten()
    return (nats * weights).sum() / weights.sum().clamp(min=1)


@torch.no_grad()
def held_out_loss(model, tok):
    """The mean loss over dialogues that training has not seen."""
    rng, total = random.Random(HELD_OUT_SEED), 0
    for _ in range(HELD_OUT_DIALOGUES):
        ids, weights = encode(tok, dialogues.dialogue(rng))
        total += loss_of(model, torch.tensor([ids[:model.c.context]]), torch.tensor([weights[:model.c.context]])).item()
    return total / HELD_OUT_DIALOGUES


def save(path, model, tok):
    export(path, model, tok, [("tokenizer.chat_template", gguf.STRING, TEMPLATE),
                              ("tokenizer.ggml.eot_token_id", gguf.U32, len(tok.tokens) - 1)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--start", required=True, help="GGUF file of train.py to start from")
    parser.add_argument("--out", required=True, help="GGUF file to write")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--lr", type=float, default=1.5e-3, help="peak rate")
    parser.add_argument("--tokens-per-step", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=500, help="also write the file every so many steps")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    torch.set_flush_denormal(True)
    model, tok = load(args.start)
    model = with_controls(model, tok)
    optimiser = make_optimiser(model)
    rng, full = random.Random(TRAIN_SEED), args.steps // 4
    # Short rows are cheaper; the last quarter learns the far positions.
    data = itertools.chain(
        itertools.islice(batches(tok, rng, args.tokens_per_step, model.c.context // 2), args.steps - full),
        itertools.islice(batches(tok, rng, args.tokens_per_step, model.c.context), full))
    start, window = time.time(), []
    for done, (ids, weights) in enumerate(data, 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(done - 1, args.steps, args.warmup, args.lr)
        loss = loss_of(model, ids, weights)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        window.append(loss.item())
        status = f"step {done}/{args.steps} loss {sum(window) / len(window):.4f} {time.time() - start:.0f} s"
        if sys.stdout.isatty():
            print("\r" + status, end="", flush=True)
        if done % 100 == 0:
            print(("\r" if sys.stdout.isatty() else "") + status, flush=True)
            window.clear()
        if done % args.save_every == 0:
            save(args.out, model, tok)
    save(args.out, model, tok)
    for label, m in (("float32", model), ("Q8_0", quantised(model))):
        print(f"held-out loss, {label}: {held_out_loss(m, tok):.4f} nats/token, by weight")


if __name__ == "__main__":
    main()
