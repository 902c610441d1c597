#!/usr/bin/env python3
"""Makes the answers under tests/fixtures, which tests compare with.

  tools/fixtures.py models [NAME...]    weights.json and expected.safetensors of tests/fixtures/models/NAME, from its config.json;
                                        NAME:SEED begins with that seed, where the usual one makes a model that rounding moves far
  tools/fixtures.py gguf [TYPE...]      tests/fixtures/gguf/random-TYPE.json and its expected.safetensors
  tools/fixtures.py blocks              tests/fixtures/blocks.safetensors: two blocks of each quantised type
  tools/fixtures.py weights NAME FILE   a model's weights as a safetensors file, for llama.cpp's converter
  tools/fixtures.py converted NAME SAFETENSORS GGUF   tests/fixtures/models/NAME/gguf.json, of the file that the converter made of it
  tools/fixtures.py cases [NAME...]     tests/fixtures/tokenizers/NAME/cases.json, of the texts in it
  tools/fixtures.py places              tests/fixtures/places.json, of the texts in it
  tools/fixtures.py story GGUF          tests/fixtures/gguf/stories260K-F16.gguf and its expected.safetensors
  tools/fixtures.py prediction          tests/fixtures/prediction: layers that predict further tokens, of models under tests/fixtures/models
  tools/fixtures.py torch               tests/fixtures/torch: small files of torch.save()

Only needed to make the data again, never to run tests. It needs torch, transformers and gguf. Debian testing has all three:
python3-torch, python3-transformers, python3-gguf. tools/second_driver.sh shows how a root of Debian testing is made.
tests/README.md says what the files are and how a fixture is added.
"""
import json
import math
import re
import string
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
NEW_TOKENS = 12
PATCHED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "glm4v", "glm_ocr")  # models that read pictures in their own sizes
ENCODERS = ("bert", "roberta", "distilbert", "electra", "albert", "mpnet", "nomic_bert", "modernbert", "deberta-v2", "eurobert",
            "jina_embeddings_v3")


# --- Numbers from a seed and a name; tests/support/seeded_numbers.h has the same. ---

def words(seed, name, count):
    """The first `count` outputs of splitmix64, started at the FNV-1a hash of the name, exclusive-or the seed."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    with np.errstate(over="ignore"):
        z = np.uint64(state ^ seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed, name, shape, mean, spread):
    """Numbers of mean - spread up to mean + spread. The spread is a power of two, so that one rounding is all there is."""
    assert math.frexp(spread)[0] == 0.5, f"{name}: a spread of {spread} is no power of two"
    steps = (words(seed, name, math.prod(shape)) >> np.uint64(40)).astype(np.int64) - (1 << 23)
    return (np.float32(mean) + steps.astype(np.float32) * np.float32(spread / (1 << 23))).reshape(shape)


def block_bytes(seed, name, blocks, block):
    """Random bytes for blocks of a quantised type. A field of 16 bits keeps the bits of its mask and has those of its value."""
    count = blocks * block["bytes"]
    data = words(seed, name, (count + 7) // 8).astype("<u8").view(np.uint8)[:count].reshape(blocks, block["bytes"]).copy()
    for offset, mask, value in block["fields"]:
        field = np.ascontiguousarray(data[:, offset:offset + 2]).view("<u2")
        data[:, offset:offset + 2] = (field & np.uint16(mask) | np.uint16(value)).view(np.uint8)
    return data


def check_numbers():
    """The values that tests/unit/support_seeded_numbers.cpp holds."""
    name = "layer.0.weight"
    assert words(7, name, 2).tolist() == [0x2E762D1CE6324066, 0x16DB69D566ACE289]
    assert uniform(7, name, (3,), 1, 0.25).view(np.uint32).tolist() == [0x3F573B16, 0x3F4B6DB4, 0x3F4A0CDD]
    block = {"bytes": 5, "fields": [[1, 0x3FF, 0x2000]]}
    assert block_bytes(7, name, 2, block).tobytes() == bytes.fromhex("664022e61c 2d762289e2")


def some_ids(seed, name, shape, vocabulary, first=4):
    return (first + words(seed, name, math.prod(shape)) % np.uint64(vocabulary - first)).astype(np.int64).reshape(shape)


# --- Weights that make a model whose answers move little when it is rounded. ---

NORM = re.compile(r"(norm|ln_|_ln|layernorm)[^.]*\.weight$|norm\d\.weight$|neck\.[13]\.weight$", re.IGNORECASE)
EMBEDDING = re.compile(r"embed|embd|wte|wpe|shared\.weight|cls_token|distillation_token|query_\d+\.|view_seperator|rel_pos")
EXPERTS = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}  # settings that a mixture of experts has
NORMS_ADD_ONE = ("gemma", "gemma2", "gemma3", "gemma3_text", "nemotron", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5")  # to their weights


def distribution(name, shape, config):
    """The mean and the spread of a tensor, by its name and shape."""
    if "vision_tower" in name or "visual." in name:
        config = config["vision_config"]  # whose norms and embeddings are as others'
    if NORM.search(name):
        return (0 if config["model_type"] in NORMS_ADD_ONE and "linear_attn" not in name else 1), 0.25
    if name.endswith(("lambda1", "lambda_1", "lambda_2", "running_var")):
        return 1, 0.25
    if name.endswith("running_mean"):
        return 0, 0.25
    if name.endswith(("layer_scalar", "router.scale", "per_expert_scale", "std_scale")):
        return 1, 0.25
    if name.endswith(("put_min", "put_max")):  # limits that some numbers are beyond
        return (1.5 if name.endswith("max") else -1.25), 0.25
    if name.endswith("std_bias"):
        return 0, 0.5
    if name.endswith("position_embedding_table"):
        return 0, 0.25
    if name.endswith("final_logits_bias"):
        return 0, 0.5
    if "relative_attention_bias" in name or "relative_position_bias" in name:
        return 0, 1
    if name.endswith("bias") or ".bias_" in name:
        return 0, 0.125
    if name.endswith("embed_tokens_per_layer.weight"):
        return 0, 0.25
    if name.endswith("altup.correct_output_scale"):
        return 1, 0.25
    if name.endswith("altup.modality_router.weight"):  # what it reads is divided by the width
        return 0, 2.0 ** round(math.log2(math.sqrt(3 * shape[1])))
    if name.endswith(("altup.prediction_coefs.weight", "altup.correction_coefs.weight")):
        return 0, 0.25
    if name.endswith("per_dim_scale"):
        return 0, 1
    if EMBEDDING.search(name) and "proj" not in name:
        return 0, 0.03125 if config["model_type"].startswith(("gemma", "minicpm3")) else 0.25  # which scale them
    if name.endswith((".A_log", "mixer.D", "mamba.D")):
        return 0.5, 1
    if name.endswith((".alpha_p", ".alpha_n", ".beta")):  # xIELU's
        return 0.5, 0.25
    if name.endswith("act_fn.eps"):
        return 0, 2.0 ** -20
    if name.endswith(".alpha"):  # a snake's
        return 1, 0.5
    if name.endswith("sinks"):
        return 0, 1
    if name.endswith("weight.original0"):
        return 1, 0.25
    if name.endswith("logit_scale"):
        return 2, 0.25
    if name.endswith("mm_input_projection_weight"):  # [columns, rows]
        return 0, 2.0 ** round(math.log2(math.sqrt(3 / shape[0])))
    if name.endswith(("class_embedding", "masked_spec_embed", "probe")):
        return 0, 0.25
    if config["model_type"] == "dac" and name.endswith("conv2.weight"):  # what residual units and the last tangent get
        return 0, 2.0 ** round(math.log2(math.sqrt(3 / math.prod(shape[1:])))) / 4
    assert len(shape) > 1, f"no rule for {name} of shape {shape}"
    if config["model_type"] == "t5" and re.search(r"Attention\.[qk]\.", name):
        return 0, 0.125  # T5 does not scale its scores
    transposed = "gpt2" in json.dumps(config) and re.search(r"\.(c_attn|q_attn|c_proj|c_fc)\.", name)
    columns = shape[1] if re.search(r"experts\.\w+_proj$", name) else shape[0] if transposed else math.prod(shape[1:])
    return 0, 2.0 ** round(math.log2(math.sqrt(3 / columns)))


def write_weights_json(folder, seed, shapes):
    write_description(folder / "weights.json", seed, shapes, json.loads((folder / "config.json").read_text()))


def write_description(path, seed, shapes, config):
    lines = []
    for name, shape in sorted(shapes.items()):
        mean, spread = distribution(name, shape, config)
        lines.append(json.dumps({"name": name, "shape": shape, "mean": mean, "spread": spread}))
    text = ",\n  ".join(lines)
    path.write_text(f'{{"seed": {seed}, "tensors": [\n  {text}]}}\n')


def read_weights(folder):
    return described_weights(folder / "weights.json")


def described_weights(path):
    description = json.loads(path.read_text())
    return {t["name"]: uniform(description["seed"], t["name"], t["shape"], t["mean"], t["spread"])
            for t in description["tensors"]}


# --- Whole models. ---

def numpy_of(tensor):
    array = tensor.detach().cpu().numpy()
    return np.ascontiguousarray(array.astype(np.float32) if array.dtype.kind == "f" else array)


def likeliest(logits):
    """The likeliest token, and its lead over the next in units of the logits' root mean square."""
    best, second = logits.topk(2).values.tolist()
    return int(logits.argmax()), (best - second) / float(logits.pow(2).mean().sqrt())


def continue_greedily(next_logits, ids):
    """The likeliest tokens one after the other, whatever ends a text, and the smallest lead that one had."""
    import torch
    leads, count = [], ids.shape[1]
    for _ in range(NEW_TOKENS):
        token, lead = likeliest(next_logits(ids))
        leads.append(lead)
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    return ids[:, count:], min(leads)


def text_inputs(seed, config, batch=2, tokens=24):
    """Ids, of which the second row is shorter, and what the mask says of them."""
    import torch
    ids = some_ids(seed, "input_ids", (batch, tokens), min(config["vocab_size"], 319))
    mask = np.ones_like(ids)
    mask[1:, tokens - 7:] = 0
    ids[mask == 0] = config["pad_token_id"]
    return torch.tensor(ids), torch.tensor(mask)


def decoder_answers(model, config, seed):
    import torch
    vocabulary = min(config["vocab_size"], config.get("vocab_size_per_layer_input", config["vocab_size"]))
    ids = torch.tensor(some_ids(seed, "input_ids", (1, 24), vocabulary))
    out = model(input_ids=ids, output_hidden_states=True, output_attentions=True, use_cache=False)
    answers = {"input_ids": ids, "logits": out.logits, "prompt_ids": ids[:, :8]}
    if getattr(out, "attentions", None):  # models without attention have none
        answers["attentions.0"] = out.attentions[0]
    for i, states in enumerate(out.hidden_states):
        if states.ndim == 4:  # Gemma 3n's streams, side by side
            states = states.movedim(0, -2).flatten(-2)
        answers[f"hidden_states.{i}"] = states
    if config["model_type"] == "gemma3n_text":  # with its last norm, as others have it
        answers[f"hidden_states.{i}"] = model.model(input_ids=ids, use_cache=False).last_hidden_state
    answers["generated_ids"], lead = continue_greedily(
        lambda ids: model(input_ids=ids, use_cache=False).logits[0, -1], ids[:, :8])
    return answers, lead


def encoder_answers(model, config, seed):
    import torch
    ids, mask = text_inputs(seed, config)
    answers = {"input_ids": ids, "attention_mask": mask}
    if config["model_type"] in ("bert", "electra", "albert"):
        answers["token_type_ids"] = torch.zeros_like(ids)
        answers["token_type_ids"][:, 13:] = 1
    logits = model(**answers).logits if hasattr(model, "num_labels") and hasattr(model, "classifier") else None
    if logits is not None:
        model = model.base_model
    out = model(**answers, output_attentions=True)
    states = out.last_hidden_state * mask[..., None]
    normalised = torch.nn.functional.normalize
    answers |= {"last_hidden_state": states, "attentions.0": out.attentions[0],
                "sentence_embedding_mean": normalised(states.sum(1) / mask.sum(1, keepdim=True)),
                "sentence_embedding_cls": normalised(states[:, 0])}
    if out.get("pooler_output") is not None:
        answers["pooler_output"] = out.pooler_output
    if logits is not None:
        answers["logits"] = logits
    return answers, math.inf


def masked_answers(model, config, seed):
    """Of a masked language model: the logits of each token, and of SPLADE what is left of them, but for its logarithm."""
    import torch
    ids, mask = text_inputs(seed, config)
    answers = {"input_ids": ids, "attention_mask": mask}
    if config["model_type"] in ("bert", "albert"):
        answers["token_type_ids"] = torch.zeros_like(ids)
        answers["token_type_ids"][:, 13:] = 1
    logits = model(**answers).logits * mask[..., None]
    return answers | {"logits": logits, "sparse_embedding": torch.relu(logits).amax(1)}, math.inf


def token_answers(model, config, seed):
    """Of a model that labels each token, or finds where an answer begins and ends: the logits of each token."""
    import torch
    ids, mask = text_inputs(seed, config)
    answers = {"input_ids": ids, "attention_mask": mask}
    if config["model_type"] in ("bert", "electra", "albert"):
        answers["token_type_ids"] = torch.zeros_like(ids)
        answers["token_type_ids"][:, 13:] = 1
    out = model(**answers)
    logits = out.logits if "logits" in out else torch.stack([out.start_logits, out.end_logits], -1)
    return answers | {"logits": logits * mask[..., None]}, math.inf


def text_tokenizer(name):
    """A tokenizer of tests/fixtures/tokenizers as transformers has it, with the names that its kind of model uses."""
    import transformers
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"} if name.startswith("bert") else \
        {"unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(FIXTURES / "tokenizers" / name / "tokenizer.json"), **names)


def fill_spans(model, path):
    """What the reference's pipeline finds in the texts of spans.json; of answers, what the one it had up to version 4 did."""
    import transformers
    spans = json.loads(path.read_text())
    tokenizer = text_tokenizer(spans["tokenizer"])
    if "texts" in spans:
        find = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple")
        for each in spans["texts"]:
            each["spans"] = [{"label": one["entity_group"], "score": float(one["score"]), "start": int(one["start"]), "end": int(one["end"])}
                             for one in find(each["text"])]
    else:
        for each in spans["questions"]:
            each["answers"] = found_answers(model, tokenizer, each["question"], spans["text"], spans["max_tokens"])
    path.write_text(json.dumps(spans, ensure_ascii=False, indent=1) + "\n")


def found_answers(model, tokenizer, question, text, max_tokens, most=15, top=3):
    """The best answers of all windows; a window's first token stands for none, and answers are whole words. Windows are cut here:
    transformers leaves out the end of a text that needs more than two."""
    import torch
    whole = tokenizer(text, add_special_tokens=False)
    before = [tokenizer.cls_token_id, *tokenizer(question, add_special_tokens=False).input_ids, *[tokenizer.sep_token_id] * 2]
    room = max_tokens - len(before) - 1
    best = {}
    for begin in range(0, len(whole.input_ids), room - min(128, room // 2)):
        ids = before + whole.input_ids[begin:begin + room] + [tokenizer.sep_token_id]
        out = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones((1, len(ids)), dtype=torch.int64))
        seen = torch.tensor([i == 0 or len(before) <= i < len(ids) - 1 for i in range(len(ids))])
        starts, ends = (torch.softmax(torch.where(seen, logits, torch.tensor(-1e4, dtype=logits.dtype)), 0).numpy()
                        for logits in (out.start_logits[0], out.end_logits[0]))
        for first in range(len(before), len(ids) - 1):
            for last in range(first, min(first + most, len(ids) - 1)):
                place = [whole.word_to_chars(whole.token_to_word(begin + i - len(before))) for i in (first, last)]
                answer = place[0][0], place[1][1]
                best[answer] = max(best.get(answer, 0), float(starts[first] * ends[last]))
        if begin + room >= len(whole.input_ids):
            break
    ranked = sorted(best.items(), key=lambda one: -one[1])[:top]
    return [{"score": score, "start": start, "end": end} for (start, end), score in ranked]


def late_answers(model, config, seed, folder):
    """Of a model that compares texts token by token: its states, and in late.json the scores of texts for a query."""
    import torch
    path = folder / "late.json"
    late = json.loads(path.read_text())
    tokenizer = text_tokenizer(late["tokenizer"])
    normalised = torch.nn.functional.normalize
    dense = torch.tensor(uniform(seed, "linear.weight", (late["columns"], config["hidden_size"]), 0, 0.25)).double()

    def vectors(text, prefix, most, fill):
        ids = tokenizer(text, truncation=True, max_length=most - 1).input_ids
        ids.insert(1, tokenizer.convert_tokens_to_ids(prefix))
        mask = [1] * len(ids)
        if fill:
            ids += [tokenizer.convert_tokens_to_ids("[MASK]")] * (most - len(ids))
            mask += [0] * (most - len(mask))
        states = model(input_ids=torch.tensor([ids]), attention_mask=torch.tensor([mask])).last_hidden_state[0]
        return ids, normalised(states @ dense.T, dim=-1)

    query = vectors(late["query"], late["query_prefix"], late["query_length"], True)[1]
    skipped = {tokenizer.convert_tokens_to_ids(mark) for mark in string.punctuation} - {tokenizer.unk_token_id}
    late["seed"], late["scores"] = seed, []
    for text in late["texts"]:
        ids, own = vectors(text, late["document_prefix"], late["document_length"], False)
        own = own[torch.tensor([token not in skipped for token in ids])]
        late["scores"].append(float((query @ own.T).amax(1).sum()))
    path.write_text(json.dumps(late, indent=1) + "\n")
    ids, mask = text_inputs(seed, config)
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
    return {"input_ids": ids, "attention_mask": mask, "last_hidden_state": states}, math.inf


def image_answers(model, config, seed):
    import torch
    pixels = torch.tensor(uniform(seed, "pixel_values", (2, 3, config["image_size"], config["image_size"]), 0, 1)).double()
    out = model(pixel_values=pixels, output_attentions=True)
    whole = model.base_model(pixel_values=pixels)
    answers = {"pixel_values": pixels, "logits": out.logits, "last_hidden_state": whole.last_hidden_state,
               "attentions.0": out.attentions[0]}
    if whole.pooler_output is not None:
        answers["pooler_output"] = whole.pooler_output
    return answers, math.inf


def picture_answers(model, config, seed):
    """Of an encoder of pictures without classes."""
    import torch
    size = config["image_size"]
    pixels = torch.tensor(uniform(seed, "pixel_values", (2, 3, size, size), 0, 1)).double()
    out = model(pixel_values=pixels, output_attentions=True)
    return {"pixel_values": pixels, "last_hidden_state": out.last_hidden_state, "pooler_output": out.pooler_output,
            "attentions.0": out.attentions[0]}, math.inf


def pair_answers(model, config, seed):
    """Of texts and pictures in one space. SigLIP's texts have the full length."""
    import torch
    text, size = config["text_config"], config["vision_config"]["image_size"]
    pixels = torch.tensor(uniform(seed, "pixel_values", (2, 3, size, size), 0, 1)).double()
    length = text["max_position_embeddings"] if config["model_type"] == "siglip" else 12
    ids = some_ids(seed, "input_ids", (3, length), text["vocab_size"])
    ids[:, -1] = text["eos_token_id"]
    if config["model_type"] == "clip":
        ids[1, 7], ids[1, 8:] = text["eos_token_id"], text["pad_token_id"]
    out = model(input_ids=torch.tensor(ids), pixel_values=pixels)
    return {"input_ids": torch.tensor(ids), "pixel_values": pixels, "text_embeds": out.text_embeds,
            "image_embeds": out.image_embeds, "logits_per_image": out.logits_per_image}, math.inf


def letter_answers(model, config, seed):
    """Of a sound's samples, with a head for letters."""
    import torch
    values = torch.tensor(uniform(seed, "input_values", (1, 4000), 0, 1)).double()
    out = model(input_values=values)
    return {"input_values": values, "logits": out.logits,
            "last_hidden_state": model.wav2vec2(values).last_hidden_state}, math.inf


def spectrum_of(samples, settings):
    """What ParakeetFeatureExtractor, which needs librosa, makes of a sound, in 64 bits: features, and how many frames count."""
    from transformers.audio_utils import mel_filter_bank
    size, window, hop = settings["n_fft"], settings["win_length"], settings["hop_length"]
    emphasised = np.concatenate([samples[:1], samples[1:] - settings["preemphasis"] * samples[:-1]])
    padded = np.pad(emphasised, size // 2)
    hann = np.pad(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / (window - 1)), (size - window) // 2)
    frames = np.stack([padded[at:at + size] * hann for at in range(0, len(samples) + 1, hop)])
    filters = mel_filter_bank(size // 2 + 1, settings["feature_size"], 0, settings["sampling_rate"] / 2, settings["sampling_rate"],
                              norm="slaney", mel_scale="slaney")
    bands = np.log(np.abs(np.fft.rfft(frames)) ** 2 @ filters + 2.0 ** -24)
    own = bands[:len(samples) // hop]
    features = np.zeros_like(bands)
    features[:len(own)] = (own - own.mean(0)) / (own.std(0, ddof=1) + 1e-5)
    return features, len(own)


def spoken_answers(model, config, seed, folder):
    """Of a sound's samples, with a head for parts of words or a transducer."""
    import torch
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    values = uniform(seed, "input_values", (1, 5000 if config["model_type"] == "parakeet_rnnt" else 20001), 0, 0.5)
    features, count = spectrum_of(values[0].astype(np.float64), settings)
    given = {"input_features": torch.tensor(features)[None], "attention_mask": torch.arange(len(features))[None] < count}
    states = model.encoder(**given).last_hidden_state
    states = states[:, :int(model._get_subsampling_output_length(torch.tensor([count])))]
    answers = {"input_values": torch.tensor(values), "last_hidden_state": states}
    if config["model_type"] == "parakeet_ctc":
        answers["logits"] = model.ctc_head(states.transpose(1, 2)).transpose(1, 2)
        tokens, leads = zip(*map(likeliest, answers["logits"][0]))
        heard = [token for token, before in zip(tokens, (config["pad_token_id"], *tokens)) if token not in (before, config["pad_token_id"])]
        answers["generated_ids"] = torch.tensor([heard])
        return answers, min(leads)
    answers["transducer_frames"] = model.encoder_projector(states)
    answers["generated_ids"], answers["heard_frames"], lead = transduce(model, config, answers["transducer_frames"])
    return answers, lead


def transduce(model, config, frames):
    """The likeliest tokens of a transducer, the frames that they were heard in, and the smallest lead."""
    import torch
    from transformers.models.parakeet.generation_parakeet import ParakeetRNNTDecoderCache
    cache, token, at, symbols, ids, places, leads = ParakeetRNNTDecoderCache(model.config), config["blank_token_id"], 0, 0, [], [], []
    while at < frames.shape[1]:
        text = model.decoder(torch.tensor([[token]]), cache=cache)
        scores = model.joint(encoder_hidden_states=frames[:, at, None], decoder_hidden_states=text)[0, -1]
        token, lead = likeliest(scores[:config["vocab_size"]])
        leads.append(lead)
        blank = token == config["blank_token_id"]
        further = int(blank)
        if "durations" in config:
            place, lead = likeliest(scores[config["vocab_size"]:])
            leads.append(lead)
            further = max(config["durations"][place], further)
        if not blank:
            ids.append(token)
            places.append(at)
            symbols += further == 0
            further = max(further, int(symbols >= config["max_symbols_per_step"]))
        symbols = 0 if further else symbols
        at += further
    return torch.tensor([ids]), torch.tensor([places]), min(leads)


def coded_answers(model, config, seed):
    """The samples that a codec makes of codes, and of the first of their frames. A frame is a token for each codebook in turn."""
    import torch
    books, codes = config["n_codebooks"], config["codebook_size"]
    ids = torch.tensor(some_ids(seed, "audio_codes", (1, books, 60), codes, 0))
    numbers = (ids + codes * torch.arange(books)[None, :, None]).transpose(1, 2).reshape(1, -1)
    return {"input_ids": numbers, "samples": model.decode(audio_codes=ids).audio_values,
            "first_samples": model.decode(audio_codes=ids[:, :, :9]).audio_values}, math.inf


def class_answers(model, config, seed):
    """Of pictures of a size that the config does not say."""
    import torch
    pixels = torch.tensor(uniform(seed, "pixel_values", (2, 3, 64, 64), 0, 1)).double()
    return {"pixel_values": pixels, "logits": model(pixel_values=pixels).logits}, math.inf


def picture_text_answers(model, config, seed):
    """Of a text with a picture in it, and what follows it."""
    import torch
    vision, token = config["vision_config"], config["image_token_index"]
    pixels = torch.tensor(uniform(seed, "pixel_values", (1, 3, vision["image_size"], vision["image_size"]), 0, 1)).double()
    patches = (vision["image_size"] // vision["patch_size"]) ** 2
    ids = some_ids(seed, "input_ids", (1, patches + 12), token)
    ids[:, 3:3 + patches] = token
    ids = torch.tensor(ids)
    answers = {"input_ids": ids, "pixel_values": pixels,
               "logits": model(input_ids=ids, pixel_values=pixels, use_cache=False).logits}

    def next_logits(ids):
        logits = model(input_ids=ids, pixel_values=pixels, use_cache=False).logits[0, -1].clone()
        logits[token] = logits.min()  # would be taken for another picture
        return logits
    answers["generated_ids"], lead = continue_greedily(next_logits, ids)
    return answers, lead


def picture(height, width):
    """A picture; tests/support/pattern.h has the same."""
    i = np.arange(height * width * 3, dtype=np.int64)
    return ((i * i * 7 + i * 13) % 251).astype(np.uint8).reshape(height, width, 3)


def prepared(folder, kind, image, **extra):
    """What the reference makes of a picture, by PIL; by torchvision it has to be the same but for rounding."""
    import transformers
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    by_pil = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    by_torch = getattr(transformers, f"{kind}ImageProcessor")(**settings)
    from PIL import Image
    given, wanted = Image.fromarray(image), ("pixel_values", "image_grid_thw", "image_sizes", "rows", "cols", "num_crops", "image_position_ids", "target_sizes", "grids")
    made = by_pil(given, return_tensors="pt", **extra)
    other = by_torch(given, return_tensors="pt", **extra)
    print(f"{kind}: PIL and torchvision differ by", float((made["pixel_values"] - other["pixel_values"]).abs().max()))
    return {name: made[name] for name in wanted if name in made}


def continued_picture_prompt(model, given, token):
    """The logits of a prompt with pictures in it, and what follows it."""
    def logits(ids):
        return model(**(given | {"input_ids": ids}), use_cache=False).logits
    answers, another = given | {"logits": logits(given["input_ids"])}, []

    def next_logits(ids):
        last = logits(ids)[0, -1].clone()
        if int(last.argmax()) == token:
            another.append(token)
        last[token] = last.min()  # would be taken for another picture
        return last
    answers["generated_ids"], lead = continue_greedily(next_logits, given["input_ids"])
    return answers, 0 if another else lead


def tiled_picture_answers(model, config, seed):
    """Of a text with a picture that is cut into tiles, whose tokens are 311 (around), 312 (whole) and 313 on (tiles)."""
    import torch
    token, vision = config["image_token_id"], config["vision_config"]
    made = prepared(FIXTURES / "models" / "smolvlm", "SmolVLM", picture(29, 61), return_row_col_info=True)
    rows, columns = made["rows"][0][0], made["cols"][0][0]
    pictures = [token] * (vision["image_size"] // vision["patch_size"] // config["scale_factor"]) ** 2
    shown = [id for tile in range(rows * columns) for id in [311, 313 + tile, *pictures]] + [311, 312, *pictures, 311]
    words = some_ids(seed, "input_ids", (9,), 310).tolist()
    ids = torch.tensor([words[:5] + shown + words[5:]])
    return continued_picture_prompt(model, {"input_ids": ids, "pixel_values": made["pixel_values"].double()}, token)


def whole_picture_answers(model, config, seed):
    """Of a text with two pictures, between tokens 310 and 311, whose rows see all of their picture."""
    import torch
    token = config["image_token_index"]
    folder = FIXTURES / "models" / "gemma3-vision"
    pictures = [prepared(folder, "Gemma3", picture(*size))["pixel_values"] for size in ((29, 61), (17, 33))]
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    shown = [310] + [token] * config["mm_tokens_per_image"] + [311]
    ids = torch.tensor([words[:5] + shown + words[5:9] + shown + words[9:]])

    class Typed:  # tells which tokens are pictures
        def __call__(self, input_ids, **given):
            return model(input_ids=input_ids, token_type_ids=(input_ids == token).long(), **given)
    given = {"input_ids": ids, "pixel_values": torch.cat(pictures).double()}
    return continued_picture_prompt(Typed(), given, token)


def filled_picture_answers(model, config, seed, folder):
    """Of a text with two pictures of different sizes, between tokens 310 and 311, whose patches are squares row by row."""
    import torch
    from transformers.models.gemma4 import image_processing_gemma4, image_processing_pil_gemma4
    token, vision = config["image_token_id"], config["vision_config"]
    merge, patch = vision["pooling_kernel_size"], vision["patch_size"]
    for module in (image_processing_gemma4, image_processing_pil_gemma4):  # which knows five numbers of rows, all of them large
        module._SUPPORTED_SOFT_TOKENS = (json.loads((folder / "preprocessor_config.json").read_text())["max_soft_tokens"],)
    made = [prepared(folder, "Gemma4", picture(*size)) for size in ((29, 61), (33, 17))]
    places = [each["image_position_ids"][0] for each in made]
    own = [each["pixel_values"][0][place[:, 0] >= 0] for each, place in zip(made, places)]
    grids = [(place.amax(0) + 1).flip(0) for place in places]
    rows, shown = [], []
    for values, (lines, line) in zip(own, [(grid // merge).tolist() for grid in grids]):
        squares = values.reshape(lines, merge, line, merge, patch * patch, 3).permute(0, 2, 1, 3, 5, 4)
        rows.append(2 * squares.reshape(-1, 3 * patch * patch) - 1)
        shown.append([310] + [token] * (lines * line) + [311])
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])
    reference = {"pixel_values": torch.cat([each["pixel_values"] for each in made]).double(), "image_position_ids": torch.stack(places)}

    class Typed:  # reads pictures as the processor gives them, and tells which tokens they are
        def __call__(self, input_ids, pixel_values, image_grid_thw, **given):
            return model(input_ids=input_ids, mm_token_type_ids=(input_ids == token).int(), **reference, **given)
    sizes = torch.cat([torch.ones(2, 1, dtype=torch.long), torch.stack(grids)], 1)
    given = {"input_ids": ids, "pixel_values": torch.cat(rows).double(), "image_grid_thw": sizes}
    answers, lead = continued_picture_prompt(Typed(), given, token)
    features = model.model.get_image_features(**reference).pooler_output
    return answers | {"image_features": features}, lead


def patched_picture_answers(model, config, seed):
    """Of a text with two pictures of different sizes, between tokens 310 and 311."""
    import torch
    token, merge = config["image_token_id"], config["vision_config"]["spatial_merge_size"]
    folder = FIXTURES / "models" / config["model_type"].replace("_", "-").replace("qwen3-5", "qwen3-5-vl")
    kind = {"glm4v": "Glm4v", "glm_ocr": "Glm46V"}.get(config["model_type"], "Qwen2VL")
    pictures = [prepared(folder, kind, picture(*size)) for size in ((29, 61), (17, 33))]
    shown = [[310] + [token] * (int(each["image_grid_thw"].prod()) // merge ** 2) + [311] for each in pictures]
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])

    class Typed:  # tells which tokens are pictures
        def __call__(self, input_ids, **given):
            return model(input_ids=input_ids, mm_token_type_ids=(input_ids == token).int(), **given)
    given = {"input_ids": ids, "pixel_values": torch.cat([each["pixel_values"] for each in pictures]).double(),
             "image_grid_thw": torch.cat([each["image_grid_thw"] for each in pictures])}
    answers, lead = continued_picture_prompt(Typed(), given, token)
    features = model.model.get_image_features(given["pixel_values"], given["image_grid_thw"])
    deep = features.get("deepstack_features") or []
    return answers | {"image_features": torch.cat([torch.cat(list(features.pooler_output)), *deep], -1)}, lead


def sliced_picture_answers(model, config, seed, folder):
    """Of a text with a picture in slices, whose tokens are 312 and 313 (around slices), and a small one, both between 310 and 311
    behind their number, 316 or 317, between 314 and 315. Patches are squares row by row."""
    import torch
    token, patch, square = config["image_token_id"], config["vision_config"]["patch_size"], 2 if config.get("downsample_mode") == "4x" else 4
    made = [prepared(folder, "MiniCPMV4_6", picture(*size)) for size in ((29, 61), (17, 33))]
    sizes, packed = [torch.cat([each[name] for each in made], at) for name, at in (("target_sizes", 0), ("pixel_values", 3))]
    patches = packed[0].unflatten(-1, (-1, patch)).permute(2, 0, 1, 3).split(sizes.prod(-1).tolist())
    rows = [own.reshape(down // square, square, across // square, square, -1).transpose(1, 2).reshape(-1, 3 * patch ** 2)
            for own, (down, across) in zip(patches, sizes.tolist())]
    shown = []
    for number, each in enumerate(made):
        whole, *slices = [[token] * (count // square ** 2) for count in each["target_sizes"].prod(-1).tolist()]
        assert each["grids"][0][0] < 2  # there is no token for what is between lines of slices
        shown.append([314, 316 + number, 315, 310, *whole, 311, *(id for own in slices for id in [312, *own, 313])])
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])
    packed = packed.double()

    class Packed:  # reads pictures as the processor gives them
        def __call__(self, input_ids, pixel_values, image_grid_thw, **given):
            return model(input_ids=input_ids, pixel_values=packed, target_sizes=sizes, **given)
    grids = torch.cat([torch.ones(len(sizes), 1, dtype=torch.long), sizes], 1)
    given = {"input_ids": ids, "pixel_values": torch.cat(rows).double(), "image_grid_thw": grids}
    answers, lead = continued_picture_prompt(Packed(), given, token)
    return answers | {"image_features": torch.cat(list(model.model.get_image_features(packed, sizes).pooler_output))}, lead


def lined_picture_answers(model, config, seed, folder):
    """Of a text with two pictures of different sizes. Token 318 ends a line and 317 the last one, but of LightOnOCR."""
    import torch
    token = config.get("image_token_index", config.get("image_token_id"))
    patch, merge = config["vision_config"]["patch_size"], config.get("spatial_merge_size", 1)
    edge = {"height": patch * merge, "width": patch * merge}
    made = [prepared(folder, "Pixtral", picture(*size), patch_size=edge) for size in ((29, 61), (17, 33))]
    sizes = torch.cat([torch.as_tensor(each["image_sizes"]) for each in made])
    largest = sizes.amax(0)
    padded = torch.cat([torch.nn.functional.pad(each["pixel_values"], (0, int(largest[1] - width), 0, int(largest[0] - height)))
                        for each, (height, width) in zip(made, sizes.tolist())]).double()
    rows, shown = [], []
    for each, (height, width) in zip(made, sizes.tolist()):
        lines, line = height // patch // merge, width // patch // merge
        squares = each["pixel_values"].reshape(3, lines, merge, patch, line, merge, patch).permute(1, 4, 2, 5, 0, 3, 6)
        rows.append(squares.reshape(-1, 3 * patch * patch))
        ends = ([], []) if config["model_type"] == "lighton_ocr" else ([318], [317])
        shown.append(([token] * line + ends[0]) * (lines - 1) + [token] * line + ends[1])
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])

    class Padded:  # reads pictures as planes
        def __call__(self, input_ids, pixel_values, image_grid_thw, **given):
            return model(input_ids=input_ids, pixel_values=padded, image_sizes=sizes, **given)
    grids = torch.cat([torch.ones(2, 1, dtype=torch.long), sizes // patch], 1)
    given = {"input_ids": ids, "pixel_values": torch.cat(rows).double(), "image_grid_thw": grids}
    return continued_picture_prompt(Padded(), given, token)


def proportional_picture_answers(model, config, seed, folder):
    """Of a text with a picture in tiles and one that is a tile itself, each between tokens 317 and 318."""
    import torch
    token, vision = config["image_token_id"], config["vision_config"]
    side = round(vision["image_size"][0] // vision["patch_size"][0] * config["downsample_ratio"])
    pictures = [prepared(folder, "GotOcr2", picture(*size), crop_to_patches=True)["pixel_values"] for size in ((29, 61), (23, 25))]
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    shown = [[317] + [token] * (len(each) * side * side) + [318] for each in pictures]
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])
    return continued_picture_prompt(model, {"input_ids": ids, "pixel_values": torch.cat(pictures).double()}, token)


def queried_picture_answers(model, config, seed, folder):
    """Of a text with a picture in tiles, then the whole, and one that is not cut."""
    import torch
    from PIL import Image
    token, settings = config["image_token_id"], json.loads((folder / "preprocessor_config.json").read_text())
    from transformers import DeepseekOcr2ImageProcessorPil
    made = DeepseekOcr2ImageProcessorPil(**settings)([Image.fromarray(picture(*size)) for size in ((29, 61), (23, 17))], return_tensors="pt")
    rows = {edge: (edge // config["vision_config"]["sam_config"]["patch_size"] // 4) ** 2 for edge in (settings["tile_size"], settings["size"]["height"])}
    shown = [[token] * (rows[settings["tile_size"]] * int(tiles) + rows[settings["size"]["height"]] + 1) for tiles in made["num_local_patches"]]
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    ids = torch.tensor([words[:5] + shown[0] + words[5:9] + shown[1] + words[9:]])
    given = {"input_ids": ids, "pixel_values": made["pixel_values"].double(), "pixel_values_local": made["pixel_values_local"].double(),
             "num_local_patches": torch.as_tensor(made["num_local_patches"])}
    return continued_picture_prompt(model, given, token)


def sound(count):
    """So many samples of three tones and noise."""
    time = np.arange(count) / 16000
    audio = 0.3 * np.sin(2 * np.pi * 220 * time) + 0.2 * np.sin(2 * np.pi * (900 + 600 * time) * time)
    return (audio * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time)) + 0.05 * uniform(1, "noise", (count,), 0, 1)).astype(np.float32)


def heard_answers(model, config, seed, folder):
    """Of a text with sounds: between tokens 317 and 318 two of which one is cut off (Qwen2-Audio), behind 318 one of two windows (Voxtral)."""
    import torch
    from transformers import WhisperFeatureExtractor
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    words = some_ids(seed, "input_ids", (14,), 310).tolist()
    audio = sound(extractor.n_samples * 6 // 5)
    if config["model_type"] == "voxtral":
        token = config["audio_token_id"]
        made = extractor(audio, sampling_rate=16000, padding=True, truncation=False, pad_to_multiple_of=extractor.n_samples,
                         return_tensors="np").input_features
        given = {"input_features": torch.tensor(made.reshape(extractor.feature_size, -1, extractor.nb_max_frames).swapaxes(0, 1).copy()).double()}
        stacked = config["audio_config"]["intermediate_size"] // config["audio_config"]["hidden_size"]
        ids = words[:5] + [318] + [token] * (len(given["input_features"]) * extractor.nb_max_frames // 2 // stacked) + words[5:]
    else:
        token, ids = config["audio_token_index"], words[:5]
        made = extractor([audio[:len(audio) * 7 // 12], audio], sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="np")
        given = {"input_features": torch.tensor(made.input_features).double(), "feature_attention_mask": torch.tensor(made.attention_mask).long()}
        for frames in given["feature_attention_mask"].sum(-1).tolist():
            ids += [317] + [token] * (((frames - 1) // 2 - 1) // 2 + 1) + [318] + words[5:9]
        ids += words[9:]
    answers, lead = continued_picture_prompt(model, {"input_ids": torch.tensor([ids])} | given, token)
    return answers | {"audio_16khz": torch.tensor(audio)[None]}, lead


def sounded_answers(model, config, seed, folder):
    """Of a text with a sound between tokens 309 and 315, which is shorter than what the model hears."""
    import torch
    from transformers import Gemma3nAudioFeatureExtractor
    extractor = Gemma3nAudioFeatureExtractor.from_pretrained(folder)
    words = some_ids(seed, "input_ids", (14,), 309).tolist()
    audio, token = sound(9001), config["audio_token_id"]
    made = extractor([audio], return_tensors="pt")
    given = {"input_features": made.input_features.double(), "input_features_mask": made.input_features_mask}
    ids = words[:5] + [309] + [token] * config["audio_soft_tokens_per_image"] + [315] + words[5:]
    answers, lead = continued_picture_prompt(model, {"input_ids": torch.tensor([ids])} | given, token)
    tower = model.model.get_audio_features(given["input_features"], ~given["input_features_mask"])
    kept = ("input_ids", "logits", "generated_ids")
    return {name: answers[name] for name in kept} | {"audio_16khz": torch.tensor(audio)[None], "audio_features": tower.pooler_output}, lead


def without_pictures():
    """Gemma 3n's encoder of pictures has 300 million numbers, whatever its settings."""
    import torch
    from transformers.models.gemma3n import modeling_gemma3n
    made = modeling_gemma3n.AutoModel.from_config
    modeling_gemma3n.AutoModel = type("AutoModel", (), {"from_config": staticmethod(
        lambda config: torch.nn.Identity() if config.model_type == "gemma3n_vision" else made(config))})


def sound_inputs(folder):
    """A second of a sound, and its features."""
    import torch
    from transformers import WhisperFeatureExtractor
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    audio = sound(16000)
    features = extractor(audio, sampling_rate=16000, return_tensors="np").input_features
    return torch.tensor(audio), torch.tensor(features)


def translator_answers(model, config, seed, folder):
    """Of an encoder with a decoder, whatever it reads."""
    import torch
    answers, decoder = {}, config.get("decoder", config.get("text_config", config))
    start, rows = (config | decoder)["decoder_start_token_id"], 1
    if config["model_type"] == "whisper":
        answers["audio_16khz"], answers["input_features"] = sound_inputs(folder)
        given = {"input_features": answers["input_features"].double()}
    elif config["model_type"] == "moonshine":
        answers["input_values"] = torch.tensor(uniform(seed, "input_values", (1, 16000), 0, 1)).double()
        given = {"input_values": answers["input_values"]}
    elif config["model_type"] == "vision-encoder-decoder":
        size = config["encoder"]["image_size"]
        height, width = size if isinstance(size, list) else (size, size)
        answers["pixel_values"] = torch.tensor(uniform(seed, "pixel_values", (1, 3, height, width), 0, 1)).double()
        given = {"pixel_values": answers["pixel_values"]}
    elif config["model_type"] == "florence2":
        rows, size = 2, json.loads((folder / "preprocessor_config.json").read_text())["size"]
        pixels = torch.tensor(uniform(seed, "pixel_values", (rows, 3, size["height"], size["width"]), 0, 1)).double()
        ids, mask = text_inputs(seed, decoder, tokens=12)
        picture = torch.full((rows, model.get_image_features(pixels).pooler_output.shape[1]), config["image_token_id"])
        answers |= {"input_ids": torch.cat([picture, ids], 1), "attention_mask": torch.cat([torch.ones_like(picture), mask], 1), "pixel_values": pixels}
        given = dict(answers)
    else:
        rows = 2
        answers["input_ids"], answers["attention_mask"] = text_inputs(seed, config)
        given = dict(answers)
    forced = some_ids(seed, "decoder_input_ids", (rows, 9), min(decoder["vocab_size"], 319))
    forced[:, 0] = start
    answers["decoder_input_ids"] = torch.tensor(forced)
    out = model(**given, decoder_input_ids=answers["decoder_input_ids"], output_attentions=True, use_cache=False)
    states = out.encoder_last_hidden_state
    answers["encoder_last_hidden_state"] = states * given["attention_mask"][..., None] if rows > 1 else states
    answers["logits"], answers["cross_attentions.0"] = out.logits, out.cross_attentions[0]
    first = {name: value[:1] for name, value in given.items()}
    answers["generated_ids"], lead = continue_greedily(
        lambda ids: model(**first, decoder_input_ids=ids, use_cache=False).logits[0, -1], torch.tensor([[start]]))
    if config["model_type"] != "whisper":
        beams = model.generate(**first, num_beams=4, length_penalty=1.0, early_stopping=False, max_new_tokens=NEW_TOKENS,
                               min_length=0, do_sample=False)[:, 1:]
        answers["beam4_ids"] = torch.nn.functional.pad(beams, (0, NEW_TOKENS - beams.shape[1]), value=(decoder | config)["pad_token_id"])
    return answers, lead


def published_transformer(config):
    """torch.nn.Transformer with what stands around it in the paper of 2017."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width = config["d_model"]
            self.embedding = torch.nn.Embedding(config["vocab_size"], width)
            self.transformer = torch.nn.Transformer(
                width, config["num_heads"], config["num_encoder_layers"], config["num_decoder_layers"], config["dim_feedforward"],
                0.0, config["activation"], layer_norm_eps=config["layer_norm_eps"], batch_first=True,
                norm_first=config["norm_first"])
            self.output = torch.nn.Linear(width, config["vocab_size"])

        def embedded(self, ids):
            width = config["d_model"]
            position = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
            angles = position * torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000) / width))
            table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
            return self.embedding(ids) * math.sqrt(width) + table

        def encode(self, ids, mask):
            return self.transformer.encoder(self.embedded(ids), src_key_padding_mask=mask == 0)

        def decode(self, ids, states, mask):
            causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
            return self.output(self.transformer.decoder(self.embedded(ids), states, tgt_mask=causal,
                                                        memory_key_padding_mask=mask == 0))

    return Model()


def recurrent_translator(config):
    """Bahdanau, Cho and Bengio (2015): a bidirectional GRU reads, a GRU with additive attention writes."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            words, width = config["vocab_size"], config["hidden_size"]
            self.encoder_embedding, self.decoder_embedding = torch.nn.Embedding(words, width), torch.nn.Embedding(words, width)
            self.encoder = torch.nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
            self.bridge = torch.nn.Linear(width, width)
            self.query, self.key = torch.nn.Linear(width, width, bias=False), torch.nn.Linear(width, width, bias=False)
            self.score = torch.nn.Linear(width, 1, bias=False)
            self.decoder = torch.nn.GRUCell(2 * width, width)
            self.output = torch.nn.Linear(3 * width, words)

        def encode(self, ids, mask):
            states = torch.zeros(*ids.shape, config["hidden_size"], dtype=torch.float64)
            for row, length in enumerate(mask.sum(1).tolist()):
                states[row, :length] = self.encoder(self.encoder_embedding(ids[row:row + 1, :length]))[0][0]
            return states

        def attend(self, ids, states, mask):
            """The logits, and the weights of the input's positions."""
            half, last = config["hidden_size"] // 2, mask.sum(1) - 1
            ends = torch.cat([states[torch.arange(len(states)), last, :half], states[:, 0, half:]], 1)
            state, keys, logits, shares = self.bridge(ends).tanh(), self.key(states), [], []
            for embedding in self.decoder_embedding(ids).unbind(1):
                scores = self.score((self.query(state)[:, None] + keys).tanh())[..., 0].masked_fill(mask == 0, -torch.inf)
                shares.append(scores.softmax(-1))
                context = (shares[-1][..., None] * states).sum(1)
                state = self.decoder(torch.cat([embedding, context], 1), state)
                logits.append(self.output(torch.cat([state, context, embedding], 1)))
            return torch.stack(logits, 1), torch.stack(shares, 1)[:, None]

        def decode(self, ids, states, mask):
            return self.attend(ids, states, mask)[0]

    return Model()


class Published:
    """A model as it was published, where transformers has it not: operations on the tensors of its file."""

    def __init__(self, config):
        self.config = config

    def state_dict(self):
        import torch
        return {name: torch.empty(shape) for name, shape in self.shapes().items()}

    def load_state_dict(self, weights):
        self.weights = {name: weight.double() for name, weight in weights.items()}

    def double(self):
        return self

    def eval(self):
        return self

    def product(self, name, x):
        y = x @ self.weights[f"{name}.weight"].T
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def layer_norm(self, name, x, eps):
        import torch
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"), eps)

    def rms_norm(self, name, x, eps):
        return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * self.weights[f"{name}.weight"]


def dense_shapes(shapes, bias=True):
    """A matrix of each name, and its bias."""
    return {f"{name}.weight": list(shape) for name, shape in shapes.items()} | \
        ({f"{name}.bias": [shape[0]] for name, shape in shapes.items()} if bias else {})


def attended(query, key, value, seen, bias=0):
    """Of [batch, heads, tokens, columns of a head]: the result, heads side by side, and the weights."""
    group = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(group, 1) for part in (key, value))
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + bias
    shares = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (shares @ value).transpose(1, 2).flatten(-2), shares


def by_heads(x, columns):
    return x.unflatten(-1, (-1, columns)).transpose(1, 2)


def rotated(x, base, neighbouring=False):
    import torch
    columns = x.shape[-1]
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * base ** (-torch.arange(0, columns, 2, dtype=torch.float64) / columns)
    a, b = (x[..., ::2], x[..., 1::2]) if neighbouring else x.chunk(2, -1)
    parts = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    return torch.stack(parts, -1).flatten(-2) if neighbouring else torch.cat(parts, -1)


def encoded(states, attentions, **others):
    from transformers.modeling_outputs import BaseModelOutputWithPooling
    return BaseModelOutputWithPooling(last_hidden_state=states, attentions=attentions, **others)


class JinaBert(Published):
    """Jina's embeddings, version 2 (Günther et al. 2023), and with norms of queries and keys their model for code."""

    def __init__(self, config):
        super().__init__(config)
        self.code = "qk-post-norm" in config["_name_or_path"]

    def shapes(self):
        config = self.config
        width, inner = config["hidden_size"], config["intermediate_size"]
        shapes = {"embeddings.word_embeddings.weight": [config["vocab_size"], width],
                  "embeddings.token_type_embeddings.weight": [config["type_vocab_size"], width]}
        square, norms = ["pooler.dense"], ["embeddings.LayerNorm"]
        for i in range(config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}."
            square += [f"{layer}attention.{part}" for part in ("self.query", "self.key", "self.value", "output.dense")]
            norms += [f"{layer}{name}" for name in ("attention.output.LayerNorm", *(
                ("layer_norm_1", "layer_norm_2", "attention.self.layer_norm_q", "attention.self.layer_norm_k") if self.code else ("mlp.layernorm",)))]
            up, down = ("up_gated_layer", "down_layer") if self.code else ("gated_layers", "wo")
            shapes |= dense_shapes({f"{layer}mlp.{up}": (2 * inner, width)}, False) | dense_shapes({f"{layer}mlp.{down}": (width, inner)})
        return shapes | dense_shapes(dict.fromkeys(square, (width, width))) | \
            {f"{name}.{part}": [width] for name in norms for part in ("weight", "bias")}

    def slopes(self, heads):
        power = 2 ** int(math.log2(heads))
        first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        return first if power == heads else first + self.slopes(2 * power)[::2][:heads - power]

    def __call__(self, input_ids, attention_mask, token_type_ids, **_):
        import torch
        config, eps, heads = self.config, self.config["layer_norm_eps"], self.config["num_attention_heads"]
        place = torch.arange(input_ids.shape[1])
        bias = -(place[:, None] - place).abs() * torch.tensor(self.slopes(heads), dtype=torch.float64)[:, None, None]
        x = self.weights["embeddings.word_embeddings.weight"][input_ids] + self.weights["embeddings.token_type_embeddings.weight"][token_type_ids]
        x, attentions = self.layer_norm("embeddings.LayerNorm", x, eps), []
        act = {"geglu": torch.nn.functional.gelu, "reglu": torch.relu}[config["feed_forward_type"]]
        for i in range(config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}."
            query, key, value = (self.product(f"{layer}attention.self.{part}", x) for part in ("query", "key", "value"))
            if self.code:
                query = self.layer_norm(f"{layer}attention.self.layer_norm_q", query, eps)
                key = self.layer_norm(f"{layer}attention.self.layer_norm_k", key, eps)
            columns = query.shape[-1] // heads
            y, shares = attended(*(by_heads(part, columns) for part in (query, key, value)), attention_mask[:, None, None] > 0, bias)
            attentions.append(shares)
            y = self.layer_norm(f"{layer}attention.output.LayerNorm", self.product(f"{layer}attention.output.dense", y) + x, eps)
            x = self.layer_norm(f"{layer}layer_norm_1", y + x, eps) if self.code else y
            first, second = self.product(f"{layer}mlp.{'up_gated_layer' if self.code else 'gated_layers'}", x).chunk(2, -1)
            y = self.product(f"{layer}mlp.{'down_layer' if self.code else 'wo'}", first * act(second) if self.code else act(first) * second)
            x = self.layer_norm(f"{layer}{'layer_norm_2' if self.code else 'mlp.layernorm'}", y + x, eps)
        return encoded(x, attentions, pooler_output=self.product("pooler.dense", x[:, 0]).tanh())


class NomicMixture(Published):
    """Nomic's text encoders with experts (Nussbaum and Duderstadt 2025)."""

    def sparse(self, layer):
        return layer % self.config["moe_every_n_layers"] == 1

    def shapes(self):
        config = self.config
        width, inner, experts = config["n_embd"], config["n_inner"], config["num_experts"]
        shapes = {"embeddings.word_embeddings.weight": [config["vocab_size"], width],
                  "embeddings.token_type_embeddings.weight": [config["type_vocab_size"], width]}
        norms = ["emb_ln"]
        for i in range(config["n_layer"]):
            layer = f"encoder.layers.{i}."
            norms += [f"{layer}norm1", f"{layer}norm2"]
            shapes |= dense_shapes({f"{layer}attn.Wqkv": (3 * width, width), f"{layer}attn.out_proj": (width, width)})
            if self.sparse(i):
                shapes |= {f"{layer}mlp.router.layer.weight": [experts, width], f"{layer}mlp.experts.bias": [width],
                           f"{layer}mlp.experts.mlp.w1": [experts * inner, width], f"{layer}mlp.experts.mlp.w2": [experts * inner, width]}
            else:
                shapes |= dense_shapes({f"{layer}mlp.fc1": (inner, width), f"{layer}mlp.fc2": (width, inner)})
        return shapes | {f"{name}.{part}": [width] for name in norms for part in ("weight", "bias")}

    def mixture(self, layer, x):
        import torch
        shares, chosen = self.product(f"{layer}mlp.router.layer", x).softmax(-1).topk(self.config["moe_top_k"], -1)
        first, second = (self.weights[f"{layer}mlp.experts.mlp.{part}"].unflatten(0, (self.config["num_experts"], -1)) for part in ("w1", "w2"))
        y = torch.zeros_like(x)
        for expert in range(self.config["num_experts"]):
            share = (shares * (chosen == expert)).sum(-1, keepdim=True)
            y += share * (torch.nn.functional.gelu(x @ first[expert].T) @ second[expert])
        return y + self.weights[f"{layer}mlp.experts.bias"]

    def __call__(self, input_ids, attention_mask, **_):
        import torch
        config, eps = self.config, self.config["layer_norm_epsilon"]
        x = self.weights["embeddings.word_embeddings.weight"][input_ids] + self.weights["embeddings.token_type_embeddings.weight"][0]
        x, attentions, columns = self.layer_norm("emb_ln", x, eps), [], config["n_embd"] // config["n_head"]
        for i in range(config["n_layer"]):
            layer = f"encoder.layers.{i}."
            query, key, value = (by_heads(part, columns) for part in self.product(f"{layer}attn.Wqkv", x).chunk(3, -1))
            query, key = (rotated(part, config["rotary_emb_base"]) for part in (query, key))
            y, shares = attended(query, key, value, attention_mask[:, None, None] > 0)
            attentions.append(shares)
            x = self.layer_norm(f"{layer}norm1", self.product(f"{layer}attn.out_proj", y) + x, eps)
            y = self.mixture(layer, x) if self.sparse(i) else \
                self.product(f"{layer}mlp.fc2", torch.nn.functional.gelu(self.product(f"{layer}mlp.fc1", x)))
            x = self.layer_norm(f"{layer}norm2", y + x, eps)
        return encoded(x, attentions)


class NeoBert(Published):
    """NeoBERT (Le Breton et al. 2025). A head's query, key and value are neighbours."""

    def shapes(self):
        config = self.config
        width, inner = config["hidden_size"], -(-(2 * config["intermediate_size"] // 3) // 8) * 8
        shapes = {"encoder": (config["vocab_size"], width)}
        norms = ["layer_norm"]
        for i in range(config["num_hidden_layers"]):
            layer = f"transformer_encoder.{i}."
            norms += [f"{layer}attention_norm", f"{layer}ffn_norm"]
            shapes |= {f"{layer}qkv": (3 * width, width), f"{layer}wo": (width, width), f"{layer}ffn.w12": (2 * inner, width),
                       f"{layer}ffn.w3": (width, inner)}
        return dense_shapes(shapes, False) | {f"{name}.weight": [width] for name in norms}

    def __call__(self, input_ids, attention_mask, **_):
        import torch
        config, eps, heads = self.config, self.config["norm_eps"], self.config["num_attention_heads"]
        x, attentions = self.weights["encoder.weight"][input_ids], []
        for i in range(config["num_hidden_layers"]):
            layer = f"transformer_encoder.{i}."
            parts = by_heads(self.product(f"{layer}qkv", self.rms_norm(f"{layer}attention_norm", x, eps)), 3 * config["hidden_size"] // heads)
            query, key, value = parts.chunk(3, -1)
            y, shares = attended(rotated(query, 10000, True), rotated(key, 10000, True), value, attention_mask[:, None, None] > 0)
            attentions.append(shares)
            x = x + self.product(f"{layer}wo", y)
            gate, up = self.product(f"{layer}ffn.w12", self.rms_norm(f"{layer}ffn_norm", x, eps)).chunk(2, -1)
            x = x + self.product(f"{layer}ffn.w3", torch.nn.functional.silu(gate) * up)
        return encoded(self.rms_norm("layer_norm", x, eps), attentions)


class Dbrx(Published):
    """DBRX (Databricks 2024). transformers 5.13 multiplies with an expert's matrices the other way round."""

    def shapes(self):
        config = self.config
        width, heads, attention, own = config["d_model"], config["n_heads"], config["attn_config"], config["ffn_config"]
        stacked = [own["moe_num_experts"] * own["ffn_hidden_size"], width]
        shapes = {"transformer.wte": (config["vocab_size"], width), "lm_head": (config["vocab_size"], width)}
        others = {"transformer.norm_f.weight": [width]}
        for i in range(config["n_layers"]):
            layer = f"transformer.blocks.{i}."
            shapes |= {f"{layer}norm_attn_norm.attn.Wqkv": (width + 2 * attention["kv_n_heads"] * width // heads, width),
                       f"{layer}norm_attn_norm.attn.out_proj": (width, width), f"{layer}ffn.router.layer": (own["moe_num_experts"], width)}
            others |= {f"{layer}norm_attn_norm.norm_{norm}.weight": [width] for norm in (1, 2)}
            others |= {f"{layer}ffn.experts.mlp.{part}": stacked for part in ("w1", "v1", "w2")}
        return dense_shapes(shapes, False) | others

    def mixture(self, layer, x):
        import torch
        own = self.config["ffn_config"]
        shares, chosen = self.product(f"{layer}ffn.router.layer", x).softmax(-1).topk(own["moe_top_k"], -1)
        shares = shares / shares.sum(-1, keepdim=True)
        gate, up, down = (self.weights[f"{layer}ffn.experts.mlp.{part}"].unflatten(0, (own["moe_num_experts"], -1)) for part in ("w1", "v1", "w2"))
        y = torch.zeros_like(x)
        for expert in range(own["moe_num_experts"]):
            share = (shares * (chosen == expert)).sum(-1, keepdim=True)
            y += share * ((torch.nn.functional.silu(x @ gate[expert].T) * (x @ up[expert].T)) @ down[expert])
        return y

    def __call__(self, input_ids, **_):
        import torch
        from transformers.modeling_outputs import CausalLMOutputWithPast
        config, attention, eps = self.config, self.config["attn_config"], 1e-5
        columns, count = config["d_model"] // config["n_heads"], input_ids.shape[1]
        x, states, attentions = self.weights["transformer.wte.weight"][input_ids], [], []
        seen = torch.ones(count, count, dtype=torch.bool).tril()
        for i in range(config["n_layers"]):
            states.append(x)
            layer = f"transformer.blocks.{i}."
            projected = self.product(f"{layer}norm_attn_norm.attn.Wqkv", self.layer_norm(f"{layer}norm_attn_norm.norm_1", x, eps))
            parts = by_heads(projected.clamp(-attention["clip_qkv"], attention["clip_qkv"]), columns)
            query, key, value = parts.split([config["n_heads"], attention["kv_n_heads"], attention["kv_n_heads"]], 1)
            y, shares = attended(rotated(query, attention["rope_theta"]), rotated(key, attention["rope_theta"]), value, seen)
            attentions.append(shares)
            x = x + self.product(f"{layer}norm_attn_norm.attn.out_proj", y)
            x = x + self.mixture(layer, self.layer_norm(f"{layer}norm_attn_norm.norm_2", x, eps))
        states.append(self.layer_norm("transformer.norm_f", x, eps))
        return CausalLMOutputWithPast(logits=self.product("lm_head", states[-1]), hidden_states=states, attentions=attentions)


# Models that no library has, by model_type, or by the first of the config's classes.
OWN_MODELS = {"transformer": published_transformer, "rnn_attention": recurrent_translator, "JinaBertModel": JinaBert,
              "NomicBertMixtureModel": NomicMixture, "neobert": NeoBert, "dbrx": Dbrx}


def own_model(config):
    """Such a model; None of all others."""
    name = "NomicBertMixtureModel" if config.get("moe_every_n_layers") else config["architectures"][0] if "architectures" in config else ""
    kind = OWN_MODELS.get(config["model_type"]) or OWN_MODELS.get(name)
    return kind and kind(config)


def own_answers(model, config, seed):
    import torch
    ids, mask = text_inputs(seed, config)
    forced = torch.tensor(some_ids(seed, "decoder_input_ids", (2, 9), config["vocab_size"]))
    forced[:, 0] = config["bos_token_id"]
    states = model.encode(ids, mask)
    if states.shape[1] < mask.shape[1]:  # torch leaves out columns that are padding in every row
        states = torch.nn.functional.pad(states, (0, 0, 0, mask.shape[1] - states.shape[1]))
    states = states * mask[..., None]
    answers = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": forced, "encoder_last_hidden_state": states,
               "logits": model.decode(forced, states, mask)}
    if config["model_type"] == "rnn_attention":
        answers["cross_attentions.0"] = model.attend(forced, states, mask)[1]
    answers["generated_ids"], lead = continue_greedily(
        lambda ids: model.decode(ids, states[:1], mask[:1])[0, -1], torch.tensor([[config["bos_token_id"]]]))
    return answers, lead


def tells_much(answers, lead, config):
    """Whether no token was chosen by a hair, and not one alone over and over."""
    generated = answers.get("generated_ids")
    wanted = 0.03 if config.get("num_experts_per_tok") == 1 else 0.01  # another expert would change all of a token
    return generated is None or lead > wanted and len(set(generated.flatten().tolist())) >= 3


def save_answers(answers, path):
    save_file({name: numpy_of(value) for name, value in answers.items()}, path)
    path.chmod(0o644)


def with_small_queries():
    """DeepSeek-OCR 2 with tables of queries for the fixture's pictures in place of those of 768 and 1024 pixels, which are fixed."""
    import torch
    from transformers.models.deepseek_ocr2 import modeling_deepseek_ocr2
    made = modeling_deepseek_ocr2.DeepseekOcr2VisionModel
    if made.__init__.__name__ == "small":
        return
    whole = made.__init__

    def small(self, config):
        whole(self, config)
        columns = config.encoder_config.hidden_size
        tables = {9: torch.nn.Embedding(9, columns), 25: torch.nn.Embedding(25, columns)}
        self.query_768_resolution, self.query_1024_resolution = tables.values()

        def choose(encoder, given, states):  # the reference takes the first table for all of up to 144 rows
            self.query_768_resolution = tables[states.last_hidden_state.shape[2:].numel()]
        self.sam_encoder.register_forward_hook(choose)
    made.__init__ = small


def model_class(config):
    import transformers
    if config["model_type"] == "gemma3n":
        without_pictures()
    if config["model_type"] == "deepseek_ocr2":
        with_small_queries()
    return getattr(transformers, config["architectures"][0])


def is_computed(name, config):
    """Whether the reference computes a tensor that its files hold too: PEGASUS's sines, Swin's indices."""
    return config["model_type"] == "pegasus" and "embed_positions" in name or name.endswith("relative_position_index")


def shapes_of(folder, config):
    """The names and shapes in the file that the reference writes of such a model."""
    own = own_model(config)
    if own:
        return {name: list(value.shape) for name, value in own.state_dict().items()}
    import transformers
    with tempfile.TemporaryDirectory() as scratch:
        model_class(config)(transformers.AutoConfig.from_pretrained(folder)).save_pretrained(scratch)
        return {re.sub(r"(?<!qwen2_model)\.model\.model\.", ".model.", name): list(value.shape)  # as published, not as transformers 5 writes it
                for name, value in load_file(Path(scratch) / "model.safetensors").items()
                if value.dtype.kind == "f" and not is_computed(name, config)}


def fill_sinusoids(model):
    """Loading leaves TrOCR's table of sines without its numbers, because no file has it."""
    for module in model.modules():
        if type(module).__name__ == "TrOCRSinusoidalPositionalEmbedding":
            module.weights = module.get_embedding(len(module.weights), module.embedding_dim, module.padding_idx)


def answers_of(folder, config, seed, weights):
    import torch
    model = own_model(config)
    if model:
        model.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
        if not isinstance(model, Published):
            return own_answers(model.double().eval(), config, seed)
        return (decoder_answers if config["model_type"] == "dbrx" else encoder_answers)(model, config, seed)
    import transformers
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        for path in folder.glob("*config.json"):
            (Path(scratch) / path.name).write_bytes(path.read_bytes())
        save_file(weights, Path(scratch) / "model.safetensors", metadata={"format": "pt"})
        model, loaded = model_class(config).from_pretrained(
            scratch, dtype=torch.float64, attn_implementation="eager", output_loading_info=True,
            **({"experts_implementation": "eager"} if EXPERTS.intersection(config | config.get("text_config", {})) else {}))
        counts = "num_batches_tracked"  # of training
        missing = [name for name in loaded["missing_keys"] if not name.endswith(counts) and not is_computed(name, config)]
        assert not missing and not loaded["unexpected_keys"], loaded
    model.eval()
    fill_sinusoids(model)
    kind = config["model_type"]
    if kind.startswith("parakeet_"):
        return spoken_answers(model, config, seed, folder)
    if config.get("is_encoder_decoder"):
        return translator_answers(model, config, seed, folder)
    if kind in ("vit", "deit", "beit"):
        return image_answers(model, config, seed)
    others = {"dinov2": picture_answers, "clip": pair_answers, "siglip": pair_answers, "wav2vec2": letter_answers,
              "resnet": class_answers, "dac": coded_answers, "llava": picture_text_answers, "smolvlm": tiled_picture_answers, "gemma3": whole_picture_answers,
              **dict.fromkeys(PATCHED, patched_picture_answers)}
    if config.get("vision_config", {}).get("model_type") == "pixtral":
        return lined_picture_answers(model, config, seed, folder)
    if kind == "gemma4":
        return filled_picture_answers(model, config, seed, folder)
    if kind == "minicpmv4_6":
        return sliced_picture_answers(model, config, seed, folder)
    if kind == "gemma3n":
        return sounded_answers(model, config, seed, folder)
    if kind in ("voxtral", "qwen2_audio"):
        return heard_answers(model, config, seed, folder)
    if kind == "deepseek_ocr2":
        return queried_picture_answers(model, config, seed, folder)
    if kind == "internvl":
        return proportional_picture_answers(model, config, seed, folder)
    if kind in others:
        return others[kind](model, config, seed)
    if config["architectures"][0].endswith(("ForTokenClassification", "ForQuestionAnswering")):
        if (folder / "spans.json").exists():
            fill_spans(model, folder / "spans.json")
        return token_answers(model, config, seed)
    if (folder / "late.json").exists():
        return late_answers(model, config, seed, folder)
    if config["architectures"][0].endswith("ForMaskedLM"):
        return masked_answers(model, config, seed)
    encodes = kind in ENCODERS or config.get("use_bidirectional_attention") is True
    return (encoder_answers if encodes else decoder_answers)(model, config, seed)


def make_model(name, seed):
    folder = FIXTURES / "models" / name
    config = json.loads((folder / "config.json").read_text())
    shapes = shapes_of(folder, config)
    while True:
        write_weights_json(folder, seed, shapes)
        answers, lead = answers_of(folder, config, seed, read_weights(folder))
        if tells_much(answers, lead, config):
            break
        seed += 1000
    save_answers(answers, folder / "expected.safetensors")
    generated = [answers[key].tolist() for key in ("generated_ids", "beam4_ids") if key in answers]
    print(f"{name}: seed {seed}, smallest lead {lead:.3f}", *generated, flush=True)


# --- GGUF. ---

def permuted(array, heads):
    """Rows of a projection in llama.cpp's order, which rotates neighbours where the reference rotates halves."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def copied_source(tensor, weights):
    """How a tensor of llama.cpp's is made of the folder's: {"from": [...]} with what is done to them."""
    if tensor.ndim == 3:
        whole = [name for name, value in weights.items() if np.array_equal(value, tensor)]
        return {"from": whole or [name for part in tensor for name, value in weights.items() if np.array_equal(value, part)]}
    for name, value in weights.items():
        if value.shape != tensor.shape:
            continue
        if np.array_equal(value, tensor):
            return {"from": [name]}
        if np.array_equal(value + np.float32(1), tensor):
            return {"from": [name], "plus": 1}
        for heads in (1, 2, 4, 8):
            if value.shape[0] % (2 * heads) == 0 and np.array_equal(permuted(value, heads), tensor):
                return {"from": [name], "permuted_heads": heads}
    assert tensor.size <= 64, f"a tensor of shape {tensor.shape} comes from nowhere"
    return {"values": tensor.tolist()}


def write_gguf_json(path, head, pairs, tensors):
    def lines(items):
        return ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in items)
    path.write_text(f'{{{head}"metadata": [\n  {lines(pairs)}],\n "tensors": [\n  {lines(tensors)}]}}\n')


def make_converted(name, safetensors, file):
    import gguf
    weights, reader = load_file(safetensors), gguf.GGUFReader(file)
    pairs = [[field.name, field.types[0].name.lower(), field.contents()]
             for field in reader.fields.values() if not field.name.startswith("GGUF.")]
    tensors = []
    for tensor in reader.tensors:
        array = np.array(tensor.data)
        tensors.append({"name": tensor.name, "shape": list(array.shape), "type": "F32"} | copied_source(array, weights))
    write_gguf_json(FIXTURES / "models" / name / "gguf.json", "", pairs, tensors)
    print(f"{name}: {len(pairs)} pairs, {len(tensors)} tensors")


def half(offset, exponent, sign=0x0000):
    """A field that holds a number of half precision: its fraction is random, and its sign where that is None."""
    return [offset, 0x03FF if sign is not None else 0x83FF, (exponent + 15) << 10 | (sign or 0)]


# Elements and bytes of a block, and its fields: the offset, the bits that stay random, and the others. Scales are such that a row
# of 256 gives sums of the size of what it is multiplied with, and minima such that the mean is about zero.
BLOCKS = {
    "F16": (1, 2, [half(0, -5, None)]),
    "BF16": (1, 2, [[0, 0x807F, (127 - 5) << 7]]),
    "Q4_0": (32, 18, [half(0, -7, None)]),
    "Q4_1": (32, 20, [half(0, -7), half(2, -4, 0x8000)]),
    "Q5_0": (32, 22, [half(0, -8, None)]),
    "Q5_1": (32, 24, [half(0, -8), half(2, -4, 0x8000)]),
    "Q8_0": (32, 34, [half(0, -11, None)]),
    "Q2_K": (256, 84, [half(80, -8), half(82, -8)]),
    "Q3_K": (256, 110, [half(108, -10, None)]),
    "Q4_K": (256, 144, [half(0, -13), half(2, -10)]),
    "Q5_K": (256, 176, [half(0, -14), half(2, -10)]),
    "Q6_K": (256, 210, [half(208, -14)]),
    "IQ4_NL": (32, 18, [half(0, -10, None)]),
    "IQ4_XS": (256, 136, [half(0, -14)]),
    "MXFP4": (32, 17, [[0, 0xFF01, 120]]),  # of its scale, a byte, the lowest bit is random
    "NVFP4": (64, 36, [[0, 0x0707, 0x0808], [2, 0x0707, 0x0808]]),
    "IQ1_S": (256, 50, [half(0, -8)]),
    "IQ1_M": (256, 56, [[at, 0x0FFF, nibble << 12] for at, nibble in ((48, 0), (50, 0), (52, 0), (54, 2))]),  # of 2^-7
    "IQ2_XXS": (256, 66, [half(0, -10, None)]),
    "IQ2_XS": (256, 74, [half(0, -10, None)]),
    "IQ2_S": (256, 82, [half(0, -10, None)]),
    "IQ3_XXS": (256, 98, [half(0, -12, None)]),
    "IQ3_S": (256, 110, [half(0, -12, None)]),
    "TQ1_0": (256, 54, [half(52, -5, None)]),
    "TQ2_0": (256, 66, [half(64, -5, None)]),
    "Q1_0": (128, 18, [half(0, -5, None)]),
    "Q2_0": (64, 18, [half(0, -5, None)]),
}
NUMBERS_OF_TYPES = {"Q1_0": 41, "Q2_0": 42}  # that the package does not decode, or not know
MIXTURES = {"Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K"}
WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 256, 512, 4, 2, 512


def random_description(kind):
    """A llama of one layer, as the pairs and the tensors of its file."""
    pairs = [["general.architecture", "string", "llama"], ["general.name", "string", "random"],
             ["llama.context_length", "uint32", 256], ["llama.embedding_length", "uint32", WIDTH],
             ["llama.block_count", "uint32", 1], ["llama.feed_forward_length", "uint32", INNER],
             ["llama.attention.head_count", "uint32", HEADS], ["llama.attention.head_count_kv", "uint32", KV_HEADS],
             ["llama.attention.layer_norm_rms_epsilon", "float32", float(np.float32(1e-5))],
             ["llama.rope.dimension_count", "uint32", WIDTH // HEADS], ["llama.rope.freq_base", "float32", 10000.0],
             ["llama.vocab_size", "uint32", VOCABULARY], ["tokenizer.ggml.model", "string", "none"]]
    keys = WIDTH // HEADS * KV_HEADS
    shapes = {"output": [VOCABULARY, WIDTH], "output_norm": [WIDTH], "token_embd": [VOCABULARY, WIDTH],
              "blk.0.attn_k": [keys, WIDTH], "blk.0.attn_norm": [WIDTH], "blk.0.attn_output": [WIDTH, WIDTH],
              "blk.0.attn_q": [WIDTH, WIDTH], "blk.0.attn_v": [keys, WIDTH], "blk.0.ffn_down": [WIDTH, INNER],
              "blk.0.ffn_gate": [INNER, WIDTH], "blk.0.ffn_norm": [WIDTH], "blk.0.ffn_up": [INNER, WIDTH]}
    tensors = []
    for name, shape in shapes.items():
        tensor = {"name": f"{name}.weight", "shape": shape}
        better = kind in MIXTURES and name in ("output", "blk.0.attn_v", "blk.0.ffn_down")
        if len(shape) == 1:
            tensor |= {"type": "F32", "mean": 1, "spread": 0.25}
        elif kind == "F32":
            tensor |= {"type": "F32", "mean": 0, "spread": 0.125}
        else:
            tensor["type"] = "Q6_K" if better else MIXTURES.get(kind, kind)
        tensors.append(tensor)
    blocks = {name: {"number": number_of_type(name)} | dict(zip(("elements", "bytes", "fields"), BLOCKS[name]))
              for name in sorted({t["type"] for t in tensors} - {"F32"})}
    return pairs, tensors, blocks


def number_of_type(name):
    import gguf
    return NUMBERS_OF_TYPES.get(name) or gguf.GGMLQuantizationType[name].value


def decoded_blocks(name, data):
    """The numbers of rows of blocks, by llama.cpp's own Python library, but for two types that it does not decode."""
    import gguf
    if name == "F16":
        return data.view("<f2").astype(np.float32)
    if name in NUMBERS_OF_TYPES:  # a half scale, then codes from the lowest bits on: -1 and 1, or -1 to 2
        bits = int(name[1])
        blocks = data.reshape(-1, 18)
        codes = (blocks[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)).reshape(len(blocks), -1)
        numbers = codes.astype(np.float32) * (3 - bits) - 1
        return (numbers * np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)).reshape(len(data), -1)
    kind = gguf.GGMLQuantizationType[name]
    assert gguf.GGML_QUANT_SIZES[kind] == BLOCKS[name][:2], name
    return gguf.quants.dequantize(data, kind)


def dequantised(seed, tensor, blocks):
    """A tensor's numbers."""
    if tensor["type"] == "F32":
        return uniform(seed, tensor["name"], tensor["shape"], tensor["mean"], tensor["spread"])
    block = blocks[tensor["type"]]
    rows, columns = tensor["shape"]
    data = block_bytes(seed, tensor["name"], rows * columns // block["elements"], block).reshape(rows, -1)
    return decoded_blocks(tensor["type"], data)


def make_blocks():
    """Two random blocks of each quantised type, and the numbers in them."""
    arrays = {}
    for name, (elements, size, fields) in BLOCKS.items():
        if elements > 1:
            data = block_bytes(1, name, 2, {"bytes": size, "fields": fields})
            arrays |= {f"{name}.bytes": data, name: decoded_blocks(name, data)}
    save_file(arrays, FIXTURES / "blocks.safetensors")
    (FIXTURES / "blocks.safetensors").chmod(0o644)
    print(f"{len(arrays) // 2} types")


def unpermuted(array, heads):
    return array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


LLAMA_NAMES = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
LLAMA_LAYER = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
               "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def llama_of(tensors, pairs):
    """The reference's llama in float64, of tensors under llama.cpp's names."""
    import torch
    import transformers
    get = {pair[0].removeprefix("llama."): pair[-1] for pair in pairs}
    heads, kv_heads = get["attention.head_count"], get["attention.head_count_kv"]
    state = {}
    for name, array in tensors.items():
        parts = name.removesuffix(".weight").split(".")
        if parts[-1] in ("attn_q", "attn_k"):
            array = unpermuted(array, heads if parts[-1] == "attn_q" else kv_heads)
        own = LLAMA_NAMES.get(parts[0]) or f"model.layers.{parts[1]}.{LLAMA_LAYER[parts[2]]}"
        state[f"{own}.weight"] = torch.tensor(array, dtype=torch.float64)
    tied = "lm_head.weight" not in state
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(tensors["token_embd.weight"]), hidden_size=get["embedding_length"],
        intermediate_size=get["feed_forward_length"], num_hidden_layers=get["block_count"], num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=get["context_length"],
        rms_norm_eps=get["attention.layer_norm_rms_epsilon"], tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": get["rope.freq_base"]}, attn_implementation="eager"))
    missing = model.double().load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and set(missing.missing_keys) <= ({"lm_head.weight"} if tied else set()), missing
    model.tie_weights()
    return model.eval()


def make_random(kind):
    pairs, tensors, blocks = random_description(kind)
    seed = 1
    while True:
        model = llama_of({t["name"]: dequantised(seed, t, blocks) for t in tensors}, pairs)
        answers, lead = decoder_answers(model, {"vocab_size": VOCABULARY}, seed)
        if tells_much(answers, lead, {}):
            break
        seed += 1
    path = FIXTURES / "gguf" / f"random-{kind}.json"
    write_gguf_json(path, f'"seed": {seed}, "blocks": {json.dumps(blocks)},\n ', pairs, tensors)
    kept = {name: answers[name] for name in ("prompt_ids", "generated_ids")}
    kept |= {name: answers[name][:, :12] for name in ("input_ids", "logits")}  # a token's answers need none after it
    save_answers(kept, path.with_suffix(".expected.safetensors"))
    print(f"random-{kind}: seed {seed}, logits' rms {float(answers['logits'].pow(2).mean().sqrt()):.3f}, lead {lead:.3f}")


def make_cases(name):
    """The ids and the text that the reference's tokenizer makes of each text."""
    import tokenizers
    folder = FIXTURES / "tokenizers" / name
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    cases = []
    for text in [case["text"] for case in json.loads((folder / "cases.json").read_text())]:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": tokenizer.encode(text).ids, "ids_without_special": plain,
                      "decoded": tokenizer.decode(plain, skip_special_tokens=False)})
    (folder / "cases.json").write_text(json.dumps(cases, ensure_ascii=False, indent=0))
    print(f"{name}: {len(cases)} cases")


def make_places():
    """Where the tokens of texts are in them, without white space around: tests/fixtures/places.json."""
    import tokenizers
    path = FIXTURES / "places.json"
    cases = json.loads(path.read_text())
    for case in cases:
        tokenizer = tokenizers.Tokenizer.from_file(str(FIXTURES / "tokenizers" / case["tokenizer"] / "tokenizer.json"))
        text, case["tokens"] = case["text"], []
        found = tokenizer.encode(text, add_special_tokens=False)
        for token, (begin, end) in zip(found.ids, found.offsets):
            inner = text[begin:end].strip()
            begin += len(text[begin:end]) - len(text[begin:end].lstrip())
            case["tokens"].append([token, begin, begin + len(inner)])
    path.write_text("[" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "]\n")


def make_story(file):
    """A file of llama.cpp's with its matrices in half precision, and how it goes on from the token that begins a text."""
    import gguf
    import torch
    reader = gguf.GGUFReader(file)
    path = FIXTURES / "gguf" / "stories260K-F16.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    pairs = []
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        pairs.append([field.name, field.contents()])
        kinds = field.types
        writer.add_key_value(field.name, field.contents(), kinds[0], *kinds[1:2])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tensors = {}
    for tensor in reader.tensors:
        array = np.array(tensor.data)
        array = array.astype(np.float16) if array.ndim > 1 else array
        writer.add_tensor(tensor.name, array)
        tensors[tensor.name] = array.astype(np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = llama_of(tensors, pairs)
    ids, leads = torch.tensor([[1]]), []
    for _ in range(120):
        token, lead = likeliest(model(input_ids=ids, use_cache=False).logits[0, -1])
        leads.append(lead)
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    answers = {"input_ids": ids[:, :5], "logits": model(input_ids=ids[:, :5]).logits, "prompt_ids": ids[:, :1],
               "generated_ids": ids[:, 1:]}
    save_answers(answers, path.with_suffix(".expected.safetensors"))
    print(f"stories260K-F16: smallest lead {min(leads):.4f}")


# --- Files of torch.save(). ---

def make_prediction(name, own):
    """A layer that predicts the token after the next one (DeepSeek-AI 2024, multi-token prediction), which transformers leaves out:
    RMS norms of the token's embedding and of what the model gave for the token before it, side by side through a matrix, then one
    more of the model's blocks, a norm, and the head. Behind a guess, the block's own result takes the model's place; in Qwen's, what
    the norm gives of it. `own`: whether it has an embedding and a head of its own."""
    import torch
    import transformers
    source = FIXTURES / "models" / name
    config = json.loads((source / "config.json").read_text())
    number, hidden, vocabulary = config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]
    layer_prefix = prefix = f"model.layers.{number}."
    block_prefix, parts = prefix, ("enorm", "hnorm", "eh_proj", "shared_head.norm")
    qwen = name.startswith("qwen")
    if qwen:
        prefix, block_prefix, parts = "mtp.", "mtp.layers.0.", ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm")
    enorm, hnorm, projection, last_norm = (prefix + part + ".weight" for part in parts)
    with tempfile.TemporaryDirectory() as scratch:  # the block's shapes are those of a model with one more layer
        longer = config | {"num_hidden_layers": number + 1}
        if "layer_types" in config:
            longer["layer_types"] = config["layer_types"] + ["full_attention"]
        (Path(scratch) / "config.json").write_text(json.dumps(longer))
        shapes = {key.replace(layer_prefix, block_prefix): shape for key, shape in shapes_of(Path(scratch), longer).items()
                  if key.startswith(layer_prefix)}
    block_names = list(shapes)
    shapes |= {enorm: [hidden], hnorm: [hidden], projection: [hidden, 2 * hidden], last_norm: [hidden]}
    if own:
        shapes |= {prefix + "embed_tokens.weight": [vocabulary, hidden], prefix + "shared_head.head.weight": [vocabulary, hidden]}
    folder = FIXTURES / "prediction"
    folder.mkdir(exist_ok=True)
    write_description(folder / f"{name}.json", sum(name.encode()), shapes, config)
    layer = {key: torch.tensor(value).double() for key, value in described_weights(folder / f"{name}.json").items()}
    weights = read_weights(source)

    with tempfile.TemporaryDirectory() as scratch:
        whole = weights | {key.replace(block_prefix, layer_prefix): layer[key].float().numpy() for key in block_names}
        (Path(scratch) / "config.json").write_text(json.dumps(longer))
        save_file(whole, Path(scratch) / "model.safetensors", metadata={"format": "pt"})
        model = model_class(config).from_pretrained(scratch, dtype=torch.float64, attn_implementation="eager",
                                                    experts_implementation="eager").eval()
    block, base = model.model.layers[number], model.model
    base.layers = base.layers[:number]
    base.config.num_hidden_layers = number

    def norm(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * (weight + 1 if qwen else weight)

    embedding = layer.get(prefix + "embed_tokens.weight", model.model.embed_tokens.weight)
    head = layer.get(prefix + "shared_head.head.weight", model.lm_head.weight)

    def predict(ids, states):
        """Of the tokens from the second on, at their positions."""
        positions = torch.arange(1, len(ids))[None]
        x = torch.cat([norm(embedding[ids[1:]], layer[enorm]), norm(states, layer[hnorm])], -1)
        x = (x @ layer[projection].T)[None]
        count = len(ids) - 1
        mask = torch.full((1, 1, count, count), -torch.inf, dtype=torch.float64).triu(1)
        x = block(x, attention_mask=mask, position_ids=positions, position_embeddings=base.rotary_emb(x, positions))
        x = (x[0] if isinstance(x, tuple) else x)[0]
        normed = norm(x, layer[last_norm])
        return normed if qwen else x, normed @ head.T

    ids = torch.tensor(some_ids(sum(name.encode()), "input_ids", (24,), vocabulary))
    states = base(input_ids=ids[None], use_cache=False).last_hidden_state[0]
    given, logits = predict(ids, states[:-1])
    answers = {"input_ids": ids, "hidden_states": states[:-1], "given": given, "logits": logits}
    drafts, own_states = ids, states[:-1]
    for _ in range(4):
        given, logits = predict(drafts, own_states)
        token, lead = likeliest(logits[-1])
        assert lead > 1e-3
        drafts, own_states = torch.cat([drafts, torch.tensor([token])]), torch.cat([own_states, given[-1:]])
    answers["draft_ids"], answers["draft_logits"] = drafts[len(ids):], logits[-1]
    save_answers(answers, folder / f"{name}.expected.safetensors")
    print(name, answers["draft_ids"].tolist())


def make_torch_files():
    """The same tensors in a zip archive, in the form before it, and as training programs wrap them; and what is refused."""
    import torch
    folder = FIXTURES / "torch"
    folder.mkdir(exist_ok=True)
    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    row = torch.arange(4).to(torch.bfloat16)
    tensors = {"matrix": matrix, "transposed": matrix.t(), "row": row, "part": row[1:3], "scalar": torch.tensor(0.5),
               "parameter": torch.nn.Parameter(torch.ones(2)), "ids": torch.tensor([7, -1]),
               "LayerNorm.gamma": torch.tensor([1.5, -2], dtype=torch.float16)}
    torch.save(tensors, folder / "archive.bin")
    torch.save(tensors, folder / "old.bin", _use_new_zipfile_serialization=False)
    torch.save({"epoch": 3, "state_dict": tensors}, folder / "training.pt")
    torch.save({"matrix": matrix, "path": Path("x")}, folder / "object.pt")
    torch.save({"matrix": torch.ones(1).expand(1 << 40)}, folder / "repeated.pt")
    counted = torch.arange(3, dtype=torch.float32)
    torch.save({"rows": counted.expand(2, 3), "columns": counted[:, None].expand(3, 2)}, folder / "expanded.pt")
    byteorder, sys.byteorder = sys.byteorder, "big"  # which the archive then says
    torch.save({"matrix": matrix}, folder / "big_endian.pt")
    sys.byteorder = byteorder


def main(arguments):
    check_numbers()
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "weights" and len(rest) == 2:
        save_file(read_weights(FIXTURES / "models" / rest[0]), rest[1], metadata={"format": "pt"})
        return
    if command == "converted" and len(rest) == 3:
        make_converted(*rest)
        return
    if command == "cases":
        for name in rest or sorted(path.name for path in (FIXTURES / "tokenizers").iterdir()):
            make_cases(name)
        return
    if command == "places":
        make_places()
        return
    if command == "blocks":
        make_blocks()
        return
    import torch
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    if command == "models":
        for name in rest or sorted(path.name for path in (FIXTURES / "models").iterdir()):
            name, _, seed = name.partition(":")
            make_model(name, int(seed) if seed else sum(name.encode()))
    elif command == "gguf":
        for kind in rest or ["F32", *BLOCKS, *MIXTURES]:
            make_random(kind)
    elif command == "story" and len(rest) == 1:
        make_story(rest[0])
    elif command == "prediction":
        make_prediction("glm4-moe", True)
        make_prediction("deepseek-v3", False)
        make_prediction("qwen3-next", False)
        make_prediction("qwen3-5", False)
    elif command == "torch":
        make_torch_files()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
