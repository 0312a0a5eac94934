#pragma once
#include <string>

namespace tally {

// The name of the function at `address`, without arguments, or "program+0x1234" if it is not known.
// The dynamic symbols are searched first, then the symbol table of the file, which has the local
// functions of programs that were not stripped. Reads files: not for signal handlers.
std::string symbol_name(const void* address);

// "tally::f" for "_ZN5tally1fEi" or "tally::f(int) [clone .cold]"; other text is returned
// unchanged.
std::string readable_name(const char* symbol);

}  // namespace tally
