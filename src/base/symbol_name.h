#pragma once
#include <string>

namespace tally {

// What the code at `address` belongs to, for a person: the function's name, without its arguments
// where that is known, else "program+0x1234". Looks into the dynamic symbols first, then into the
// symbol table of the file, so that it knows local functions of programs that were not stripped.
// Reads files: not for signal handlers.
std::string symbol_name(const void* address);

// "tally::f" for "_ZN5tally1fEi" or "tally::f(int) [clone .cold]"; other text as it is.
std::string readable_name(const char* symbol);

}  // namespace tally
