#!/usr/bin/env python3
"""extract.py OUTPUT ROOT FILE...: writes the C++ blocks of Markdown files as one source file.

A block with a function at its outer level becomes a namespace, in which main() has another name.
Any other block becomes the body of a function, with the names of docs_context.h in scope; it
returns a Result if it uses TALLY_TRY. #line makes the compiler name the document and its line.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?!using|namespace|for|if|while)[\w:<>&* ]+ \w+\([^;]*\{$", re.MULTILINE)


def translate(text: str, name: str, line: int, path: str) -> tuple[list[str], str]:
    """The includes of a block, and its code."""
    includes = re.findall(r"^#include .*$", text, re.MULTILINE)
    code = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)
    code = f'#line {line} "{path}"\n{code}'
    if FUNCTION.search(text):
        code = code.replace("int main(", "int program(")
        return includes, f"namespace {name} {{\nusing namespace tally;\n{code}}}\n"
    if "TALLY_TRY" in code:
        return includes, f"tally::Result<void> {name}() {{\n{code}return {{}};\n}}\n"
    return includes, f"void {name}() {{\n{code}}}\n"


def main() -> int:
    output, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    includes: list[str] = []
    blocks: list[str] = []
    for file in sys.argv[3:]:
        text = pathlib.Path(file).read_text(encoding="utf-8")
        path = str(pathlib.Path(file).relative_to(root))
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            name = "block_" + re.sub(r"\W", "_", f"{path}_{line}")
            found, code = translate(match.group(1), name, line, path)
            includes += found
            blocks.append(code)
    if not blocks:
        sys.exit("no C++ block found")
    unique = "\n".join(sorted(set(includes)))
    output.write_text(f'{unique}\n#include "docs_context.h"\n\n' + "\n".join(blocks),
                      encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
