// Writes bytes as an object file without an assembler: compiling a huge array with the C++ compiler takes minutes.
#include <elf.h>

#include <cstring>

#include "smelt/tools/cc_header.h"

namespace smelt {

std::string MakeDataObject(absl::string_view bytes, const std::string& name, uint16_t machine) {
  constexpr size_t kPage = 4096;
  const std::string names = std::string("\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0", 51);
  const std::string begin = name, end = name + "_end";
  const std::string symbol_names = std::string(1, '\0') + begin + '\0' + end + '\0';
  Elf64_Sym symbols[3] = {};
  for (int i = 1; i <= 2; ++i) {
    symbols[i].st_name = i == 1 ? 1 : 2 + begin.size();
    symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbols[i].st_other = STV_HIDDEN;
    symbols[i].st_shndx = 1;
    symbols[i].st_value = i == 1 ? 0 : bytes.size();
    symbols[i].st_size = i == 1 ? bytes.size() : 0;
  }
  std::string out(kPage, '\0');  // the header's page; data from the next one on
  out.append(bytes.data(), bytes.size());
  out.resize((out.size() + 7) / 8 * 8);
  Elf64_Shdr sections[6] = {};
  auto section = [&](int i, size_t name_at, uint32_t type, uint64_t offset, uint64_t size, uint64_t align) {
    sections[i].sh_name = name_at;
    sections[i].sh_type = type;
    sections[i].sh_offset = offset;
    sections[i].sh_size = size;
    sections[i].sh_addralign = align;
  };
  section(1, 1, SHT_PROGBITS, kPage, bytes.size(), kPage);
  sections[1].sh_flags = SHF_ALLOC;
  section(2, 9, SHT_SYMTAB, out.size(), sizeof symbols, 8);
  sections[2].sh_link = 3;
  sections[2].sh_info = 1;  // the first global symbol
  sections[2].sh_entsize = sizeof(Elf64_Sym);
  out.append(reinterpret_cast<const char*>(symbols), sizeof symbols);
  section(3, 17, SHT_STRTAB, out.size(), symbol_names.size(), 1);
  out += symbol_names;
  section(4, 25, SHT_STRTAB, out.size(), names.size(), 1);
  out += names;
  section(5, 35, SHT_PROGBITS, out.size(), 0, 1);  // the stack need not be executable
  out.resize((out.size() + 7) / 8 * 8);

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_shoff = out.size();
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 6;
  header.e_shstrndx = 4;
  out.append(reinterpret_cast<const char*>(sections), sizeof sections);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

}  // namespace smelt
