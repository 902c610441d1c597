#!/usr/bin/env python3
"""Runs pumice bench and llama.cpp's llama-bench in turn, on the same Vulkan device and the same GGUF file, and prints how
their speeds compare.

    tools/compare.py model.gguf
    tools/compare.py model.gguf --llama ~/llama.cpp/build/bin --llama-device 1 --device NVIDIA
    tools/compare.py /w/model.gguf --pumice 'chroot DIR /w/pumice' --llama-bench 'chroot DIR llama-bench' --llama-cpu
    tools/compare.py model.gguf -p 0 -d 0 --batches 1,2,4,8,9,16,17,32,64 --svg batches.svg

Without --llama or --llama-bench it takes llama-bench from the PATH, or else, as root, installs Debian's packages of it. Each
round runs both with every test, the one that begins taking turns, so that what slows the machine down meets both. A round's
ratio is that of its two medians; the table has the median of the ratios, and the least and the greatest.

With --batches, both also generate several texts in the same steps, llama.cpp by its llama-batched-bench, which is expected
beside llama-bench: tokens per second of all texts together. --svg draws them over the number of texts.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time

import batch_curves

PACKAGES = ["llama.cpp-tools", "libggml0-backend-vulkan"]


def fail(message):
    sys.exit(f"compare: {message}")


def words(option, command):
    try:
        return shlex.split(command)
    except ValueError as error:
        fail(f"{option} {command}: {error}")


def json_of(name, command, text):
    try:
        return json.loads(text)
    except ValueError:
        fail(f"{name}: {shlex.join(command)} printed no JSON: {text[:80]!r}")


def note(message):
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)


def install_llama():
    """Debian's llama-bench with its Vulkan backend."""
    advice = "give its folder with --llama, or a command with --llama-bench"
    if not shutil.which("apt-get"):
        fail(f"llama-bench is not in the PATH, and there is no apt-get to install it with: {advice}")
    known = subprocess.run(["apt-cache", "show", *PACKAGES], capture_output=True).returncode == 0
    if not known:
        fail(f"llama-bench is not in the PATH, and this system has no packages {' and '.join(PACKAGES)}: {advice}")
    if os.geteuid() != 0:
        fail(f"llama-bench is not in the PATH: run 'apt-get install {' '.join(PACKAGES)}' as root, or {advice}")
    note("installing llama.cpp")
    run = subprocess.run(["apt-get", "-q", "-y", "install", "--no-install-recommends", *PACKAGES],
                         env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    if run.returncode != 0:
        fail(f"apt-get could not install {' '.join(PACKAGES)}: {run.stderr.strip()}")


def llama_command(options):
    if options.llama_bench:
        return words("--llama-bench", options.llama_bench)
    if options.llama:
        program = options.llama if os.path.isfile(options.llama) else os.path.join(options.llama, "llama-bench")
        if not os.access(program, os.X_OK):
            fail(f"{program}: expected llama.cpp's llama-bench")
        return [program]
    if not shutil.which("llama-bench"):
        install_llama()
    return ["llama-bench"]


def pumice_command(options):
    if options.pumice:
        return words("--pumice", options.pumice)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "pumice")
    if os.access(program, os.X_OK):
        return [os.path.normpath(program)]
    if shutil.which("pumice"):
        return ["pumice"]
    fail("there is no build/pumice: build it with tools/build.sh, or give a command with --pumice")


def output_of(name, command, environment=None):
    try:
        run = subprocess.run(command, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL,
                             capture_output=True, text=True)
    except OSError as error:
        fail(f"{name}: {shlex.join(command)}: {error.strerror}")
    if run.returncode != 0:
        fail(f"{name}: {shlex.join(command)} ended with status {run.returncode}:\n{run.stderr.strip()}")
    return run.stdout


def test_name(prompt, count, depth, batch=1):
    name = f"pp{prompt}" if prompt else f"tg{count}"
    return name + (f" b{batch}" if batch > 1 else "") + (f" @ d{depth}" if depth else "")


def numbers(option, text):
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        fail(f"{option} {text}: expected whole numbers, such as 1,2,4")
    return found


class Pumice:
    name = "pumice"

    def __init__(self, options):
        self.command = pumice_command(options) + ["bench", options.model, "-p", options.prompts, "-n", options.counts,
                                                  "-d", options.depths, "-r", str(options.repetitions), "-w", "1",
                                                  "-o", "json"]
        if options.batches:
            self.command += ["--batch", options.batches]
        if options.device:
            self.command += ["--device", options.device]

    def run(self):
        """Tokens per second of each test: the median of its samples."""
        report = json_of(self.name, self.command, output_of(self.name, self.command))
        self.device = report["device"]
        self.about = f"pumice {report['version']}: {report['device']}, {report['driver']} {report['driver_version']}"
        return {each["test"]: each["median_tokens_per_second"] for each in report["results"]}


class Llama:
    def __init__(self, options, cpu):
        self.cpu = cpu
        self.repetitions = options.repetitions
        self.name = "llama.cpp, CPU" if cpu else "llama.cpp"
        self.command = llama_command(options) + ["-m", options.model, "-p", options.prompts, "-n", options.counts, "-d",
                                                 options.depths, "-r", str(options.repetitions), "-fa", "1", "-o", "jsonl"]
        self.command += ["-dev", "none", "-ngl", "0"] if cpu else ["-ngl", "99"]
        # Only what is named here is used if it is a CPU's Vulkan driver; otherwise the CPU backend takes over.
        self.environment = {"GGML_VK_VISIBLE_DEVICES": options.llama_device}
        self.batches = self.batch_command(options) if options.batches else None

    def batch_command(self, options):
        """llama-batched-bench beside llama-bench. It has no test without a prompt: one of a token is as good."""
        program = llama_command(options)
        at = [i for i, word in enumerate(program) if word.endswith("llama-bench")]
        if not at:
            fail(f"{shlex.join(program)}: --batches looks for llama-batched-bench beside llama-bench, which is not named there")
        program[at[-1]] = program[at[-1]].removesuffix("llama-bench") + "llama-batched-bench"
        batches = [each for each in numbers("--batches", options.batches) if each > 1]
        prompts = [max(each, 1) for each in numbers("-d", options.depths)]
        counts = [each for each in numbers("-n", options.counts) if each > 0]
        if not batches or not counts:
            return None
        positions = max(batches) * (max(prompts) + max(counts) + 8)
        lists = [",".join(str(each) for each in some) for some in (prompts, counts, batches)]
        program += ["-m", options.model, "-c", str(positions), "-npp", lists[0], "-ntg", lists[1], "-npl", lists[2], "-fa", "on",
                    "--output-format", "jsonl"]
        return program + (["-dev", "none", "-ngl", "0"] if self.cpu else ["-ngl", "99"])

    def run_batches(self, repetitions):
        """Tokens per second of all texts of each batch: the median of its runs."""
        samples = {}
        for _ in range(repetitions):
            output = output_of(self.name, self.batches, self.environment)
            lines = [json_of(self.name, self.batches, line) for line in output.splitlines() if line.startswith("{")]
            if not lines:
                fail(f"{self.name}: {shlex.join(self.batches)} printed no results")
            for each in lines:
                depth = 0 if each["pp"] == 1 else each["pp"]
                samples.setdefault(test_name(0, each["tg"], depth, each["pl"]), []).append(each["speed_tg"])
        return {test: statistics.median(speeds) for test, speeds in samples.items()}

    def run(self):
        lines = [line for line in output_of(self.name, self.command, self.environment).splitlines() if line.startswith("{")]
        results = [json_of(self.name, self.command, line) for line in lines]
        if not results:
            fail(f"{self.name}: {shlex.join(self.command)} printed no results")
        first = results[0]
        self.device = first.get("cpu_info" if self.cpu else "gpu_info", "").strip()
        self.about = f"{self.name} {first.get('build_number', '')} ({first.get('build_commit', '')}): {self.device}"
        if not self.cpu and ("Vulkan" not in first.get("backends", "") or not self.device):
            fail(f"llama.cpp ran on its backend '{first.get('backends', '')}' with the device '{self.device}': expected "
                 "Vulkan with a device; --llama-device says which one by its number")
        speeds = {test_name(each["n_prompt"], each["n_gen"], each["n_depth"]): statistics.median(each["samples_ts"])
                  for each in results}
        return speeds | (self.run_batches(self.repetitions) if self.batches else {})


def same_device(pumice, llama):
    """llama.cpp cuts some names short, so that one has to begin with the other."""
    a, b = pumice.device.strip(), llama.device.split(",  ")[0].strip()
    return a.startswith(b) or b.startswith(a)


def measure(sides, rounds):
    """A dictionary of tests for each side and round."""
    results = [[] for _ in sides]
    for number in range(rounds):
        order = list(range(len(sides)))
        for at in order if number % 2 == 0 else reversed(order):
            note(f"round {number + 1} of {rounds}: {sides[at].name}")
            results[at].append(sides[at].run())
            if number == 0 and at == 1 and not same_device(sides[0], sides[1]):
                fail(f"pumice ran on '{sides[0].device}' and llama.cpp on '{sides[1].device}': choose one device for both "
                     "with --device and --llama-device")
    note("")
    return results


def table(sides, results):
    head = ["test"] + [f"{side.name} t/s" for side in sides]
    for side in sides[1:]:
        head += [f"ratio to {side.name}", "least - greatest"]
    rows = []
    for test in results[0][0]:
        if any(test not in run for runs in results for run in runs):
            continue
        speeds = [[run[test] for run in runs] for runs in results]
        row = [test] + [f"{statistics.median(each):.2f}" for each in speeds]
        for other in speeds[1:]:
            ratios = [ours / theirs for ours, theirs in zip(speeds[0], other)]
            row += [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}"]
        rows.append(row)
    if not rows:
        fail("the two have no test in common")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in [head, *rows]]
    rule = "|" + "|".join("-" * (width + 2) if i == 0 else "-" * (width + 1) + ":" for i, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def curve_points(runs, count, depth):
    """How many texts, and the median of their tokens per second over the rounds."""
    points = []
    for test in runs[0]:
        batch = next((int(word[1:]) for word in test.split() if word[0] == "b" and word[1:].isdigit()), 1)
        if test == test_name(0, count, depth, batch):
            points.append((batch, statistics.median(run[test] for run in runs)))
    return sorted(points)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file, as both commands see it")
    parser.add_argument("--rounds", type=int, default=5, help="number of times that both are run in turn (5)")
    parser.add_argument("--repetitions", type=int, default=3, help="measured runs of each test in a round (3)")
    parser.add_argument("-p", "--prompts", default="128,512", metavar="N,...", help="prompt lengths in tokens (128,512)")
    parser.add_argument("-n", "--counts", default="16", metavar="N,...", help="numbers of tokens to generate (16)")
    parser.add_argument("-d", "--depths", default="0,1024", metavar="N,...", help="tokens in the context before each test (0,1024)")
    parser.add_argument("--pumice", default=os.environ.get("PUMICE"), metavar="COMMAND",
                        help="command that starts pumice (default: $PUMICE, or build/pumice)")
    parser.add_argument("--llama-bench", default=os.environ.get("LLAMA_BENCH"), metavar="COMMAND",
                        help="command that starts llama-bench (default: $LLAMA_BENCH)")
    parser.add_argument("--llama", metavar="PATH", help="path of llama-bench, or of its folder")
    parser.add_argument("--device", help="pumice's device: a number, a part of its name, or a UUID")
    parser.add_argument("--llama-device", default="0", metavar="N", help="llama.cpp's Vulkan device (0)")
    parser.add_argument("--llama-cpu", action="store_true", help="also compare with llama.cpp's CPU backend")
    parser.add_argument("--batches", metavar="N,...", help="also generate so many texts at a time")
    parser.add_argument("--svg", metavar="FILE", help="draw the speed over the number of texts, of the first of -n and -d")
    parser.add_argument("--json", metavar="FILE", help="write the figures of every round to this file")
    options = parser.parse_args()
    if options.rounds < 1 or options.repetitions < 1:
        fail("--rounds and --repetitions: expected at least 1")
    if options.batches:
        numbers("--batches", options.batches)
    elif options.svg:
        fail("--svg draws the speed over the number of texts: give --batches")
    kept = None
    if options.json:
        try:
            kept = open(options.json, "w")
        except OSError as error:
            fail(f"--json {options.json}: {error.strerror}")
    sides = [Pumice(options), Llama(options, False)]
    if options.llama_cpu:
        sides.append(Llama(options, True))
    results = measure(sides, options.rounds)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    print(f"{os.path.basename(options.model)}, {date}, {options.rounds} rounds of {options.repetitions} samples each")
    for side in sides:
        print(f"{side.about}\n    {shlex.join(side.command)}")
        if getattr(side, "batches", None):
            print(f"    {shlex.join(side.batches)}")
    print("\n" + table(sides, results))
    if options.svg:
        count, depth = numbers("-n", options.counts)[0], numbers("-d", options.depths)[0]
        title = f"{os.path.basename(options.model)}, {sides[0].device}, {date}"
        with open(options.svg, "w") as file:
            file.write(batch_curves.draw({side.name: curve_points(runs, count, depth) for side, runs in zip(sides, results)}, title))
    if kept:
        with kept:
            json.dump({"model": options.model, "date": date,
                       "sides": [{"name": side.name, "about": side.about, "command": side.command, "rounds": runs}
                                 for side, runs in zip(sides, results)]}, kept, indent=2)


main()
