#!/usr/bin/env python3
"""tools/check_layers.py [--write] [ROOT]: checks the #include lines of the tree against the layers.

A folder includes only folders of its own row in LAYERS or below; a library is included only where
LIBRARIES says; include/tally includes only itself and the standard library. The table of layers in
DOCUMENTS must equal LAYERS (--write updates it), and folders that README.md lists must exist. Exit
code 1 if a rule is broken.
"""
import os
import re
import sys
from fnmatch import fnmatch

# The layers from top to bottom: the folders of each row, and its description. PURE is the row
# without clock, thread or socket. Some folders do not exist yet.
PURE = ["plan", "wire", "codec", "policy", "schedule", "optimizer", "kernel", "data"]
LAYERS = [
    (["apps", "recipes", "adapters", "bench"],
     "wire the parts together; read flags, files, environment"),
    (["process"], "child processes, signals, temporary folders"),
    (["train"], "the step loop"),
    (["exchange", "sim"], "where the parts meet"),
    (["collective", "server", "checkpoint"], "agree with peers"),
    (["group", "net"], "reach peers"),
    (PURE, "pure: same calls, same bytes; no clock, thread or socket"),
    (["base"], "used everywhere"),
]
ROWS = [folders for folders, _ in LAYERS]
# In the first row, apps may include all the others, and none of them may include apps.
NOT_INCLUDED_BY = {"apps": ["bench", "recipes", "adapters"]}

# Documents that show the table, between these lines.
DOCUMENTS = ["CONTRIBUTING.md", "docs/architecture.md"]
TABLE_BEGIN = "<!-- layers: tools/check_layers.py --write -->"
TABLE_END = "<!-- end of layers -->"

ROW_OF = {folder: row for row, folders in enumerate(ROWS) for folder in folders}

# Folders above all rows: they may include any of our files.
ABOVE = ["tests", "examples"]

TESTS = ["tests/*", "*_test.cc", "*_test.h", "*_test_support.h", "*_conformance.h", "*/test_*.h"]

# For each library, the included paths that belong to it and the files that may include it.
LIBRARIES = {
    "fmt": (["fmt/*"],
            ["src/*", "apps/*", "adapters/*", "recipes/*", "tests/*", "bench/*", "examples/*"]),
    "spdlog": (["spdlog/*"], ["src/base/log.cc"]),
    "OpenSSL": (["openssl/*"], ["src/net/tls*.cc", "src/group/*.cc", "apps/tally/sha256.cc"]),
    "nlohmann-json": (["nlohmann/*"], ["apps/*", "src/checkpoint/*.cc", "src/checkpoint/json.h",
                                       "bench/*", "tests/process/*"]),
    "CLI11": (["CLI/*"], ["apps/tally/command_line.cc"]),
    "httplib": (["httplib.h"], ["apps/dashboard/*"]),
    "zstd": (["zstd.h"], ["src/codec/entropy/zstd.cc"]),
    "zlib": (["zlib.h"], ["src/data/*"]),
    "libpng": (["png.h"], ["src/data/png*.cc", "src/data/*_test.cc", "src/data/test_*.h"]),
    "libjpeg": (["jpeglib.h", "jerror.h"], ["src/data/jpeg*.cc", "src/data/test_*.h"]),
    "torch": (["torch/*", "ATen/*", "c10/*"],
              ["adapters/torch/*", "recipes/*", "apps/train/*", "bench/train/*"]),
    "PMIx": (["pmix.h"], ["src/group/pmix*.cc"]),
    "MPI": (["mpi.h"], ["adapters/mpi/*", "bench/*", "tests/process/mpi/*"]),
    "CUDA": (["cuda*.h", "cooperative_groups*"],
             ["adapters/cuda/*", "adapters/nccl/*", "adapters/torch/cuda/*", "bench/cuda/*"]),
    "NCCL": (["nccl.h"], ["adapters/nccl/*"]),
    "Python": (["Python.h", "pybind11/*"], ["adapters/python/*"]),
    "gtest": (["gtest/*", "gmock/*"], TESTS),
    "benchmark": (["benchmark/*"], ["bench/*", "*_bench.cc"]),
}

STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv
chrono cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine
csetjmp csignal cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype
deque exception execution filesystem forward_list fstream functional future initializer_list iomanip
ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set
shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
unordered_set utility valarray variant vector version
""".split())

# Headers of the C library, the kernel and the processor.
SYSTEM = ["sys/*", "linux/*", "asm/*", "arpa/*", "netinet/*", "net/*", "sanitizer/*"] + """
aio.h assert.h byteswap.h cpuid.h cxxabi.h dirent.h dlfcn.h elf.h endian.h errno.h execinfo.h
fcntl.h fenv.h float.h ftw.h getopt.h glob.h grp.h ifaddrs.h immintrin.h inttypes.h langinfo.h
libgen.h limits.h link.h locale.h malloc.h math.h mqueue.h netdb.h nmmintrin.h paths.h poll.h
pthread.h pty.h pwd.h regex.h sched.h semaphore.h setjmp.h signal.h spawn.h stdalign.h stdarg.h
stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h syscall.h syslog.h
termios.h time.h ucontext.h unistd.h utime.h wchar.h x86intrin.h arm_neon.h
""".split()

# Headers that a pure folder does not include; its tests may.
IMPURE = ["thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
          "barrier", "stop_token", "sys/socket.h", "sys/epoll.h", "sys/un.h", "netinet/*", "arpa/*",
          "netdb.h", "poll.h", "pthread.h", "semaphore.h", "linux/futex.h", "time.h", "sys/time.h"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def matches(path, patterns):
    return any(fnmatch(path, pattern) for pattern in patterns)


def sources(root):
    for top in ["include", "src", *ROWS[0], *ABOVE]:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".h", ".hpp", ".c", ".cc", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes(root, path):
    """Yields line number, < or ", and included path of each #include of a file."""
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    text = BLOCK_COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    for found in INCLUDE.finditer(text):
        yield text.count("\n", 0, found.start(2)) + 1, found.group(1), found.group(2)


def resolve(root, path, included):
    """Returns the path of an included file of ours, relative to the root, or None.

    The file may be one that CMake generates from a .in file of the tree.
    """
    folder = os.path.dirname(path)
    starts = []
    while folder:  # beside the file first, then the folders around it
        starts.append(folder)
        folder = os.path.dirname(folder)
    for start in [starts[0], "src", "include", "adapters/torch/include", "tests", *starts[1:], ""]:
        candidate = os.path.normpath(os.path.join(start, included))
        if not candidate.startswith(".."):
            file = os.path.join(root, candidate)
            if os.path.isfile(file) or os.path.isfile(file + ".in"):
                return candidate
    return None


def folder_of(path):
    """Returns the name that the folder of a file has in ROWS and ABOVE."""
    parts = path.split(os.sep)
    return parts[1] if parts[0] == "src" else parts[0]


def broken_rule(root, path, quote, included):
    """Returns the reason why this #include is wrong, or None if it is allowed."""
    folder = folder_of(path)
    target = resolve(root, path, included)
    if quote == "<" and target is not None and not included.startswith("tally/"):
        target = None  # <thread> is not our file of that name
    if target is not None:
        return broken_layer(path, folder, target)

    standard = quote == "<" and included in STANDARD
    library = next(
        (name for name, (paths, _) in LIBRARIES.items() if matches(included, paths)), None)
    if folder == "include" and not standard:
        return (f"include/tally includes no {library or 'other library'}: "
                "only the standard library and itself")
    if library is not None:
        allowed = LIBRARIES[library][1]
        return None if matches(path, allowed) else f"{library} belongs in {', '.join(allowed)}"
    if standard or (quote == "<" and matches(included, SYSTEM)):
        if folder in PURE and matches(included, IMPURE) and not matches(path, TESTS):
            return f"{folder} is pure: no clock, thread or socket"
        return None
    if quote == '"':
        return "no such file"
    return ("unknown library: it needs a line in tools/check_layers.py "
            "and its reason in docs/dependencies.md")


def broken_layer(path, folder, target):
    target_folder = folder_of(target)
    if target_folder == "include" or folder == target_folder:
        return None
    if folder == "include":
        return f"include/tally may not include {target_folder}"
    if folder in ABOVE:
        return None
    if target_folder in ABOVE:
        return None if matches(path, TESTS) else f"{folder} may not include {target_folder}"
    if folder not in ROW_OF or target_folder not in ROW_OF:
        unknown = folder if folder not in ROW_OF else target_folder
        return f"folder {unknown} has no row in tools/check_layers.py"
    if folder in NOT_INCLUDED_BY.get(target_folder, []):
        return f"{folder} may not include {target_folder}"
    if ROW_OF[target_folder] >= ROW_OF[folder]:
        return None
    if target_folder == "sim" and matches(path, TESTS):
        return None
    return f"{folder} may not include {target_folder}, which stands above it"


def table():
    """Returns the table of layers as the documents show it: one indented line per row."""
    lines = []
    for folders, description in LAYERS:
        names = "  ".join(folders)
        if len(names) < 32:
            lines.append(f"    {names:<32}{description}")
        else:
            lines.append(f"    {names}\n{'':<36}{description}")
    return "\n".join(lines)


def check_documents(root, write=False):
    """Returns the differences between documents and LAYERS; `write` updates the tables instead."""
    found = []
    for path in DOCUMENTS:
        file = os.path.join(root, path)
        if not os.path.isfile(file):
            continue
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
        begin = text.find(TABLE_BEGIN)
        end = text.find(TABLE_END)
        if begin < 0 or end < begin:
            found.append(f"{path}: no table of layers between {TABLE_BEGIN} and {TABLE_END}")
            continue
        wanted = text[:begin] + f"{TABLE_BEGIN}\n\n{table()}\n\n" + text[end:]
        if wanted == text:
            continue
        if write:
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(wanted)
        else:
            found.append(f"{path}: the table of layers differs from tools/check_layers.py; "
                         "run it with --write")
    return found


def check_readme(root):
    """Reports missing folders that README.md lists in lines such as "    src/  the modules"."""
    file = os.path.join(root, "README.md")
    if not os.path.isfile(file):
        return []
    with open(file, encoding="utf-8") as stream:
        listed = re.findall(r"^    ([\w./-]+/)(?:  | *$)", stream.read(), re.MULTILINE)
    return [f"README.md: no folder {folder}" for folder in listed
            if not os.path.isdir(os.path.join(root, folder))]


def check(root):
    found = check_documents(root) + check_readme(root)
    count = 0
    for path in sources(root):
        count += 1
        for line, quote, included in includes(root, path):
            reason = broken_rule(root, path, quote, included)
            if reason:
                found.append(f"{path}:{line}: {included}: {reason}")
    return count, found


def main():
    words = sys.argv[1:]
    write = "--write" in words
    if write:
        words.remove("--write")
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.normpath(words[0] if words else os.path.join(here, ".."))
    if write:
        check_documents(root, write=True)
    count, found = check(root)
    for line in found:
        print(line)
    if count == 0:
        found.append("")
        print(f"check_layers: no sources in {root}")
    elif not found:
        print(f"check_layers: {count} files keep the layers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
