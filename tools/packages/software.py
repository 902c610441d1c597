#!/usr/bin/env python3
"""Says what of others is in a build of make.sh: a list in SPDX 2.3's JSON, and the texts of their licences.

    software.py BUILD NAME LIST.spdx.json LICENCES

BUILD: a build folder of Ninja's, whose linker has written maps (*.map); NAME: of what is packed; LICENCES: a folder, which is made.

Nothing is taken on trust: the maps name the archives that code was taken from, and Ninja's log of headers those that were compiled
in. Each file is looked up in the Debian package that has it, or whose source tools/windows.sh compiled. A package that the table
below does not know ends this with an error: look at its licence, then add it.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WINDOWS = ROOT / "build" / "windows"  # tools/windows.sh

# Debian's source packages, without the numbers that their names end with.
LICENCES = {
    "boost": "BSL-1.0",
    "cli11": "BSD-3-Clause",
    "flac": "BSD-3-Clause",
    "fmtlib": "MIT",
    "fonts-dejavu": "Bitstream-Vera",
    "freetype": "FTL",
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "gcc-mingw-w64": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "libedit": "BSD-3-Clause",
    "libjpeg-turbo": "IJG AND BSD-3-Clause AND Zlib",
    "libogg": "BSD-3-Clause",
    "libpng": "libpng-2.0",
    "libvorbis": "BSD-3-Clause",
    "libz-mingw-w64": "Zlib",
    "mingw-w64": "ZPL-2.1 AND MIT",
    "nlohmann-json": "MIT",
    "opus": "BSD-3-Clause",
    "opusfile": "BSD-3-Clause",
    "pcre": "BSD-3-Clause",
    "sentencepiece": "Apache-2.0 AND BSD-3-Clause",
    "utf8proc": "MIT AND Unicode-DFS-2016",
    "vulkan-loader": "Apache-2.0",
    "zlib": "Zlib",
}
# Declarations alone come from these: what code they have comes from archives.
ONLY_DECLARED = {"glibc", "linux", "libselinux"}


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


class Software:
    """A source package: which version, and where its licence is."""

    def __init__(self, source, version, licence_file):
        self.source, self.version, self.licence_file = source, version, Path(licence_file)
        self.licence = LICENCES.get(source) or LICENCES.get(re.sub(r"[-0-9.]+$", "", source))
        if not self.licence and source not in ONLY_DECLARED:
            sys.exit(f"software.py: {source} is linked, and its licence is not in the table: see {licence_file}")


def linked_files(build):
    """Archives and objects from outside the build that the linker took code from."""
    files = set()
    for link_map in sorted(build.glob("*.map")):
        text = link_map.read_text(errors="replace")
        taken = text.split("\nMemory Configuration", 1)[0]
        files.update(re.findall(r"^(/\S+\.a)\(", taken, re.M))
        files.update(path for path in re.findall(r"^LOAD (/\S+\.o)$", text, re.M) if not path.endswith("/newer_functions.o"))
    if not files:
        sys.exit(f"software.py: {build} has no linker's maps: make.sh has them written")
    return files


def compiled_headers(build):
    """Headers of the objects that are in the command and the library."""
    files, wanted = set(), False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            wanted = re.match(r"CMakeFiles/pumice\w*\.dir/", line) is not None
        elif wanted and line:
            files.add(line.strip())
    if not files:
        sys.exit(f"software.py: Ninja knows no headers of {build}")
    return files


class Finder:
    """Whose a file is."""

    def __init__(self):
        self.made = {}  # what tools/windows.sh installed, by path
        for manifest in WINDOWS.glob("*/install_manifest.txt"):
            for line in manifest.read_text().splitlines():
                self.made[line.strip()] = manifest.parent.name
        self.known = {}

    def find(self, paths):
        """{path: Software} of those that are somebody's, of all paths at once: asking dpkg takes a while."""
        found, asked = {}, {}
        for path in paths:
            libraries = str(WINDOWS / "libraries") + "/"
            if path in self.made:
                found[path] = self.source_tree(self.made[path])
            elif "libsentencepiece" in path or path.endswith("/sentencepiece_processor.h") and path.startswith(libraries):
                found[path] = self.source_tree("sentencepiece")
            elif re.search(r"/include/(vulkan|vk_video)/", path):
                found[path] = self.vulkan(path)
            elif path.startswith(libraries):
                asked["/usr/" + path[len(libraries):]] = path
            elif path.startswith("/usr/") or path.startswith("/lib/"):
                asked[path] = path
        for asked_path, package in self.packages(sorted(asked)).items():
            found[asked[asked_path]] = self.package(package)
        missing = sorted(set(asked) - {asked_path for asked_path in asked if asked[asked_path] in found})
        if missing:
            sys.exit(f"software.py: no package has {missing[0]}")
        return found

    def packages(self, paths):
        names = {}
        for begin in range(0, len(paths), 500):
            for line in output("dpkg", "-S", *paths[begin:begin + 500]).splitlines():
                package, _, path = line.partition(": ")
                names[path] = package.split(",")[0]
        return names

    def package(self, name):
        if name not in self.known:
            source, version = output("dpkg-query", "-W", "-f=${source:Package} ${source:Version}", name).split()
            self.known[name] = self.remember(source, version, f"/usr/share/doc/{name.split(':')[0]}/copyright")
        return self.known[name]

    def source_tree(self, name):
        if name not in self.known:
            tree = next(tree for tree in sorted((WINDOWS / "sources").glob(f"{name}-*")) if tree.is_dir())
            version = re.match(r"\S+ \(([^)]+)\)", (tree / "debian" / "changelog").read_text()).group(1)
            self.known[name] = self.remember(name, version, tree / "debian" / "copyright")
        return self.known[name]

    def vulkan(self, path):
        root = Path(path[:path.index("/include/")])
        core = (root / "include/vulkan/vulkan_core.h").read_text()
        version = re.search(r"#define VK_HEADER_VERSION (\d+)", core).group(1)
        licences = [root / "share/doc/libvulkan-dev/copyright", ROOT / ".deps/root/usr/share/doc/libvulkan-dev/copyright",
                    Path("/usr/share/doc/libvulkan-dev/copyright")]
        return self.remember("vulkan-loader", f"1.3.{version}" if "1_4" not in core else f"1.4.{version}",
                             next(file for file in licences if file.exists()))

    def remember(self, source, version, licence_file):
        key = (source, version)
        if key not in self.known:
            self.known[key] = Software(source, version, licence_file)
        return self.known[key]


def font(build):
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^PUMICE_FONT:\w+=(.+)$", cache, re.M).group(1)


def spdx(name, version, statically, compiled):
    """The document. `statically`: what was linked from archives; `compiled`: what is in headers, tables and text alone."""
    def identifier(software):
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{software.source}-{software.version}")

    def package(software):
        return {
            "SPDXID": identifier(software), "name": software.source, "versionInfo": software.version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "copyrightText": "NOASSERTION",
            "licenseConcluded": software.licence, "licenseDeclared": software.licence,
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/{'ubuntu' if 'ubuntu' in software.version else 'debian'}/{software.source}"
                                    f"@{software.version.replace('+', '%2B').replace(':', '%3A')}?arch=source"}],
        }

    own = {"SPDXID": "SPDXRef-pumice", "name": "pumice", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "copyrightText": "NOASSERTION", "licenseConcluded": "MIT", "licenseDeclared": "MIT"}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-pumice")]
    relations += [("SPDXRef-pumice", "STATIC_LINK", identifier(software)) for software in statically]
    relations += [("SPDXRef-pumice", "CONTAINS", identifier(software)) for software in compiled]
    packages = [own] + [package(software) for software in statically + compiled]
    moment = output("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip() or str(int(time.time()))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(packages))}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(moment))),
                         "creators": ["Tool: tools/packages/software.py"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations],
    }


def main(build, name, document, licences):
    build, licences = Path(build).resolve(), Path(licences)
    finder = Finder()

    def those_of(paths):
        outside = {os.path.normpath(path) for path in paths if os.path.isabs(path)}
        return finder.find({path for path in outside if not path.startswith(f"{build}/")})

    statically = set(those_of(linked_files(build)).values())
    compiled = set()
    for path, software in those_of(compiled_headers(build) | {font(build)}).items():
        if software.source not in ONLY_DECLARED:
            compiled.add(software)
    in_order = lambda each: (each.source, each.version)
    statically = sorted(statically, key=in_order)
    compiled = sorted({each for each in compiled if each.source not in {other.source for other in statically}}, key=in_order)

    version = re.match(r"\w+-([0-9.]+)-", name).group(1)
    Path(document).write_text(json.dumps(spdx(name, version, statically, compiled), indent=1) + "\n")
    shutil.rmtree(licences, ignore_errors=True)
    licences.mkdir(parents=True)
    for software in statically + compiled:
        shutil.copyfile(software.licence_file, licences / f"{software.source}.txt")
    print(f"packages: {name} has code of {', '.join(each.source for each in statically + compiled)}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
