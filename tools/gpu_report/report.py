#!/usr/bin/env python3
"""Checks and measures Pumice on this machine's GPU, in the folder that tools/gpu_report.sh packed. Python alone is needed, and no root.

    python3 pumice-gpu/report.py --minutes 4 --out report
    python3 pumice-gpu/report.py --minutes 4 --out report --resume       # goes on with what report/report.json has not

report.json and report.html in the folder OUT are whole after every part, and after a SIGTERM. The parts come in the order of their worth,
and each has a limit: what hangs costs its part.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import time
from xml.etree import ElementTree

import page
from driver import manifests, missing_libraries
from jobs import HERE, WORK, Job, end, run
from results import bench_result, doctor_result, peer_result, story_result

PUMICE = os.path.join(HERE, "pumice")
STORIES = os.path.join(HERE, "models", "pretrained", "stories-2m.gguf")
SHARED = f"/dev/shm/pumice-gpu-{os.getuid()}"
SIZES = {"8b-q4": 5.0e9, "1b-f16": 2.5e9}  # of random_gguf.py's models
MATRICES = "_cm_test.cpp"  # the files of tests of cooperative matrices, whose drivers fail most
KEPT = 6000  # characters of what a failed test printed
ENDED = ("ok", "failed", "crashed", "hung", "skipped")  # the others are tried again while there is time


class Stopped(BaseException):  # no part may catch it
    pass


def stop(number, frame):
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(signal.Signals(number).name)


class Report:
    def __init__(self, options):
        self.options = options
        self.began = time.monotonic()
        self.seconds = options.minutes * 60 - 5  # for the last page, and for ending what runs
        self.state = {"schema": 1, "parts": {}}
        self.maker = None
        if options.resume and os.path.exists(options.resume):
            with open(options.resume) as file:
                self.state = json.load(file)
            self.state.pop("stopped", None)
        elif options.resume:
            print(f"there is no {options.resume}: a new report begins", flush=True)
        self.parts = self.state["parts"]
        lib = missing_libraries()
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": ":".join(filter(None, [lib, os.environ.get("LD_LIBRARY_PATH")])), "XDG_CACHE_HOME": os.path.join(WORK, "cache"),
            "PUMICE_TEST_NO_VALIDATION": "1", "PUMICE_TEST_FOLDER": HERE}
        self.state["libraries"] = sorted(os.listdir(lib))
        self.device = ["--device", options.device] if options.device else []

    def left(self):
        return self.began + self.seconds - time.monotonic()

    def save(self):
        for name, text in (("report.json", json.dumps(self.state, indent=1)), ("report.html", page.html(self.state))):
            path = os.path.join(self.options.out, name)
            with open(path + ".new", "w") as file:
                file.write(text)
            os.replace(path + ".new", path)

    def keep(self, name, result):
        self.parts[name] = result
        self.save()
        lines = (result.get("output", "") + result.get("errors", "")).strip().splitlines()
        said = result["summary"] if "summary" in result else lines[-1] if lines else ""
        print(f"{time.monotonic() - self.began:6.1f} s  {name}: {result['state']}, {result['seconds']} s  {said[:120]}", flush=True)

    def ask(self, command, seconds):
        """What a command prints; nothing if it does not end in time."""
        results = []
        run([Job("question", command, seconds)], seconds + 1, self.environment, lambda job, result: results.append(result))
        return results[0]["output"]

    def command(self, name, command, most, share, folder=None, parse=None, environment=None):
        """A part that is one command. Where the budget gave it less than `most` seconds, it is tried again while there is time."""
        before = self.parts.get(name, {"state": "unfinished", "seconds": 1})
        seconds = min(most, share * self.seconds if self.first else most, self.left())
        if before["state"] in ENDED or seconds <= before["seconds"]:
            return

        def done(job, result):
            if parse:
                try:
                    result.update(parse(result))
                except Exception as error:  # whatever a program printed, the report goes on
                    result["unread"] = f"{type(error).__name__}: {error}"
                    if result["state"] == "ok":  # else what it said of its failure is worth more
                        result["summary"] = f"not understood: {result['unread']}"
            self.keep(name, result)

        run([Job(name, command, most, folder)], seconds + 0.5, environment or self.environment, done)

    def tests(self, name, chosen, most, share):
        """A part of many test cases: of `chosen`, pairs of a program and whether a source file belongs here."""
        part = self.parts.setdefault(name, {"state": "unfinished", "seconds": 0, "jobs": {}, "later": []})
        if part["state"] in ENDED or self.left() < 2:
            return
        began = time.monotonic()
        jobs = [job for program, wanted in chosen for job in self.test_jobs(program, wanted, most)]
        seconds = min(share * self.seconds, self.left()) if self.first else self.left()
        waiting = [job for job in jobs if job.name not in part["jobs"]]
        # Some of each file before the rest of any. What was ended comes last, or it would be begun again and again.
        waiting.sort(key=lambda job: (job.name in part["later"], int(job.name.rpartition(".")[2])))

        def done(job, result):
            if result["state"] == "unfinished":
                part["later"].append(job.name)
                return
            text = result.pop("output") + result.pop("errors")
            if result["state"] not in ("ok", "skipped"):
                result["output"] = text if len(text) < KEPT else text[:KEPT // 2] + "\n...\n" + text[-KEPT // 2:]
            else:
                del result["command"]
            part["jobs"][job.name] = result

        try:
            run(waiting, seconds, self.environment, done, parallel=min(14, os.cpu_count()))
        finally:
            bad = [job for job, result in part["jobs"].items() if result["state"] not in ("ok", "skipped")]
            if jobs and len(part["jobs"]) >= len(jobs):
                part["state"] = "failed" if bad else "ok"
            part["seconds"] = round(part["seconds"] + time.monotonic() - began, 1)
            part["summary"] = f"{len(part['jobs'])} of {len(jobs)} groups of tests ran, {len(bad)} not right: {', '.join(bad)}"
            self.keep(name, part)

    def test_jobs(self, program, wanted, most):
        """Three test cases a process: a hang or a crash costs no more, and a driver's start is not paid for each."""
        path = os.path.join(HERE, program)
        listed = self.ask([path, "--list-test-cases", "--reporters=xml", "--test-suite-exclude=long"], 10)
        files = {}
        try:
            found = ElementTree.fromstring(listed or "<none/>")
        except ElementTree.ParseError:  # it was ended before it had listed all
            found = ElementTree.Element("none")
        for case in found.iter("TestCase"):
            if wanted(case.get("filename")):
                files.setdefault(case.get("filename"), []).append(case.get("name"))
        jobs = [] if files else [Job(program[5:] + ".list.0", [path, "--list-test-cases"], 10)]  # says why it has none
        for file, names in files.items():
            title = program[5:] + "." + os.path.basename(file).replace("_test.cpp", "")
            for at in range(0, len(names), 3):
                cases = ",".join(each.replace("\\", "?").replace(",", "?") for each in names[at:at + 3])  # a comma would begin another
                jobs.append(Job(f"{title}.{at // 3}", [path, f"--source-file=*/{os.path.basename(file)}", f"--test-case={cases}",
                                                       "--test-suite-exclude=long"], most))
        return jobs

    def devices(self):
        """Finds the driver: as the machine has it, or by manifests that lie elsewhere. A processor's driver only if there is no other."""
        found = None
        for manifest in [None, *manifests()]:
            if self.left() < 2 or time.monotonic() - self.began > 60:
                break
            changed = {"VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest} if manifest else {}  # the second name is of older loaders
            results = []
            job = Job("devices", [PUMICE, "devices", "--json", *self.device], 20)
            run([job], 21, self.environment | changed, lambda job, result: results.append(result))
            result = results[-1]
            try:
                listed = json.loads(result["output"])
                device = listed["devices"][listed["chosen"]]
            except (ValueError, KeyError, IndexError, TypeError):
                device = None
            if found is None or (device and not found[2]) or (device and device["type"] != "CPU"):
                found = result, changed, device
            if device and device["type"] != "CPU":
                break
        result, changed, device = found
        self.environment |= changed
        result["driver_files"] = changed.get("VK_DRIVER_FILES", os.environ.get("VK_DRIVER_FILES", ""))
        if device:
            if self.state.setdefault("device", device) != device:  # what was resumed is of another one
                self.parts.clear()
            self.state["device"] = device
        self.state["version"] = ", ".join(self.ask([PUMICE, "--version"], 10).split("\n")[:2])
        self.state["date"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        self.state["machine"] = machine() | {"nvidia-smi": self.ask(["nvidia-smi"], 10)}
        result["summary"] = f"{device['name']}, {device['driver']} {device['driver_version']}" if device else "no Vulkan device"
        if changed:
            result["summary"] += f", by {changed['VK_DRIVER_FILES']}"
        if not device:
            result["state"] = "failed"
        self.keep("devices", result)
        return device

    def make_models(self, device):
        """Begins to write the models that fit; returns their names and paths."""
        wanted = [model for model in SIZES if SIZES[model] * 1.3 + 1e9 < device["memory_bytes"]] if device["type"] != "CPU" else ["tiny"]
        while wanted and not (folder := self.room(sum(SIZES.get(model, 0) for model in wanted))):
            wanted.pop(0)
        made = [(model, os.path.join(folder, model + ".gguf")) for model in wanted]
        if made:
            self.maker = Job("models", [sys.executable, os.path.join(HERE, "random_gguf.py"), *(word for pair in made for word in pair)], 600)
            self.maker.start(os.environ)
        return made + [(os.path.splitext(os.path.basename(path))[0], os.path.abspath(path)) for path in self.options.model]

    def room(self, size):
        """A folder for files of `size` bytes: in memory, where programs load them faster, or beside this one."""
        memory = int(re.search(r"MemAvailable:\s+(\d+)", open("/proc/meminfo").read())[1]) * 1024
        for folder, enough in ((SHARED, memory > size * 2 + 4e9), (os.path.join(WORK, "models"), True)):
            base = os.path.dirname(folder)
            if enough and os.path.isdir(base) and os.access(base, os.W_OK) and shutil.disk_usage(base).free > size * 1.1 + 1e9:
                os.makedirs(folder, exist_ok=True)
                return folder
        return None

    def made(self, path):
        while self.left() > 10 and not os.path.exists(path) and self.maker and self.maker.poll() is None:
            time.sleep(0.1)
        return os.path.exists(path)

    def speed(self, model, path, device):
        cpu = device["type"] == "CPU"
        sizes = ["-p", "64", "-n", "16", "-d", "0"] if cpu else ["-p", "512", "-n", "64", "-d", "0,4096"]
        self.command(f"speed {model}", [PUMICE, "bench", path, *self.device, "--chunk", "512", *sizes, *([] if cpu else ["--context", "8192"]),
                                        "-r", "3", "-w", "3", "-o", "json", "--profile"], 90, 0.25, parse=bench_result)
        peer = os.path.join(HERE, "peer")
        if not os.path.isdir(peer):
            return
        # By its own C library, from the folder of its backends, where it looks for them. A driver for processors it uses only if told to.
        libraries = ":".join([os.path.join(peer, "lib"), os.path.join(peer, "backends"), self.environment["LD_LIBRARY_PATH"]])
        command = [os.path.join(peer, "lib", "ld-linux-x86-64.so.2"), "--library-path", libraries, os.path.join(peer, "llama-bench.bin"), "-m",
                   path, *sizes, "-ub", "512", "-r", "6", "-ngl", "99", "-fa", "1", "-o", "jsonl"]
        self.command(f"llama.cpp {model}", command, 120, 0.3, folder=os.path.join(peer, "backends"),
                     parse=lambda result: peer_result(result, device),
                     environment=self.environment | {"GGML_VK_VISIBLE_DEVICES": str(device["index"])})

    def variants(self, model, path, device):
        """Each way to multiply alone: what the choice among them costs."""
        has = device["features"]
        for variant, there, sizes in (("subgroup", True, ["-p", "0", "-n", "32"]), ("dot", has["integer_dot_product"], ["-p", "0", "-n", "32"]),
                                      ("tiled", True, ["-p", "512", "-n", "0"]), ("cm", has["cooperative_matrix"], ["-p", "512", "-n", "0"]),
                                      ("cm2", has["cooperative_matrix2"], ["-p", "512", "-n", "0"])):
            if there:
                self.command(f"{variant} {model}", [PUMICE, "bench", path, *self.device, "--kernel-variant", variant, "--chunk", "512", *sizes,
                                                    "--context", "1024", "-r", "2", "-w", "2", "-o", "json", "--profile"], 40, 0.06, parse=bench_result)

    def round(self, device, models):
        self.command("story", [PUMICE, "generate", STORIES, "--prompt", "Once upon a time", "-n", "60", "--temp", "0", "--no-tune", "--no-cache",
                               "--json", "--verbose", *self.device], 60, 0.2, parse=lambda result: story_result(result, STORIES))
        matrices = lambda file: file.endswith(MATRICES)
        safe = lambda file: not matrices(file)
        self.tests("kernels", [("test_gpu", safe), ("test_kernel", safe)], 90, 0.35)
        self.command("doctor", [PUMICE, "doctor", "--quick", *self.device], 120, 0.12, parse=doctor_result)
        if device["features"]["cooperative_matrix"]:
            self.tests("matrices", [("test_kernel", matrices)], 60, 0.12)
        for model, path in models:
            if self.made(path):
                self.speed(model, path, device)
        for model, path in models:
            if os.path.exists(path):
                self.command(f"plan {model}", [PUMICE, "inspect", path, "--plan", "--measure", "--context", "4096", *self.device], 60, 0.15)
        if device["type"] != "CPU":
            for model, path in models:
                if os.path.exists(path):
                    self.variants(model, path, device)
        self.tests("models", [("test_model", safe)], 90, 0.3)
        self.tests("commands", [("test_command", safe), ("test_embed", safe)], 90, 0.3)

    def all(self):
        device = self.devices()
        if not device:
            return
        models = self.make_models(device)
        self.first = True  # each part has its share of the time; then what is unfinished has the rest
        self.round(device, models)
        self.first = False
        self.round(device, models)


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    return {"system": " ".join(os.uname()[i] for i in (0, 2, 4)), "c_library": os.confstr("CS_GNU_LIBC_VERSION"),
            "processor": model[1] if model else "", "processors": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="for everything (10)")
    parser.add_argument("--out", default="report", help="the folder for report.json and report.html (report)")
    parser.add_argument("--resume", nargs="?", const="", metavar="JSON", help="go on with this report (OUT/report.json)")
    parser.add_argument("--device", help="Vulkan device: index or part of its name; the test programs take the best")
    parser.add_argument("--model", action="append", default=[], help="also measure this GGUF file")
    options = parser.parse_args()
    if options.resume == "":
        options.resume = os.path.join(options.out, "report.json")
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, stop)
    os.makedirs(options.out, exist_ok=True)
    os.makedirs(os.path.join(WORK, "output"), exist_ok=True)
    report = Report(options)
    try:
        report.all()
    except Stopped as why:
        report.state["stopped"] = str(why)
    finally:
        if report.maker:
            end([report.maker], 0)
        shutil.rmtree(SHARED, ignore_errors=True)
        shutil.rmtree(os.path.join(WORK, "models"), ignore_errors=True)
        report.save()
    print(page.table(report.state))
    unfinished = [name for name, part in report.parts.items() if part["state"] == "unfinished"]
    print(f"wrote {options.out}/report.html and report.json" + (f"; unfinished: {', '.join(unfinished)}" if unfinished else ""))


main()
