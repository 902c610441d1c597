#!/usr/bin/env python3
"""Checks the verdicts of `pumice bench ab` on this machine, while a neighbour that it starts itself works in bursts.

    tools/ab_check.py                              # some hours: 200 comparisons of each kind, of up to three minutes
    tools/ab_check.py --pairs 10 --planted 5       # a sample
    tools/ab_check.py -p 32 -n 0 --rounds 12 --bench "-r 5 -w 2"       # an hour: short rounds, no generating

It compares build/pumice with itself, and with a copy whose samples are a tenth longer: that copy is a script that runs
build/pumice and multiplies the times that it prints, so that the noise is real and the slowdown is known. The table has the
verdicts of every test. For the program itself "faster" and "slower" are false; for the slower copy all but "slower" and
"cannot tell".
"""

import argparse
import json
import multiprocessing
import os
import random
import shlex
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VERDICTS = ["faster", "slower", "the same", "cannot tell"]
SLOWER = """#!{python}
import json, os, subprocess, sys
turns = [int(file) for file in os.environ.get("PUMICE_BENCH_TURNS", "").split(",") if file]
run = subprocess.run([{pumice!r}] + sys.argv[1:], capture_output=True, text=True, pass_fds=turns)
sys.stderr.write(run.stderr)
if run.returncode == 0:
    report = json.loads(run.stdout)
    for result in report["results"]:
        for sample in result["samples"]:
            sample["seconds"] *= {factor}
    print(json.dumps(report))
sys.exit(run.returncode)
"""


def fail(message):
    sys.exit(f"ab_check: {message}")


def neighbour(work, rest):
    """Works on one processor for about `work` seconds at a time, and rests for about `rest` seconds."""
    parent = os.getppid()
    while os.getppid() == parent:
        end = time.monotonic() + random.expovariate(1 / work)
        while time.monotonic() < end:
            sum(range(10000))
        time.sleep(random.expovariate(1 / rest))


def compare(options, a, b):
    command = [options.pumice, "bench", "ab", a, b, options.model, "-p", options.prompts, "-n", options.counts,
               "--seconds", str(options.seconds), "--json", *shlex.split(options.bench)]
    if options.rounds:
        command += ["--rounds", str(options.rounds)]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode != 0:
        fail(f"{' '.join(command)} ended with the status {run.returncode}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def table(rows):
    head = ["B", "tests compared", *VERDICTS, "rounds", "seconds", "ratio, least - greatest"]
    cells = [head]
    for name, results in rows.items():
        tests = [test for report in results for test in report["results"]]
        if not tests:
            continue
        ratios = [test["ratio"] for test in tests]
        mean = lambda values: f"{sum(values) / len(values):.0f}"
        cells.append([name, str(len(tests)), *[str(sum(test["verdict"] == each for test in tests)) for each in VERDICTS],
                      mean([len(report["rounds"]) for report in results]), mean([report["seconds"] for report in results]),
                      f"{min(ratios):.3f} - {max(ratios):.3f}"])
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) if i == 0 else "-" * (width + 1) + ":" for i, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200, help="number of comparisons of the program with itself (200)")
    parser.add_argument("--planted", type=int, default=None, help="number of comparisons with the slower copy (as many)")
    parser.add_argument("--seconds", type=float, default=180, help="the most that a comparison takes (180)")
    parser.add_argument("--rounds", type=int, help="the most rounds of a comparison (as many as there is time for)")
    parser.add_argument("--slowdown", type=float, default=10, metavar="P", help="percent of the planted slowdown (10)")
    parser.add_argument("--neighbours", type=int, default=1, help="number of processes that disturb (1)")
    parser.add_argument("--work", type=float, default=2, metavar="S", help="mean seconds of their bursts (2)")
    parser.add_argument("--rest", type=float, default=3, metavar="S", help="mean seconds between bursts (3)")
    parser.add_argument("--pumice", default=os.path.join(HERE, "..", "build", "pumice"), help="the program (build/pumice)")
    parser.add_argument("--model", default=os.path.join(HERE, "..", "models", "pretrained", "stories-2m.gguf"),
                        help="the model (the included one)")
    parser.add_argument("-p", "--prompts", default="64", metavar="N,...", help="prompt lengths in tokens (64)")
    parser.add_argument("-n", "--counts", default="16", metavar="N,...", help="numbers of tokens to generate (16)")
    parser.add_argument("--bench", default="", metavar="OPTIONS", help="further options of pumice bench, in quotes")
    options = parser.parse_args()
    options.pumice = os.path.realpath(options.pumice)
    if not os.access(options.pumice, os.X_OK):
        fail(f"{options.pumice}: build it with tools/build.sh, or give another one with --pumice")
    for _ in range(options.neighbours):
        multiprocessing.Process(target=neighbour, args=(options.work, options.rest), daemon=True).start()
    rows = {"the same program": [], f"{options.slowdown:g} % slower": []}
    with tempfile.TemporaryDirectory() as folder:
        slower = os.path.join(folder, "pumice")
        with open(slower, "w") as file:
            file.write(SLOWER.format(python=sys.executable, pumice=options.pumice, factor=1 + options.slowdown / 100))
        os.chmod(slower, stat.S_IRWXU)
        planted = options.pairs if options.planted is None else options.planted
        for pair in range(max(options.pairs, planted)):
            for name, b, count in zip(rows, [options.pumice, slower], [options.pairs, planted]):
                if pair < count:
                    rows[name].append(compare(options, options.pumice, b))
            if sys.stderr.isatty() or (pair + 1) % 10 == 0:
                print(f"{pair + 1} of {max(options.pairs, planted)}\n{table(rows)}\n", file=sys.stderr, flush=True)
    busy = [report["machine"]["others"] for results in rows.values() for report in results]
    print(f"Comparisons of at most {options.seconds:g} s; other programs used "
          f"{100 * min(busy):.0f} to {100 * max(busy):.0f} % of the processors\n\n{table(rows)}")


main()
