#!/usr/bin/env python3
"""Writes stories with a GGUF file of train.py, in plain float32: a reference for the runtime."""
import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when torch loads its BLAS
import torch

import tokenizer
from gguf_reader import Reader
from model import Config, Model


def load(path):
    reader = Reader(path)
    meta = reader.metadata
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    config = Config(vocab=meta["llama.vocab_size"], width=meta["llama.embedding_length"],
                    layers=meta["llama.block_count"], heads=meta["llama.attention.head_count"],
                    kv_heads=meta["llama.attention.head_count_kv"], feed_forward=meta["llama.feed_forward_length"],
                    context=meta["llama.context_length"], norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
                    rope_base=meta["llama.rope.freq_base"])
    model = Model(config)
    model.load_state_dict({name: torch.from_numpy(x.copy()) for name, x in reader.tensors.items()})
    return model, tokenizer.Tokenizer([t for t, kind in zip(tokens, types) if kind == tokenizer.TYPE_NORMAL])


@torch.no_grad()
def generate(model, ids, limit, temperature, generator):
    """Yields (id, lead of the best logit over the second best) until </s>, `limit` or the context's end."""
    ids = list(ids)
    for _ in range(min(limit, model.c.context - len(ids))):
        logits = model(torch.tensor([ids]))[0, -1]
        best, second = logits.topk(2).values.tolist()
        if temperature == 0:
            token = int(logits.argmax())
        else:
            token = int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator))
        yield token, best - second
        if token == tokenizer.EOS:
            return
        ids.append(token)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest token")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=400, help="most tokens to write")
    parser.add_argument("--expected", help="also write the prompt's and the answer's ids to this JSON file")
    args = parser.parse_args()

    torch.set_num_threads(1)
    model, tok = load(args.model)
    prompt = [tokenizer.BOS, *tok.encode(args.prompt)]
    steps = list(generate(model, prompt, args.limit, args.temperature, torch.Generator().manual_seed(args.seed)))
    ids = [token for token, _ in steps]
    print(tok.decode(prompt + ids) + ("" if ids[-1] == tokenizer.EOS else " ..."))
    if args.expected:
        with open(args.expected, "w") as f:
            # The smallest lead says how much rounding a runtime may differ by before the ids do.
            json.dump({"prompt": args.prompt, "prompt_ids": prompt, "ids": ids,
                       "min_lead": round(min(lead for _, lead in steps), 4)}, f)
            f.write("\n")


if __name__ == "__main__":
    main()
