#!/usr/bin/env python3
"""Reads held-out lines with the weights as the folder of train_dates.py holds them, and counts what is right."""
import argparse
import collections
import itertools
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # these are read when torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch

import dates
from seq2seq import beam_search, greedy
from train_dates import MOST_TOKENS, load, wrong_lines

HELD_OUT_SEED, HELD_OUT_LINES = 24, 1000
# Source texts of expected.json. The last two are no dates, so that beams and greedy decoding disagree.
EXAMPLES = ["Thursday, 4 March 2021", "the twenty-first of May 2047", "3/4/2021", "le 3/4/2021",
            "SON TARİH: 25.10.43 PAZAR", "W dniu 3 września '99", "29 февраля 2000 г.", "4.III.2021",
            "令和3年3月4日(木)", "二〇二一年三月四日", "2021년 3월 4일", "📅 sexta-feira, 1º de março de 2024", "May", "mañana"]


def report(title, lines, wrong, field):
    """A table of the accuracy by one field of the lines."""
    total, bad = (collections.Counter(getattr(line, field) for line in part) for part in (lines, wrong))
    print(f"\n| {title} | lines | right |\n|---|---|---|")
    for key, count in sorted(total.items(), key=lambda item: -item[1]):
        print(f"| {key} | {count} | {100 * (1 - bad[key] / count):.2f} % |")


def example(model, tok, text):
    source = tok.encode(text)
    (greedy_ids,), (lead,) = greedy(model, [source], MOST_TOKENS)
    found = beam_search(model, source, 4, MOST_TOKENS)
    # The leads say how much rounding a runtime may differ by before the ids do.
    return {"text": text, "source_ids": source, "greedy": tok.decode(greedy_ids), "greedy_ids": greedy_ids,
            "min_lead": round(lead, 4), "beam4_ids": found[0][1], "beam4_score": round(found[0][0], 6),
            "beam4_lead": round(found[0][0] - found[1][0], 6)}


def write_expected(path, model, tok):
    head = {"beams": 4, "length_penalty": 1.0, "early_stopping": False, "max_new_tokens": MOST_TOKENS}
    with open(path, "w", encoding="utf-8") as f:
        rows = ",\n  ".join(json.dumps(example(model, tok, text), ensure_ascii=False) for text in EXAMPLES)
        f.write(json.dumps(head)[:-1] + f', "examples": [\n  {rows}\n]}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=HELD_OUT_LINES, help="held-out lines to read")
    parser.add_argument("--show", type=int, default=20, help="most wrong lines to print")
    parser.add_argument("--write", action="store_true", help="write held_out.tsv and expected.json into the folder")
    args = parser.parse_args()

    torch.set_num_threads(1)
    model, tok = load(args.folder)
    lines = list(itertools.islice(dates.lines(HELD_OUT_SEED, held_out=True), args.count))
    if args.write:
        with open(os.path.join(args.folder, "held_out.tsv"), "w", encoding="utf-8") as f:
            f.writelines(f"{line.text}\t{line.iso}\n" for line in lines[:HELD_OUT_LINES])
        write_expected(os.path.join(args.folder, "expected.json"), model, tok)
    wrong = wrong_lines(model, tok, lines)
    print(f"{len(lines) - len(wrong)} of {len(lines)} right, {100 * (1 - len(wrong) / len(lines)):.2f} %")
    for line, found in wrong[:args.show]:
        print(f"wrong: {line.text!r} is {line.iso}, read as {found!r}")
    for title, field in (("Language", "language"), ("Habit", "habit")):
        report(title, lines, [line for line, _ in wrong], field)


if __name__ == "__main__":
    main()
