# SPDX-License-Identifier: Apache-2.0
"""The arrows of the house: which room may include what."""
import re

from .tree import ROOMS, Finding, is_public, is_test

# room: (rooms it may include besides itself, kinds of other headers). Kinds: see kind_of().
ARROWS = {
    "loader/core": ((), ("std", "json")),
    "loader/storage": (("loader/core",), ("std", "posix", "json")),
    "loader/codec": (("loader/core",), ("std", "simd", "cuda")),
    "loader/plan": (("loader/core", "loader/storage", "loader/codec"), ("std",)),
    "loader/exec": (("loader/core", "loader/plan", "loader/storage", "loader/codec"), ("std", "posix", "cuda", "digest")),
    "loader/save": (("loader/core", "loader/plan", "loader/storage", "loader/codec", "loader/exec"), ("std", "posix")),
    "loader/measure": (("loader/core",), ("std", "posix")),
    # The headers for users: they gather the rooms below them.
    "loader/include": (("loader",), ("std",)),
    "adapters": (("loader/core",), ("std",)),
    # The operating system's own headers stand beside the standard library where files are read.
    "reference": ((), ("std", "posix", "eigen", "json")),
    "fixtures": ((), ("std", "posix", "json")),
    "reports": ((), ("std", "json")),
    "suites": (ROOMS, ("std", "posix", "simd", "cuda", "json", "eigen", "tool", "digest", "test")),
    "ci": (ROOMS, ("std", "posix", "json", "tool", "digest", "test")),
}
JSON_UNITS_MAX = 10

STD = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath
    compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar
    cwchar cwctype deque exception execution filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd
    iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric optional ostream queue
    random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stop_token
    streambuf string string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version""".split()
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)"|(\S+))')


def room_of(path):
    parts = path.split("/")
    if parts[0] == "loader" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def kind_of(header):
    if header in STD:
        return "std"
    if header.startswith("nlohmann/"):
        return "json"
    if header.startswith(("Eigen/", "unsupported/Eigen/")):
        return "eigen"
    if header.startswith(("gtest/", "gmock/", "benchmark/")):
        return "test"
    if header == "xxhash.h":
        return "digest"
    if header.startswith(("CLI/", "fmt/", "openssl/")) or header == "simdjson.h":
        return "tool"
    if header.startswith(("cuda", "cub/", "cooperative_groups", "nvtx3/")):
        return "cuda"
    if header in ("immintrin.h", "x86intrin.h", "arm_neon.h", "arm_sve.h", "cpuid.h"):
        return "simd"
    if header.startswith(("sys/", "linux/", "netinet/", "arpa/")) or re.fullmatch(r"[a-z0-9_]+\.h", header):
        return "posix"
    return "unknown"


def includes(tree, path):
    """(line number, header, whether in quotes) of each include of a file."""
    for number, line in enumerate(tree.lines(path), 1):
        found = INCLUDE.match(line)
        if found:
            angle, quoted, other = found.groups()
            yield number, angle or quoted or other, quoted is not None


def _covers(allowed, room):
    return any(room == a or room.startswith(a + "/") for a in allowed)


def check_arrows(tree):
    findings = []
    for path in tree.cpp():
        room = room_of(path)
        if room not in ARROWS:
            findings.append(Finding(path, 0, f"lies in {room}, which has no row in the table of arrows"))
            continue
        rooms, kinds = ARROWS[room]
        if is_test(path):
            kinds = (*kinds, "test", "posix", "json", "eigen", "cuda")
            if "/bench/" in path:
                kinds = (*kinds, "tool", "simd")  # what it is measured against
        for number, header, quoted in includes(tree, path):
            top = header.split("/")[0]
            if top in ROOMS and "/" in header:
                target = room_of(header)
                if not quoted:
                    findings.append(Finding(path, number, f"includes <{header}>: project headers go in quotes"))
                if target != room and not _covers(rooms, target):
                    findings.append(Finding(path, number, f"{room} may not include {target} ({header})"))
                elif header not in tree.paths:
                    findings.append(Finding(path, number, f"includes {header}, which does not exist"))
                if header.endswith(".cpp") and "NOLINT(bugprone-suspicious-include)" not in tree.lines(path)[number - 1]:
                    findings.append(Finding(path, number, f"includes a source file ({header})"))
                if is_public(path) and header.endswith("_internal.hpp"):
                    findings.append(Finding(path, number, f"a public header includes {header}, which is not installed"))
                if is_test(header) and not is_test(path) and room not in ("suites", "ci"):
                    findings.append(Finding(path, number, f"includes {header}, which belongs to tests"))
            elif quoted:
                findings.append(Finding(path, number, f'includes "{header}": write the path from the root of the repository'))
            else:
                kind = kind_of(header)
                if kind not in kinds:
                    findings.append(Finding(path, number, f"{room} may not include <{header}> ({kind})"))
                elif is_public(path) and kind not in ("std", "posix"):
                    findings.append(Finding(path, number, f"a public header includes <{header}> ({kind}): keep it in a source or an _internal.hpp"))
    return findings


def check_json(tree):
    """JSON in few translation units, counted through the project's own headers (check_arrows keeps it out of public headers)."""
    findings, reach = [], {}

    def reaches(path, above=()):
        if path not in reach:
            reach[path] = False
            for _, header, _ in includes(tree, path):
                if header.startswith("nlohmann/"):
                    reach[path] = True
                elif header in tree.paths and header not in above and reaches(header, (*above, path)):
                    reach[path] = True
        return reach[path]

    units = []
    for path in tree.cpp():
        if path.endswith((".cpp", ".cu")) and not is_test(path) and reaches(path):
            units.append(path)
    if len(units) > JSON_UNITS_MAX:
        findings.append(Finding(units[-1], 0, f"JSON in {len(units)} translation units, allowed {JSON_UNITS_MAX}: {', '.join(units)}"))
    return findings
