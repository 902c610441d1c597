"""The encoder-decoder of 2017, laid out as `torch.nn.Transformer` names its tensors, and its decoding."""
import dataclasses
import math

import torch
from torch import nn

from bpe_tokenizer import BOS, EOS, PAD


@dataclasses.dataclass
class Config:
    """Fields and values as config.json has them."""
    vocab_size: int
    d_model: int = 128
    num_heads: int = 4
    num_encoder_layers: int = 3
    num_decoder_layers: int = 2
    dim_feedforward: int = 512
    activation: str = "relu"
    norm_first: bool = True
    layer_norm_eps: float = 1e-5
    position_encoding: str = "sinusoidal"
    scale_embedding: bool = True
    max_position_embeddings: int = 128
    pad_token_id: int = PAD
    bos_token_id: int = BOS
    eos_token_id: int = EOS
    decoder_start_token_id: int = BOS


def sinusoids(positions, width):
    """Sine in even columns, cosine in odd ones."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000) / width))
    angles = torch.arange(positions)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        # Without dropout, training and evaluation are the same, and eval() is never called: it would switch
        # to fused code that computes the same less exactly.
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.transformer = nn.Transformer(
            c.d_model, c.num_heads, c.num_encoder_layers, c.num_decoder_layers, c.dim_feedforward, dropout=0.0,
            activation=c.activation, layer_norm_eps=c.layer_norm_eps, batch_first=True, norm_first=c.norm_first)
        self.output = nn.Linear(c.d_model, c.vocab_size)
        nn.init.normal_(self.embedding.weight, std=c.d_model**-0.5)
        positions = c.max_position_embeddings
        self.register_buffer("positions", sinusoids(positions, c.d_model), persistent=False)
        self.register_buffer("later", torch.ones(positions, positions, dtype=torch.bool).triu(1), persistent=False)

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(self.c.d_model) + self.positions[:ids.shape[1]]

    def encode(self, source):
        return self.transformer.encoder(self.embed(source), src_key_padding_mask=source == PAD)

    def decode(self, target, memory, source):
        """Logits after every token of `target`."""
        length = target.shape[1]
        x = self.transformer.decoder(self.embed(target), memory, tgt_mask=self.later[:length, :length],
                                     memory_key_padding_mask=source == PAD)
        return self.output(x)

    def forward(self, source, target):
        return self.decode(target, self.encode(source), source)


def pad(rows):
    length = max(map(len, rows))
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])


@torch.no_grad()
def greedy(model, sources, limit):
    """For each source its ids through </s> or the limit, and the smallest lead of a chosen logit over the next."""
    source = pad(sources)
    memory = model.encode(source)
    target = torch.full((len(sources), 1), BOS)
    outputs, leads = [[] for _ in sources], [math.inf] * len(sources)
    for _ in range(limit):
        best = model.decode(target, memory, source)[:, -1].topk(2)
        target = torch.cat((target, best.indices[:, :1]), 1)
        for i, output in enumerate(outputs):
            if output[-1:] != [EOS]:
                output.append(int(best.indices[i, 0]))
                leads[i] = min(leads[i], float(best.values[i, 0] - best.values[i, 1]))
        if all(output[-1] == EOS for output in outputs):
            break
    return outputs, leads


@torch.no_grad()
def beam_search(model, source, beams, limit, length_penalty=1.0):
    """(score, ids through </s> or the limit) of every finished hypothesis, best first, as transformers searches without
    early stopping: a score is the sum of the log probabilities over the length to the power of the penalty.
    """
    source = torch.tensor([source])
    memory = model.encode(source)
    running, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        target = torch.tensor([[BOS, *ids] for _, ids in running])
        count = len(running)
        logits = model.decode(target, memory.expand(count, -1, -1), source.expand(count, -1))[:, -1]
        sums = logits.log_softmax(-1) + torch.tensor([total for total, _ in running])[:, None]
        # Twice as many candidates as beams: should all beams end, there are as many to go on with.
        best = sums.flatten().topk(min(2 * beams, sums.numel()))
        candidates = [(total, running[index // sums.shape[1]][1] + [index % sums.shape[1]])
                      for total, index in zip(best.values.tolist(), best.indices.tolist())]
        finished += [(total / length**length_penalty, ids) for total, ids in candidates[:beams]
                     if ids[-1] == EOS or length == limit]
        finished = sorted(finished, key=lambda scored: -scored[0])[:beams]
        running = [(total, ids) for total, ids in candidates if ids[-1] != EOS][:beams]
        if len(finished) == beams and finished[-1][0] >= running[0][0] / length**length_penalty:
            break
    return finished
