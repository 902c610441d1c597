#!/usr/bin/env python3
"""Draws how many tokens per second texts have together, over how many are generated at a time, from what pumice bench printed.

    for type in f16 q8_0; do pumice bench model-$type.gguf -p 0 -n 16 --batch 1-64 -o json > $type.json; done
    tools/batch_curves.py F16=f16.json Q8_0=q8_0.json --svg curves.svg --title "Mesa 26.1.6"

Prints a table too: the speed for each number of texts, as a multiple of one text's, and where it falls by more than --margin
from one number to the next. With several runs in a file, one after the other, a speed is their median.
"""

import argparse
import html
import json
import math
import statistics
import sys

COLOURS = ["#0b6e99", "#c2410c", "#4d7c0f", "#7c3aed"]


def fail(message):
    sys.exit(f"batch_curves: {message}")


def read(path):
    """Sorted pairs: how many texts, and their tokens per second."""
    try:
        with open(path) as file:
            text = file.read()
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    speeds, at = {}, 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            report, at = json.JSONDecoder().raw_decode(text, at)
            for each in report["results"]:
                if each["kind"] == "decode":
                    speeds.setdefault(each["sequences"], []).append(each["median_tokens_per_second"])
        except (ValueError, KeyError, TypeError):
            fail(f"{path}: expected what 'pumice bench -o json' prints")
    if not speeds:
        fail(f"{path}: there is no test that generates")
    return [(texts, statistics.median(each)) for texts, each in sorted(speeds.items())]


def draw(curves, title):
    """Lines by their names, on a logarithmic axis, as SVG."""
    width, height, left, top, right, bottom = 720, 400, 64, 56, 24, 44
    most = max(texts for curve in curves.values() for texts, _ in curve)
    high = 1.08 * max(speed for curve in curves.values() for _, speed in curve)
    step = next(each for each in (10**power * digit for power in range(-2, 7) for digit in (1, 2, 5)) if high / each <= 8)

    def x(texts):
        return left + (width - left - right) * math.log2(texts) / max(math.log2(most), 1)

    def y(speed):
        return height - bottom - (height - top - bottom) * speed / high

    ink = 'font-family="sans-serif" font-size="12" fill="#333"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="{left}" y="20" {ink} font-weight="bold">{html.escape(title)}</text>']
    for line in range(int(high / step) + 1):
        at = y(line * step)
        parts.append(f'<path d="M{left} {at:.1f}H{width - right}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end" {ink}>{line * step:g}</text>')
    for texts in (2**power for power in range(int(math.log2(most)) + 1)):
        parts.append(f'<text x="{x(texts):.1f}" y="{height - bottom + 18}" text-anchor="middle" {ink}>{texts}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle" {ink}>texts at a time</text>')
    parts.append(f'<text x="{left}" y="{top - 10}" {ink}>tokens per second, of all texts</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(texts):.1f},{y(speed):.1f}" for texts, speed in curve)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(texts):.1f}" cy="{y(speed):.1f}" r="3" fill="{colour}"><title>{texts}: {speed:.1f}</title></circle>'
                  for texts, speed in curve]
        at = left + 200 + (width - left - right - 200) * number / len(curves)
        parts.append(f'<text x="{at:.0f}" y="{top - 10}" {ink.replace("#333", colour)}>{html.escape(name)}</text>')
    return "\n".join(parts + ["</svg>\n"])


def table(curves):
    columns = {name: dict(curve) for name, curve in curves.items()}
    lines = ["| texts | " + " | ".join(f"{name} | times" for name in columns) + " |",
             "| ---: |" + " ---: | ---: |" * len(columns)]
    for texts in sorted({texts for column in columns.values() for texts in column}):
        cells = []
        for column in columns.values():
            speed = column.get(texts)
            first = column.get(1)
            cells += [f"{speed:.1f}" if speed else "", f"{speed / first:.2f}" if speed and first else ""]
        lines.append(f"| {texts} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def falls(curves, margin):
    for name, curve in curves.items():
        for (before, fast), (texts, slow) in zip(curve, curve[1:]):
            if slow < fast * (1 - margin / 100):
                yield f"{name}: {fast:.1f} of {before} texts, {slow:.1f} of {texts}: {100 * (1 - slow / fast):.1f} % less"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE", help="a curve's name, and a file of pumice bench -o json")
    parser.add_argument("--svg", metavar="FILE", help="draw the curves")
    parser.add_argument("--title", default="", help="of the drawing")
    parser.add_argument("--margin", type=float, default=3, metavar="P", help="say where a speed falls by more than P percent (3)")
    options = parser.parse_args()
    curves = {}
    for word in options.files:
        name, equals, path = word.partition("=")
        if not equals or not name:
            fail(f"{word}: expected a name and a file, such as F16=f16.json")
        curves[name] = read(path)
    print(table(curves))
    for line in falls(curves, options.margin):
        print(line)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(draw(curves, options.title))


if __name__ == "__main__":
    main()
