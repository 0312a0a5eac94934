#include "base/symbol_name.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "base/descriptor.h"

namespace tally {
namespace {

// A file mapped into memory.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!file.open() || fstat(file.descriptor(), &info) != 0 || info.st_size <= 0) return;
    bytes_ = static_cast<std::size_t>(info.st_size);
    void* const memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (memory != MAP_FAILED) data_ = static_cast<const std::byte*>(memory);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // `count` values of T at `offset`; empty if the file is shorter.
  template <typename T>
  std::span<const T> at(std::uint64_t offset, std::uint64_t count) const {
    if (data_ == nullptr || offset > bytes_ || count > (bytes_ - offset) / sizeof(T) ||
        offset % alignof(T) != 0)
      return {};
    return {reinterpret_cast<const T*>(data_ + offset), static_cast<std::size_t>(count)};
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// The function of the file's symbol table that covers `offset` from where the file is loaded.
std::optional<std::string> function_at(const char* path, std::uint64_t offset) {
  const MappedFile file(path);
  const auto header = file.at<ElfW(Ehdr)>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  const auto sections = file.at<ElfW(Shdr)>(header[0].e_shoff, header[0].e_shnum);
  for (const auto& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto& names = sections[section.sh_link];
    const auto text = file.at<char>(names.sh_offset, names.sh_size);
    if (text.empty() || text.back() != '\0') continue;
    const auto symbols = file.at<ElfW(Sym)>(section.sh_offset, section.sh_size / sizeof(ElfW(Sym)));
    for (const auto& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= text.size()) continue;
      if (offset >= symbol.st_value && offset < symbol.st_value + symbol.st_size)
        return std::string(&text[symbol.st_name]);
    }
  }
  return std::nullopt;
}

// The position of a name's arguments: the first parenthesis outside of < >, but not that of
// "(anonymous namespace)" or "operator()".
std::size_t end_of_name(const std::string& name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  constexpr std::string_view kCall = "operator()";
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.compare(i, kAnonymous.size(), kAnonymous) == 0) {
      i += kAnonymous.size() - 1;
    } else if (name.compare(i, kCall.size(), kCall) == 0) {
      i += kCall.size() - 1;
    } else if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>') {
      --depth;
    } else if (name[i] == '(' && depth <= 0) {
      return i;
    }
  }
  return name.size();
}

}  // namespace

std::string readable_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 && plain ? plain.get() : symbol;
  return name.substr(0, end_of_name(name));
}

std::string symbol_name(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      info.dli_fname == nullptr)
    return fmt::format("{}", address);
  if (info.dli_sname != nullptr) return readable_name(info.dli_sname);
  // The name of the program itself may be the text that it was started by.
  const bool program = map != nullptr && (map->l_name == nullptr || map->l_name[0] == '\0');
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - (map == nullptr ? 0 : map->l_addr);
  if (const auto name = function_at(program ? "/proc/self/exe" : info.dli_fname, offset))
    return readable_name(name->c_str());
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return fmt::format("{}+{:#x}", slash == nullptr ? info.dli_fname : slash + 1, offset);
}

}  // namespace tally
