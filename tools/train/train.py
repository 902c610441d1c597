#!/usr/bin/env python3
"""Trains the small story model from nothing and writes it as a GGUF file."""
import argparse
import itertools
import math
import os
import random
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when torch loads its BLAS
import torch
from torch.nn import functional as F

import gguf_writer as gguf
import stories
import tokenizer
from model import Config, Model
from sample import load

TOKENIZER_SEED, TRAIN_SEED, HELD_OUT_SEED = 11, 12, 13
TOKENIZER_STORIES, HELD_OUT_STORIES = 20000, 400


def documents(tok, seed, names):
    """Endless stories as token lists, each between <s> and </s>."""
    rng = random.Random(seed)
    while True:
        yield [tokenizer.BOS, *tok.encode(stories.story(rng, names)), tokenizer.EOS]


def batches(docs, tokens_per_batch, length):
    """Batches whose rows start with a story and go on with the next ones until they are full."""
    while True:
        rows = []
        for _ in range(tokens_per_batch // length):
            row = []
            while len(row) < length + 1:
                row += next(docs)
            rows.append(row[:length + 1])
        yield torch.tensor(rows)


def loss_of(model, rows, **kwargs):
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), **kwargs)


@torch.no_grad()
def held_out_loss(model, tok, names):
    """Nats per token and per character over stories that training has not seen."""
    nats = tokens = characters = 0
    for text in stories.stories(HELD_OUT_SEED, HELD_OUT_STORIES, names):
        ids = [tokenizer.BOS, *tok.encode(text), tokenizer.EOS]
        nats += loss_of(model, torch.tensor([ids]), reduction="sum").item()
        tokens += len(ids) - 1
        characters += len(text)
    return nats / tokens, nats / characters


def export(path, model, tok, more=()):
    """Writes the model to `path`, with `more` metadata after its own."""
    c = model.c
    u32, f32 = gguf.U32, gguf.F32
    metadata = [
        ("general.architecture", gguf.STRING, "llama"),
        ("general.name", gguf.STRING, os.path.splitext(os.path.basename(path))[0]),
        ("general.license", gguf.STRING, "cc0-1.0"),
        ("general.quantization_version", u32, 2),
        ("general.file_type", u32, gguf.FILE_TYPE_Q8_0),
        ("llama.context_length", u32, c.context),
        ("llama.embedding_length", u32, c.width),
        ("llama.block_count", u32, c.layers),
        ("llama.feed_forward_length", u32, c.feed_forward),
        ("llama.attention.head_count", u32, c.heads),
        ("llama.attention.head_count_kv", u32, c.kv_heads),
        ("llama.attention.layer_norm_rms_epsilon", f32, c.norm_eps),
        ("llama.rope.dimension_count", u32, c.head_dim),
        ("llama.rope.freq_base", f32, c.rope_base),
        ("llama.vocab_size", u32, c.vocab),
        ("tokenizer.ggml.model", gguf.STRING, "llama"),
        ("tokenizer.ggml.tokens", (gguf.ARRAY, gguf.STRING), tok.tokens),
        ("tokenizer.ggml.scores", (gguf.ARRAY, f32), tok.scores),
        ("tokenizer.ggml.token_type", (gguf.ARRAY, gguf.I32), tok.types),
        ("tokenizer.ggml.bos_token_id", u32, tokenizer.BOS),
        ("tokenizer.ggml.eos_token_id", u32, tokenizer.EOS),
        ("tokenizer.ggml.unknown_token_id", u32, tokenizer.UNK),
        ("tokenizer.ggml.add_bos_token", gguf.BOOL, True),
        ("tokenizer.ggml.add_space_prefix", gguf.BOOL, True),
        *more,
    ]
    # The module names are GGUF's tensor names already.
    gguf.write(path + ".part", metadata, [(name, p.numpy()) for name, p in model.state_dict().items()])
    os.replace(path + ".part", path)  # a reader never sees half a file


def quantised(model):
    """A copy of the model with the weights that a reader of the file gets."""
    copy = Model(model.c)
    copy.load_state_dict({name: torch.from_numpy(gguf.dequantise(*gguf.quantise(p.numpy()), p.shape))
                          if p.dim() == 2 else p for name, p in model.state_dict().items()})
    return copy


def learning_rate(step, steps, warmup, peak):
    """Linear warm-up, then a cosine down to a twentieth."""
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return peak * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimiser(model):
    return torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
                              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}],
                             betas=(0.9, 0.95), eps=1e-8)


def train_stage(model, tok, stage, args):
    """One run of the schedule with a fresh optimiser, over stories that no other stage sees."""
    steps = args.steps[stage]
    optimiser = make_optimiser(model)
    docs = documents(tok, TRAIN_SEED + 100 * stage, args.names[stage])
    # Short rows are cheaper and hold a whole story; the last quarter learns the far positions.
    full = steps // 4
    data = itertools.chain(
        itertools.islice(batches(docs, args.tokens_per_step, Config.context // 2), steps - full),
        itertools.islice(batches(docs, args.tokens_per_step, Config.context), full))
    start, window = time.time(), []
    for done, rows in enumerate(data, 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(done - 1, steps, args.warmup, args.lr[stage])
        loss = loss_of(model, rows)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        window.append(loss.item())
        status = (f"stage {stage + 1} step {done}/{steps} loss {sum(window) / len(window):.4f} "
                  f"{time.time() - start:.0f} s")
        if sys.stdout.isatty():
            print("\r" + status, end="", flush=True)
        if done % 100 == 0:
            print(("\r" if sys.stdout.isatty() else "") + status, flush=True)
            window.clear()
        if done % args.save_every == 0:
            export(args.out, model, tok)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", required=True, help="GGUF file to write")
    parser.add_argument("--steps", type=int, nargs="+", default=[2300, 700, 3000], help="steps of every stage")
    parser.add_argument("--lr", type=float, nargs="+", default=[2e-3, 2e-3, 1.5e-3], help="peak rate of every stage")
    # A wide cast first, for the language; then a small one, which a model this size can keep apart.
    parser.add_argument("--names", type=int, nargs="+", default=[stories.ALL_NAMES, 6, 6],
                        help="names of each kind (girls, boys, animals) in every stage")
    parser.add_argument("--first-stage", type=int, default=1, help="above 1: go on from the weights in --out")
    parser.add_argument("--tokens-per-step", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=200, help="also write the file every so many steps")
    args = parser.parse_args()
    if not len(args.steps) == len(args.lr) == len(args.names):
        parser.error("--steps, --lr and --names must list equally many stages")

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    torch.set_flush_denormal(True)
    if args.first_stage > 1:
        model, tok = load(args.out)
    else:
        tok = tokenizer.train(stories.stories(TOKENIZER_SEED, TOKENIZER_STORIES), Config.vocab)
        model = Model(Config())
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    for stage in range(args.first_stage - 1, len(args.steps)):
        train_stage(model, tok, stage, args)
        export(args.out, model, tok)
        # The next stage starts from what the file holds, so that going on from the file changes nothing.
        original, model = model, quantised(model)

    for label, m in (("float32", original), ("Q8_0", model)):
        per_token, per_character = held_out_loss(m, tok, args.names[-1])
        print(f"held-out loss, {label}: {per_token:.4f} nats/token, {per_character:.4f} nats/character")


if __name__ == "__main__":
    main()
