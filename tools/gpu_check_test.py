#!/usr/bin/env python3
"""Runs gpu_check.sh with programs in place of the compiler, the GPU and tally."""
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_check.sh")


def expect(condition, what):
    if not condition:
        print(f"FAILED: {what}")
        sys.exit(1)


class Machine:
    """A folder with programs that write their arguments into a file and succeed."""

    def __init__(self, folder):
        self.folder = folder
        self.build = os.path.join(folder, "build")
        self.calls = os.path.join(folder, "calls")
        self.torch = os.path.join(folder, "torch")
        self.write("torch/lib/libtorch_cuda.so", "")
        self.write("bin/nvidia-smi", "#!/bin/sh\necho 'Some GPU, 580.1'\n")
        self.write_tally(1.5)
        for program in ["bin/cmake", "bin/ctest", "build/bench/cuda/cuda_bench"]:
            name = os.path.basename(program)
            self.write(program, f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n'
                                'echo "completed after 1 step"\n')

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def write_tally(self, loss_by_nccl):
        """A tally whose trainings end with a loss of 1.5, and with the other one under NCCL."""
        self.write("build/tally", f"""#!/bin/sh
echo "tally $*" >> "{self.calls}"
echo "completed after 1 step"
loss=1.5
[ -z "$NCCL_DEBUG" ] || {{ echo "NCCL version 2.28"; loss={loss_by_nccl}; }}
case $* in
  *ways.jsonl*) echo "{{\\"test_loss\\": $loss}}" >> "{self.build}/check/ways.jsonl" ;;
esac
""")

    def run(self, *options):
        """The exit code, the output, and the calls of the programs."""
        if os.path.exists(self.calls):
            os.remove(self.calls)
        path = os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]
        done = subprocess.run(
            [SCRIPT, "--torch", self.torch, "--python", sys.executable, "--build", self.build,
             *options], env=dict(os.environ, PATH=path), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        calls = ""
        if os.path.exists(self.calls):
            with open(self.calls, encoding="utf-8") as file:
                calls = file.read()
        return done.returncode, done.stdout, calls


def test_refusals(machine):
    for options, why in [(["--only", "tests,kernal"], "no part 'kernal'; there are build tests"),
                         (["--only", ","], "no part ''"), (["--only", "*"], "no part '*'"),
                         (["--only", "build tests"], "no part 'build tests'"),
                         (["--only"], "--only needs a value"), (["--text", ""], "--text needs"),
                         (["--only", "mixed"], "mixed: needs --pictures"),
                         (["--only", "tests,text"], "text: needs --text"),
                         (["--fast"], "unknown option --fast"),
                         (["--torch", "/nowhere"], "torch without CUDA"),
                         (["--python", "nopython"], "no nopython in PATH")]:
        code, output, calls = machine.run(*options)
        expect(code == 2 and why in output and not calls, f"{options}: {code} {output}")


def test_parts(machine):
    code, output, calls = machine.run()
    expect(code == 0 and "all parts passed in" in output, output)
    expect("not run: mixed (--pictures), text (--text)" in output, output)
    for call in ["cmake --build", "ctest --test-dir", "cuda_bench", "bench train", "resnet50",
                 "--layers 12", "NCCL_HOSTID=host$((TALLY_RANK / 2))"]:
        expect(call in calls, f"no call of {call}: {calls}")
    expect("train lenet" not in calls, calls)
    with open(os.path.join(machine.build, "check", "summary.txt"), encoding="utf-8") as file:
        summary = file.read()
    expect(output.endswith(summary) and "Some GPU" in summary and "sizes-gpt2" in summary, summary)

    code, output, calls = machine.run("--pictures", "mnist", "--text", "a.txt")
    expect(code == 0 and "not run" not in output and "--balance speed" in calls and
           "--data a.txt" in calls, output)
    code, output, calls = machine.run("--only", "kernels,tests")
    expect(code == 0 and "not run" not in output, output)
    expect([call.split()[0] for call in calls.splitlines()] == ["ctest", "cuda_bench"], calls)


def test_losses(machine):
    code, output, _ = machine.run("--only", "ways")
    expect(code == 0, output)
    machine.write_tally(1.6)
    code, output, _ = machine.run("--only", "ways")
    expect(code == 1 and "(1.5, 1.6)" in output, "losses that differ are a failure")


def test_failures(machine):
    machine.write("bin/ctest", "#!/bin/sh\nexit 8\n")
    code, output, calls = machine.run("--only", "tests,kernels")
    expect(code == 1 and "FAILED" in output and "all parts passed" not in output, output)
    expect("cuda_bench" in calls, "a failed part does not end the others")
    machine.write("bin/cmake", "#!/bin/sh\nexit 1\n")
    code, output, calls = machine.run()
    expect(code == 2 and "the build failed" in output and not calls, output)
    machine.write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
    code, output, _ = machine.run()
    expect(code == 2 and "no GPU" in output, output)


for test in [test_refusals, test_parts, test_losses, test_failures]:
    with tempfile.TemporaryDirectory() as top:
        test(Machine(top))
