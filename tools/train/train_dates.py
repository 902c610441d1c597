#!/usr/bin/env python3
"""Trains the small model that reads dates, from nothing, and writes it as a Hugging Face style folder."""
import argparse
import dataclasses
import itertools
import json
import math
import os
import random
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # these are read when torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch
from torch.nn import functional as F

import bpe_tokenizer
import dates
import safetensors_file
from bpe_tokenizer import BOS, PAD
from seq2seq import Config, Model, greedy, pad

TOKENIZER_SEED, CHECK_SEED = 21, 23  # training has 22, the held-out lines another still: evaluate_dates.py
TOKENIZER_LINES, RARE = 100000, 40
VOCABULARY = 768
MOST_TOKENS = 16  # of an output; a date has 10 and </s>
POOL = 32  # batches that are sorted by length together


def batches(tok, seed, more_eras, size):
    """Endless (source, target) batches of lines of similar length, in random order."""
    lines, rng = dates.lines(seed, more_eras=more_eras), random.Random(seed)
    while True:
        pool = [(tok.encode(line.text), [BOS] + tok.encode(line.iso)) for line in itertools.islice(lines, POOL * size)]
        pool.sort(key=lambda pair: len(pair[0]))
        starts = list(range(0, len(pool), size))
        rng.shuffle(starts)
        for start in starts:
            sources, targets = zip(*pool[start:start + size])
            yield pad(sources), pad(targets)


def loss_of(model, source, target, smoothing):
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing)


def learning_rate(done, warmup, peak):
    """`done`: the part of the run that is over. Linear warm-up, then a cosine down to a hundredth."""
    if done < warmup:
        return peak * done / warmup
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (done - warmup) / (1 - warmup))))


def export(folder, model, tok):
    os.makedirs(folder, exist_ok=True)
    c = dataclasses.asdict(model.c)
    generation = {key: c[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")}
    for name, tree in (("config.json", {"model_type": "transformer", **c}),
                       ("generation_config.json", {**generation, "max_new_tokens": MOST_TOKENS})):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(tree, f, indent=1)
            f.write("\n")
    tok.save(os.path.join(folder, "tokenizer.json"))
    safetensors_file.write(os.path.join(folder, "model.safetensors"),
                           {name: p.numpy() for name, p in model.state_dict().items()})


def load(folder):
    with open(os.path.join(folder, "config.json")) as f:
        fields = json.load(f)
    fields.pop("model_type")
    model = Model(Config(**fields))
    tensors = safetensors_file.read(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({name: torch.from_numpy(x) for name, x in tensors.items()})
    return model, bpe_tokenizer.load(os.path.join(folder, "tokenizer.json"))


def wrong_lines(model, tok, lines):
    """The lines that greedy decoding reads wrongly, each with what it reads."""
    wrong = []
    for start in range(0, len(lines), 200):
        part = lines[start:start + 200]
        outputs, _ = greedy(model, [tok.encode(line.text) for line in part], MOST_TOKENS)
        wrong += [(line, tok.decode(output)) for line, output in zip(part, outputs) if tok.decode(output) != line.iso]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--start", help="folder whose weights to start from, rather than from nothing")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.5e-3, help="peak rate")
    parser.add_argument("--warmup", type=int, default=500, help="steps")
    parser.add_argument("--smoothing", type=float, default=0.05, help="of the labels")
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    parser.add_argument("--data-seed", type=int, default=22)
    parser.add_argument("--more-eras", type=float, default=0.0, help="share of extra lines with Japanese eras")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end sooner, the schedule cut to fit")
    parser.add_argument("--check-every", type=int, default=1000, help="steps; the folder keeps the best so far")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    torch.set_flush_denormal(True)
    if args.start:
        model, tok = load(args.start)
    else:
        texts = (line.text for line in itertools.islice(dates.lines(TOKENIZER_SEED), TOKENIZER_LINES))
        tok = bpe_tokenizer.train(texts, VOCABULARY, RARE)
        model = Model(Config(vocab_size=len(tok.tokens)))
    print(f"{sum(p.numel() for p in model.parameters())} parameters", file=sys.stderr, flush=True)
    check = list(itertools.islice(dates.lines(CHECK_SEED, held_out=True), 1000))
    optimiser = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.01},
         {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}], betas=(0.9, 0.98), eps=1e-9)
    start, window, best = time.time(), [], math.inf
    data = batches(tok, args.data_seed, args.more_eras, args.batch)
    for step in itertools.count(1):
        done = max(step / args.steps, (time.time() - start) / 60 / args.minutes)
        rate = learning_rate(min(done, 1), args.warmup / args.steps, args.lr)
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = loss_of(model, *next(data), args.smoothing)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        window.append(loss.item())
        if step % 100 == 0:
            print(f"step {step}/{args.steps} loss {sum(window) / len(window):.4f} rate {rate:.2e} "
                  f"{time.time() - start:.0f} s", file=sys.stderr, flush=True)
            window.clear()
        if step % args.check_every == 0 or done >= 1:
            wrong = len(wrong_lines(model, tok, check))
            print(f"check: {wrong} of {len(check)} wrong", file=sys.stderr, flush=True)
            if wrong <= best:
                best = wrong
                export(args.out, model, tok)
        if done >= 1:
            return


if __name__ == "__main__":
    main()
