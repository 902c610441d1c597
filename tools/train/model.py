"""A LLaMA-style decoder, laid out as GGUF's "llama" architecture expects it."""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Config:
    vocab: int = 2048
    width: int = 192
    layers: int = 5
    heads: int = 6
    kv_heads: int = 2
    feed_forward: int = 512
    context: int = 512
    norm_eps: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_dim(self):
        return self.width // self.heads


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    """Turns neighbouring pairs (2i, 2i+1), the convention of llama.cpp's llama architecture."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        kv_width = c.kv_heads * c.head_dim
        self.attn_norm = RMSNorm(c.width, c.norm_eps)
        self.attn_q = nn.Linear(c.width, c.width, bias=False)
        self.attn_k = nn.Linear(c.width, kv_width, bias=False)
        self.attn_v = nn.Linear(c.width, kv_width, bias=False)
        self.attn_output = nn.Linear(c.width, c.width, bias=False)
        self.ffn_norm = RMSNorm(c.width, c.norm_eps)
        self.ffn_gate = nn.Linear(c.width, c.feed_forward, bias=False)
        self.ffn_up = nn.Linear(c.width, c.feed_forward, bias=False)
        self.ffn_down = nn.Linear(c.feed_forward, c.width, bias=False)

    def attention(self, x, cos, sin, mask):
        c, (n, t, _) = self.c, x.shape
        group = c.heads // c.kv_heads
        # Query heads that share a key head are stacked along time: one product serves them all.
        q = rotate(self.attn_q(x).view(n, t, c.kv_heads, group, -1).permute(0, 2, 3, 1, 4), cos, sin)
        k = rotate(self.attn_k(x).view(n, t, c.kv_heads, -1).transpose(1, 2), cos, sin)
        v = self.attn_v(x).view(n, t, c.kv_heads, -1).transpose(1, 2)
        q = q.reshape(n * c.kv_heads, group * t, c.head_dim)
        k, v = (y.reshape(n * c.kv_heads, t, c.head_dim) for y in (k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).view(-1, group, t, t) / math.sqrt(c.head_dim) + mask
        mixed = torch.bmm(scores.softmax(-1).view(-1, group * t, t), v)
        mixed = mixed.view(n, c.heads, t, c.head_dim).transpose(1, 2).reshape(n, t, c.width)
        return self.attn_output(mixed)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attn_norm(x), cos, sin, mask)
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.token_embd = nn.Embedding(c.vocab, c.width)
        self.blk = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.output_norm = RMSNorm(c.width, c.norm_eps)
        angles = torch.outer(torch.arange(c.context).float(),
                             c.rope_base ** (-torch.arange(0, c.head_dim, 2).float() / c.head_dim))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("mask", torch.full((c.context, c.context), -math.inf).triu(1), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # What is added to the residual stream starts smaller, so that depth does not blow it up.
                last = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(p, std=0.04 / math.sqrt(2 * c.layers) if last else 0.04)

    def forward(self, ids):
        """Logits after every token of `ids` (batch x time); the output matrix is the embedding's."""
        t = ids.shape[1]
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, self.cos[:t], self.sin[:t], self.mask[:t, :t])
        return F.linear(self.output_norm(x), self.token_embd.weight)
