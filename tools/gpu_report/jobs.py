"""Commands that run side by side, each with a limit, whatever they do."""

import os
import re
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.path.join(HERE, "work")


class Job:
    """A command with a limit. Its output goes to files: a pipe could wait for a process that hangs."""

    def __init__(self, name, command, most, folder=None):
        self.name, self.command, self.most, self.folder = name, command, most, folder

    def start(self, environment):
        path = os.path.join(WORK, "output", re.sub(r"[^A-Za-z0-9_.-]", "-", self.name))
        self.files = [path + ".out", path + ".err"]
        self.began = time.monotonic()
        with open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            try:
                self.process = subprocess.Popen(self.command, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=err, start_new_session=True)
            except OSError as error:
                err.write(str(error).encode())
                self.process = None

    def poll(self):
        return 127 if self.process is None else self.process.poll()

    def result(self, state, code):
        output, errors = [open(file, errors="replace").read() for file in self.files]
        return {"state": state, "status": code, "seconds": round(time.monotonic() - self.began, 1), "command": " ".join(self.command),
                "output": output, "errors": errors}


def end(jobs, grace):
    """Asks first: what has figures prints them. A process that the driver does not let go is left behind."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 1)):
        until = time.monotonic() + seconds
        for job in jobs:
            if job.poll() is None:
                try:
                    os.killpg(job.process.pid, number)
                except ProcessLookupError:
                    pass
        while time.monotonic() < until and any(job.poll() is None for job in jobs):
            time.sleep(0.05)


def state_of(code):
    return {0: "ok", 77: "skipped"}.get(code, "crashed" if code < 0 or code > 128 else "failed")


def run(jobs, seconds, environment, done, parallel=1):
    """Runs jobs side by side; done(job, result) hears of each that was begun, also of what time ran out for."""
    until, waiting, running = time.monotonic() + seconds, list(jobs), []
    try:
        while (waiting or running) and time.monotonic() < until:
            while waiting and len(running) < parallel:
                running.append(waiting.pop(0))
                running[-1].start(environment)
            for job in list(running):
                code = job.poll()
                if code is None and time.monotonic() > job.began + job.most:
                    end([job], 3)
                    done(job, job.result("hung", job.poll()))
                elif code is not None:
                    done(job, job.result(state_of(code), code))
                else:
                    continue
                running.remove(job)
            time.sleep(0.02)
    finally:
        end(running, 2)
        for job in running:
            done(job, job.result("unfinished", job.poll()))
