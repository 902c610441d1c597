#!/usr/bin/env python3
"""Prints how far the tensors of models are from their reference's, which are in expected.safetensors beside each.

    PUMICE_FIXTURES_TO=made build/test_command --no-skip -tc="write all fixtures*"
    tools/worst_errors.py made/*

A line has the largest error of a tensor by `pumice eval`, and that of the logits if there are some: the root of the mean square of the
differences, over that of the reference's numbers. Needs numpy, and build/pumice.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
INPUTS = {"pixel_values", "pixel_values_local", "input_features", "audio_16khz", "image_features", "audio_features", "input_values"}


def tensors(path):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data, numpy.float32, (each["data_offsets"][1] - each["data_offsets"][0]) // 4,
                                   8 + size + each["data_offsets"][0])
            for name, each in header.items() if each["dtype"] == "F32"}


def errors(folder):
    """Of each tensor that the reference has, by its name."""
    expected = {name: values for name, values in tensors(folder / "expected.safetensors").items()
                if name not in INPUTS and not name.startswith("attentions.")}  # those have rows of padding
    with tempfile.TemporaryDirectory() as made:
        out = pathlib.Path(made) / "out.safetensors"
        command = [ROOT / "build/pumice", "eval", folder, "--inputs", folder / "expected.safetensors", "--outputs", out, "--no-tune"]
        for name in expected:
            command += ["--output", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[0])
        actual = tensors(out)
    return {name: float(numpy.sqrt(numpy.square(actual[name] - values).sum() / numpy.square(values).sum()))
            for name, values in expected.items() if name in actual}


def main():
    status = 0
    for folder in map(pathlib.Path, sys.argv[1:]):
        try:
            each = errors(folder)
        except (OSError, KeyError, RuntimeError) as error:
            print(f"{folder}: {error}", file=sys.stderr)
            status = 1
            continue
        worst = max(each, key=each.get)
        print(f"{folder.name:24} {each[worst]:.1e} {worst:32} {each.get('logits', float('nan')):.1e}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
