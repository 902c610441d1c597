"""report.html and the table of speeds, of what report.json has."""

import html as markup

STYLE = (":root{color-scheme:light dark}body{font:16px sans-serif;max-width:75em;margin:2em auto;padding:0 1em}td,th{text-align:left;padding:.1em 1em .1em 0;vertical-align:top}"
         "table{display:block;overflow-x:auto}pre{overflow:auto;background:#8882;padding:1em;max-height:30em}.bad{color:#d22;font-weight:bold}")


def rows(state):
    """Device, driver, model, test, Pumice's tokens a second, llama.cpp's, and the ratio of the two."""
    device = state.get("device") or {}
    for name, part in state["parts"].items():
        if not name.startswith("speed "):
            continue
        peer = state["parts"].get("llama.cpp " + name[6:], {})
        for test, ours in part.get("speeds", {}).items():
            theirs = peer.get("speeds", {}).get(test)
            yield [device.get("name", ""), f"{device.get('driver', '')} {device.get('driver_version', '')}", name[6:], test, f"{ours:.1f}",
                   f"{theirs:.1f}" if theirs else "refused" if "refused" in peer else "", f"{ours / theirs:.2f}" if theirs else ""]


HEAD = ["device", "driver", "model", "test", "Pumice tokens/s", "llama.cpp tokens/s", "ratio"]


def table(state):
    lines = [HEAD, ["---", "---", "---", "---", "---:", "---:", "---:"], *rows(state)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text(value):
    return markup.escape(str(value))


def anchor(name):
    return name.replace(" ", "-")


def cells(values, tag="td"):
    return "<tr>" + "".join(f"<{tag}>{text(value)}" for value in values) + "</tr>"


def marked(state):
    return text(state) if state in ("ok", "skipped") else f'<span class="bad">{text(state)}</span>'


def folded(title, body):
    return f"<details><summary>{title}</summary><pre>{text(body)}</pre></details>" if body and body.strip() else ""


def section(name, part):
    parts = [f'<h2 id="{anchor(name)}">{text(name)}: {marked(part["state"])}, {part["seconds"]} s</h2>']
    if "command" in part:
        parts.append(f"<p><code>{text(part['command'])}</code></p>")
    if part.get("summary"):
        parts.append(f"<p>{text(part['summary'])}</p>")
    for job, result in part.get("jobs", {}).items():
        if result["state"] not in ("ok", "skipped"):
            parts.append(folded(f"{text(job)}: {marked(result['state'])}, {result['seconds']} s", result["command"] + "\n" + result.get("output", "")))
    parts.append(folded("output", part.get("output", "")))
    parts.append(folded("messages", part.get("errors", "")))
    return "\n".join(parts)


def html(state):
    machine = state.get("machine", {})
    lines = ['<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
             "<title>Pumice on this GPU</title>", f"<style>{STYLE}</style>", "<h1>Pumice on this GPU</h1>",
             f"<p>{text(state.get('version', ''))}, {text(state.get('date', ''))}"
             + (f"; stopped by {text(state['stopped'])}" if "stopped" in state else "") + "</p>", "<table>", cells(HEAD, "th")]
    lines += [cells(row) for row in rows(state)]
    lines += ["</table><h2>Parts</h2><table>"]
    for name, part in state["parts"].items():
        lines.append(f'<tr><td><a href="#{anchor(name)}">{text(name)}</a><td>{marked(part["state"])}<td>{part["seconds"]} s'
                     f'<td>{text(part.get("summary", ""))}</tr>')
    lines.append("</table><h2>Machine</h2><table>")
    lines += [cells([name, value]) for name, value in machine.items() if name != "nvidia-smi"]
    lines += [cells(["libraries of the pack", " ".join(state.get("libraries", []))]), "</table>", folded("nvidia-smi", machine.get("nvidia-smi", ""))]
    lines += [section(name, part) for name, part in state["parts"].items()]
    return "\n".join(lines) + "\n"
