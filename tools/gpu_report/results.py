"""What the parts' commands printed, as the report keeps it."""

import json
import re
import statistics


def story_result(result, model):
    """No token of it is chosen by a hair: every device has to give the same."""
    with open(model.replace(".gguf", ".expected.json")) as file:
        right = json.loads(result["output"])["ids"] == json.load(file)["ids"]
    return {"state": result["state"] if right else "failed", "summary": json.loads(result["output"])["text"]}


def profile_lines(report):
    for profile in report.get("profiles", []):
        yield f"{profile['step']}: {1e3 * profile['seconds']:.3f} ms in {profile['dispatches']} dispatches, run one by one"
        for each in profile["kernels"]:
            yield (f"{each['kernel']:<28} {each['dispatches']:>5} {1e3 * each['seconds']:>10.3f} ms {each['flops'] / each['seconds'] / 1e9:>10.2f} GFLOP/s"
                   f" {each['bytes'] / each['seconds'] / 1e9:>8.2f} GB/s")


def bench_result(result):
    report = json.loads(result["output"])
    speeds = {each["test"]: each["median_tokens_per_second"] for each in report["results"]}
    for each in report["results"]:
        for sample in each.get("samples", []):
            sample.pop("token_seconds", None)
    return {"report": report, "output": "\n".join(profile_lines(report)), "speeds": speeds,
            "summary": ", ".join(f"{test} {speed:.1f}" for test, speed in speeds.items())}


def peer_result(result, device):
    """The last three samples of six: the ones before warm it up, as Pumice's own. What ran elsewhere is no figure."""
    lines = [json.loads(line) for line in result["output"].splitlines() if line.startswith("{") and line.endswith("}")]
    speeds = {}
    for line in lines:
        gpu = line["gpu_info"].strip()
        if "Vulkan" not in line["backends"] or not gpu or not (device["name"].startswith(gpu) or gpu.startswith(device["name"])):
            return {"state": "failed", "refused": f"llama.cpp ran on '{gpu}' by '{line['backends']}'", "lines": lines,
                    "summary": f"refused: it ran on '{gpu}' by '{line['backends']}'"}
        test = (f"pp{line['n_prompt']}" if line["n_prompt"] else f"tg{line['n_gen']}") + (f" @ d{line['n_depth']}" if line["n_depth"] else "")
        speeds[test] = statistics.median(line["samples_ts"][3:])
    return {"lines": lines, "speeds": speeds, "summary": ", ".join(f"{test} {speed:.1f}" for test, speed in speeds.items())}


def doctor_result(result):
    verdicts = [{"state": line[:6].strip(), "what": line[6:29].strip(), "text": line[29:].strip()}
                for line in result["output"].splitlines()[1:] if re.match(r"[a-zA-Z]+ ", line) and len(line) > 29]
    bad = [each["what"] for each in verdicts if each["state"] not in ("ok", "skip")]
    return {"verdicts": verdicts, "summary": f"{len(verdicts)} verdicts, {len(bad)} not right: {', '.join(bad)}"}
