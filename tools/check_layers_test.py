#!/usr/bin/env python3
"""Runs check_layers.py on generated trees with one broken rule of each kind and allowed uses."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_layers  # noqa: E402

# Path, the file that it includes, and a part of the expected reason (None: the include is allowed).
CASES = [
    # A folder includes folders of its own row or below.
    ("src/train/step.cc", '"train/step.h"', None),
    ("src/train/step.cc", '"sim/cluster.h"', None),
    ("src/train/step.cc", '"collective/ring.h"', None),
    ("src/group/join.cc", '"net/tcp.h"', None),
    ("src/net/tcp.cc", '"group/join.h"', None),
    ("src/net/tcp.cc", '"tcp.h"', None),
    ("src/net/tcp.cc", '"tally/error.h"', None),
    ("src/net/tcp.cc", "<tally/error.h>", None),
    ("src/wire/frame.cc", '"kernel/crc32c/crc32c.h"', None),
    ("apps/tally/main.cc", '"train/step.h"', None),
    ("apps/tally/main.cc", '"recipes/linear/linear.h"', None),
    ("apps/tally/main.cc", '"bench/allreduce/report.h"', None),
    ("apps/tally/main.cc", '"apps/tally/build_info.h"', None),
    ("recipes/linear/linear.cc", '"train/step.h"', None),
    ("tests/process/kill_test.cc", '"apps/tally/command.h"', None),
    ("src/collective/ring.cc", '"train/step.h"', "collective may not include train"),
    ("src/net/tcp.cc", '"collective/ring.h"', "net may not include collective"),
    ("src/net/tcp.cc", '"../collective/ring.h"', "net may not include collective"),
    ("src/wire/frame.cc", '"net/tcp.h"', "wire may not include net"),
    ("src/kernel/add.cc", '"net/tcp.h"', "kernel may not include net"),
    ("src/base/clock.cc", '"wire/frame.h"', "base may not include wire"),
    ("apps/tally/main.cc", '"process/child.h"', None),
    ("bench/allreduce/main.cc", '"process/child.h"', None),
    ("src/process/child.cc", '"net/tcp.h"', None),
    ("src/train/step.cc", '"process/child.h"', "train may not include process"),
    ("bench/allreduce/main.cc", '"apps/tally/command.h"', "bench may not include apps"),
    ("recipes/linear/linear.cc", '"apps/tally/command.h"', "recipes may not include apps"),
    ("src/train/step.cc", '"apps/tally/command.h"', "train may not include apps"),
    ("src/train/step.cc", '"recipes/linear/linear.h"', "train may not include recipes"),
    ("src/train/step.cc", '"bench/allreduce/report.h"', "train may not include bench"),
    ("src/net/tcp.cc", '"process/launch.h"', "net may not include tests"),
    ("src/new/thing.cc", '"net/tcp.h"', "new has no row"),
    ("src/net/tcp.cc", '"net/gone.h"', "no such file"),
    # Tests may use sim, and nothing else from above.
    ("src/net/tcp_test.cc", '"sim/cluster.h"', None),
    ("src/net/tcp_test.cc", '"process/launch.h"', None),
    ("src/net/tcp.cc", '"sim/cluster.h"', "net may not include sim"),
    ("src/net/tcp_test.cc", '"train/step.h"', "net may not include train"),
    # Public headers.
    ("include/tally/job.h", '"tally/error.h"', None),
    ("include/tally/job.h", "<vector>", None),
    ("include/tally/job.h", "<fmt/format.h>", "include/tally includes no fmt"),
    ("include/tally/job.h", "<sys/socket.h>", "include/tally includes no other library"),
    ("include/tally/job.h", "<boost/any.hpp>", "include/tally includes no other library"),
    ("include/tally/job.h", '"net/tcp.h"', "include/tally may not include net"),
    # Pure folders.
    ("src/wire/frame.cc", "<bit>", None),
    ("src/net/tcp.cc", "<thread>", None),
    ("src/wire/frame_test.cc", "<thread>", None),
    ("src/wire/frame.cc", "<thread>", "wire is pure"),
    ("src/kernel/add.cc", "<mutex>", "kernel is pure"),
    ("src/codec/topk.cc", "<sys/socket.h>", "codec is pure"),
    # Libraries.
    ("src/wire/frame.cc", "<fmt/format.h>", None),
    ("src/base/log.cc", "<spdlog/spdlog.h>", None),
    ("src/base/log.h", "<spdlog/spdlog.h>", "spdlog belongs in"),
    ("src/net/tls.cc", "<openssl/ssl.h>", None),
    ("src/net/tls_stream.cc", "<openssl/ssl.h>", None),
    ("src/group/secret.cc", "<openssl/hmac.h>", None),
    ("apps/tally/sha256.cc", "<openssl/evp.h>", None),
    ("src/net/tcp.cc", "<openssl/ssl.h>", "OpenSSL belongs in"),
    ("src/group/join.h", "<openssl/hmac.h>", "OpenSSL belongs in"),
    ("apps/tally/main.cc", "<nlohmann/json.hpp>", None),
    ("bench/allreduce/main.cc", "<nlohmann/json.hpp>", None),
    ("src/checkpoint/manifest.cc", "<nlohmann/json.hpp>", None),
    ("src/checkpoint/manifest.h", "<nlohmann/json.hpp>", "nlohmann-json belongs in"),
    ("src/train/step.cc", "<nlohmann/json.hpp>", "nlohmann-json belongs in"),
    ("apps/tally/command_line.cc", "<CLI/CLI.hpp>", None),
    ("apps/tally/main.cc", "<CLI/CLI.hpp>", "CLI11 belongs in"),
    ("apps/dashboard/main.cc", "<CLI/CLI.hpp>", "CLI11 belongs in"),
    ("apps/dashboard/main.cc", "<httplib.h>", None),
    ("apps/tally/main.cc", "<httplib.h>", "httplib belongs in"),
    ("src/codec/entropy/zstd.cc", "<zstd.h>", None),
    ("src/codec/topk.cc", "<zstd.h>", "zstd belongs in"),
    ("src/data/input_file.cc", "<zlib.h>", None),
    ("src/wire/frame.cc", "<zlib.h>", "zlib belongs in"),
    ("src/data/png_image.cc", "<png.h>", None),
    ("src/data/idx.cc", "<png.h>", "libpng belongs in"),
    ("src/data/jpeg.cc", "<jpeglib.h>", None),
    ("src/data/idx.cc", "<jpeglib.h>", "libjpeg belongs in"),
    ("adapters/torch/view.cc", "<torch/torch.h>", None),
    ("recipes/linear/linear.cc", "<torch/torch.h>", None),
    ("adapters/mpi/mpi.cc", "<torch/torch.h>", "torch belongs in"),
    ("src/train/step.cc", "<ATen/ATen.h>", "torch belongs in"),
    ("adapters/mpi/mpi.cc", "<mpi.h>", None),
    ("src/net/tcp.cc", "<mpi.h>", "MPI belongs in"),
    ("src/net/tcp.cc", "<nccl.h>", "NCCL belongs in"),
    ("src/net/tcp.cc", "<Python.h>", "Python belongs in"),
    ("src/net/tcp_test.cc", "<gtest/gtest.h>", None),
    ("tests/sim/kill.cc", "<gtest/gtest.h>", None),
    ("src/net/tcp.cc", "<gtest/gtest.h>", "gtest belongs in"),
    ("src/net/tcp_bench.cc", "<benchmark/benchmark.h>", None),
    ("src/net/tcp.cc", "<benchmark/benchmark.h>", "benchmark belongs in"),
    ("src/net/tcp.cc", "<sys/epoll.h>", None),
    ("src/net/tcp.cc", "<asio.hpp>", "unknown library"),
    ("src/net/tcp.cc", "<boost/asio.hpp>", "unknown library"),
    ("src/net/tcp.cc", '"spdlog/spdlog.h"', "spdlog belongs in"),
]

# Files that exist to be included.
HEADERS = [
    "include/tally/error.h", "src/train/step.h", "src/sim/cluster.h", "src/collective/ring.h",
    "src/group/join.h", "src/process/child.h", "src/net/tcp.h", "src/wire/frame.h",
    "src/kernel/crc32c/crc32c.h", "apps/tally/command.h", "recipes/linear/linear.h",
    "tests/process/launch.h", "bench/allreduce/report.h", "apps/tally/build_info.h.in",
]


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def findings(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files:
            write(root, path, text)
        return check_layers.check(root)[1]


def main():
    wrong = []
    headers = [(path, "#pragma once\n") for path in HEADERS]
    for path, included, reason in CASES:
        found = findings(headers + [(path, f"\n#include {included}\n")])
        told = [line for line in found if line.startswith(path + ":") and reason and reason in line]
        if (reason is None and found) or (reason is not None and (len(found) != 1 or not told)):
            wrong.append(f"{path} with {included}: expected {reason or 'nothing'}, "
                         f"found {found or 'nothing'}")

    # The whole tree at once gives one finding for each broken rule, with its line.
    broken = [case for case in CASES if case[2]]
    found = findings(headers + [(path, f"\n#include {included}\n") for path, included, _ in CASES])
    if len(found) != len(broken):
        wrong.append(f"whole tree: {len(found)} findings of {len(broken)}")
    comments = "/* one\n#include <mpi.h>\n*/\n// #include <mpi.h>\n"
    if findings(headers + [("src/net/tcp.cc", comments)]):
        wrong.append("a comment counts as an include")
    found = findings(headers + [("src/net/tcp.cc", "/* one\n two */\n  #  include <mpi.h>\n")])
    if [line.split(" ")[0] for line in found] != ["src/net/tcp.cc:3:"]:
        wrong.append(f"line number: {found}")

    # Documents show the table of layers, and README.md lists folders that exist.
    begin, end = check_layers.TABLE_BEGIN, check_layers.TABLE_END
    good = f"{begin}\n\n{check_layers.table()}\n\n{end}\n"
    for name, text, reason in [
            ("CONTRIBUTING.md", good, None),
            ("CONTRIBUTING.md", good.replace("net", "nets"), "differs"),
            ("docs/architecture.md", "no table\n", "no table of layers"),
            ("README.md", "    src/    the modules\n", None),
            ("README.md", "    lib/    the modules\n", "no folder lib/")]:
        found = findings(headers + [(name, text)])
        if reason is None:
            right = not found
        else:
            right = len(found) == 1 and reason in found[0]
        if not right:
            wrong.append(f"{name}: expected {reason or 'nothing'}, found {found or 'nothing'}")

    for line in wrong:
        print(line)
    print(f"check_layers_test: {len(CASES)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
