#include "smelt/codegen/link_image.h"

// Links objects to an image: the sections of each are laid out one after the other and the references among them are
// resolved.
//
// smelt has a linker of its own, since the contents of a kernel's object are few and known: code, constants, references
// relative to the program counter. It is deterministic, has no state, so that threads may link at once (lld as a
// library has globals), and it refuses everything that a position-independent image without imports cannot have.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kMaxImage = int64_t{1} << 30;

int64_t AlignUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Reads an object; every access is checked against its size.
class ObjectReader {
 public:
  explicit ObjectReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Read(uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      return absl::DataLossError(absl::StrCat("object ends at ", bytes_.size(), ", inside a structure at ", offset));
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  absl::StatusOr<absl::string_view> Range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) {
      return absl::DataLossError(absl::StrCat("object ends at ", bytes_.size(), ", before ", offset, " + ", size));
    }
    return bytes_.substr(offset, size);
  }
  absl::StatusOr<std::string> Text(absl::string_view table, uint64_t offset) const {
    if (offset >= table.size()) return absl::DataLossError("object: a name is outside the table of names");
    absl::string_view rest = table.substr(offset);
    const size_t end = rest.find('\0');
    if (end == absl::string_view::npos) return absl::DataLossError("object: a name has no end");
    return std::string(rest.substr(0, end));
  }

 private:
  absl::string_view bytes_;
};

// One reference, to be written into the image at `at`.
struct Reference {
  uint32_t type = 0;
  int64_t at = 0;      // in the image, which begins at a page
  int64_t target = 0;  // in the image, addend included
};

// Returns the number of bytes of the section that a relocation changes, or 0 if no image can have that relocation.
int BytesOf(bool x86, uint32_t type) {
  if (x86) {
    return type == R_X86_64_PC32 || type == R_X86_64_PLT32 ? 4 : type == R_X86_64_PC64 ? 8 : 0;
  }
  switch (type) {
    case R_AARCH64_PREL64:
      return 8;
    case R_AARCH64_PREL32:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return 4;
    default:
      return 0;
  }
}

absl::Status Apply(bool x86, const Reference& r, std::string& image) {
  const int64_t distance = r.target - r.at;
  char* to = &image[r.at];
  if (BytesOf(x86, r.type) == 8) {
    std::memcpy(to, &distance, 8);
    return absl::OkStatus();
  }
  const bool word = x86 || r.type == R_AARCH64_PREL32;
  const int64_t reach = word ? int64_t{1} << 31 : r.type == R_AARCH64_ADR_PREL_PG_HI21 ? int64_t{1} << 32 : 1 << 27;
  const bool page_offset =
      !word && r.type >= R_AARCH64_ADD_ABS_LO12_NC && r.type != R_AARCH64_CALL26 && r.type != R_AARCH64_JUMP26;
  if (!page_offset && (distance < -reach || distance >= reach)) {
    return absl::InvalidArgumentError(absl::StrCat("a reference is beyond ", reach, " bytes"));
  }
  uint32_t bits;
  std::memcpy(&bits, to, 4);
  if (word) {
    bits = static_cast<uint32_t>(distance);
  } else if (r.type == R_AARCH64_ADR_PREL_PG_HI21) {
    // ADRP counts pages from the instruction's own.
    const uint32_t pages = static_cast<uint32_t>((r.target >> 12) - (r.at >> 12));
    bits = (bits & 0x9f00001f) | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5;
  } else if (page_offset) {
    // The offset within the page, counted in the units that a load or store moves.
    const int shift = r.type == R_AARCH64_LDST16_ABS_LO12_NC    ? 1
                      : r.type == R_AARCH64_LDST32_ABS_LO12_NC  ? 2
                      : r.type == R_AARCH64_LDST64_ABS_LO12_NC  ? 3
                      : r.type == R_AARCH64_LDST128_ABS_LO12_NC ? 4
                                                                : 0;
    const uint32_t offset = static_cast<uint32_t>(r.target & 0xfff);
    if (offset & ((1u << shift) - 1)) return absl::InvalidArgumentError("a reference is not aligned to what it loads");
    bits = (bits & 0xffc003ff) | offset >> shift << 10;
  } else {
    bits = (bits & 0xfc000000) | (static_cast<uint32_t>(distance >> 2) & 0x3ffffff);
  }
  std::memcpy(to, &bits, 4);
  return absl::OkStatus();
}

// Reads an object file from its header to its relocations. Every number comes from the file, so each is checked where
// it is read, and later steps rely on that.
absl::Status AddObject(const KernelObject& object, std::string& image, Image::Entry& entry) {
  ObjectReader reader(object.bytes);
  const bool x86 = IsX86(object.target);
  SMELT_ASSIGN_OR_RETURN(Elf64_Ehdr header, reader.Read<Elf64_Ehdr>(0));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL ||
      header.e_machine != (x86 ? EM_X86_64 : EM_AARCH64) || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return absl::InvalidArgumentError(absl::StrCat("not a relocatable object of ", x86 ? "x86-64" : "aarch64"));
  }
  const int count = header.e_shnum;
  std::vector<Elf64_Shdr> sections;
  for (int i = 0; i < count; ++i) {
    SMELT_ASSIGN_OR_RETURN(Elf64_Shdr s, reader.Read<Elf64_Shdr>(header.e_shoff + uint64_t{sizeof(Elf64_Shdr)} * i));
    sections.push_back(s);
  }
  if (header.e_shstrndx >= count) return absl::DataLossError("object: no section of section names");
  SMELT_ASSIGN_OR_RETURN(absl::string_view names,
                         reader.Range(sections[header.e_shstrndx].sh_offset, sections[header.e_shstrndx].sh_size));
  // The place of each section in the image; -1 if it is not in it.
  std::vector<int64_t> place(count, -1);
  // Constants first, then code: a section's place depends on the object alone.
  for (const bool code : {false, true}) {
    for (int i = 0; i < count; ++i) {
      const Elf64_Shdr& s = sections[i];
      if (!(s.sh_flags & SHF_ALLOC) || s.sh_size == 0 || ((s.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
      SMELT_ASSIGN_OR_RETURN(std::string name, reader.Text(names, s.sh_name));
      if (name == ".eh_frame") continue;  // nothing unwinds through a kernel
      if (s.sh_flags & (SHF_WRITE | SHF_TLS) || s.sh_type != SHT_PROGBITS) {
        return absl::InvalidArgumentError(
            absl::StrCat("section ", name, " is not constant: an image has no writable data"));
      }
      const uint64_t align = std::max<uint64_t>(s.sh_addralign, code ? 64 : 1);
      if ((align & (align - 1)) || align > kPage) {
        return absl::InvalidArgumentError(absl::StrCat("section ", name, " wants alignment ", align));
      }
      SMELT_ASSIGN_OR_RETURN(absl::string_view bytes, reader.Range(s.sh_offset, s.sh_size));
      image.resize(AlignUp(static_cast<int64_t>(image.size()), static_cast<int64_t>(align)),
                   code && x86 ? '\xcc' : '\0');
      if (static_cast<int64_t>(image.size() + bytes.size()) > kMaxImage) {
        return absl::ResourceExhaustedError("the image is beyond 1 GiB");
      }
      place[i] = static_cast<int64_t>(image.size());
      image.append(bytes.data(), bytes.size());
    }
  }
  std::vector<Elf64_Sym> symbols;
  std::vector<std::string> symbol_names;
  bool found = false;
  for (int i = 0; i < count; ++i) {
    const Elf64_Shdr& s = sections[i];
    if (s.sh_type != SHT_SYMTAB) continue;
    if (s.sh_link >= static_cast<uint32_t>(count)) return absl::DataLossError("object: symbols have no names");
    SMELT_ASSIGN_OR_RETURN(absl::string_view strings,
                           reader.Range(sections[s.sh_link].sh_offset, sections[s.sh_link].sh_size));
    SMELT_RETURN_IF_ERROR(reader.Range(s.sh_offset, s.sh_size));
    for (uint64_t k = 0; k < s.sh_size / sizeof(Elf64_Sym); ++k) {
      SMELT_ASSIGN_OR_RETURN(Elf64_Sym symbol, reader.Read<Elf64_Sym>(s.sh_offset + k * sizeof(Elf64_Sym)));
      SMELT_ASSIGN_OR_RETURN(std::string name, reader.Text(strings, symbol.st_name));
      if (name == object.symbol && symbol.st_shndx < count && place[symbol.st_shndx] >= 0 &&
          (sections[symbol.st_shndx].sh_flags & SHF_EXECINSTR) &&
          symbol.st_value <= sections[symbol.st_shndx].sh_size &&
          symbol.st_size <= sections[symbol.st_shndx].sh_size - symbol.st_value) {
        entry.offset = place[symbol.st_shndx] + static_cast<int64_t>(symbol.st_value);
        entry.size = static_cast<int64_t>(symbol.st_size);
        found = true;
      }
      symbols.push_back(symbol);
      symbol_names.push_back(std::move(name));
    }
    break;
  }
  if (!found) return absl::InvalidArgumentError(absl::StrCat("no function ", object.symbol));
  for (int i = 0; i < count; ++i) {
    const Elf64_Shdr& s = sections[i];
    if (s.sh_type == SHT_REL) return absl::InvalidArgumentError("relocations without addends are of no kernel");
    if (s.sh_type != SHT_RELA || s.sh_info >= static_cast<uint32_t>(count) || place[s.sh_info] < 0) continue;
    SMELT_RETURN_IF_ERROR(reader.Range(s.sh_offset, s.sh_size));
    for (uint64_t k = 0; k < s.sh_size / sizeof(Elf64_Rela); ++k) {
      SMELT_ASSIGN_OR_RETURN(Elf64_Rela r, reader.Read<Elf64_Rela>(s.sh_offset + k * sizeof(Elf64_Rela)));
      const uint64_t index = ELF64_R_SYM(r.r_info);
      const uint32_t type = ELF64_R_TYPE(r.r_info);
      if (index >= symbols.size()) return absl::DataLossError("object: a relocation names no symbol");
      const Elf64_Sym& symbol = symbols[index];
      if (symbol.st_shndx == SHN_UNDEF) {
        return absl::InvalidArgumentError(absl::StrCat("imports ", symbol_names[index], ": an image imports nothing"));
      }
      if (symbol.st_shndx >= count || place[symbol.st_shndx] < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("refers to ", symbol_names[index], ", which is not in the image"));
      }
      const int bytes = BytesOf(x86, type);
      if (!bytes) return absl::InvalidArgumentError(absl::StrCat("relocation of type ", type, " is not relative"));
      const uint64_t size = sections[s.sh_info].sh_size;
      if (r.r_offset > size || size - r.r_offset < static_cast<uint64_t>(bytes)) {
        return absl::DataLossError("object: a relocation is outside its section");
      }
      const int64_t at = place[s.sh_info] + static_cast<int64_t>(r.r_offset);
      int64_t value;
      if (__builtin_add_overflow(place[symbol.st_shndx] + static_cast<int64_t>(symbol.st_value & 0xffffffff),
                                 r.r_addend, &value)) {
        return absl::DataLossError("object: a relocation's addend is too large");
      }
      if (symbol.st_value > sections[symbol.st_shndx].sh_size)
        return absl::DataLossError("object: a symbol is outside its section");
      SMELT_RETURN_IF_ERROR(Apply(x86, {type, at, value}, image));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Image> LinkImage(absl::Span<const KernelObject* const> objects) {
  Image image;
  for (const KernelObject* object : objects) {
    if (IsCuda(object->target)) {
      return absl::UnimplementedError(
          absl::StrCat("images are for CPUs; ", object->symbol, " is for ", Name(object->target)));
    }
    image.entries.emplace_back();
    SMELT_RETURN_IF_ERROR(Annotate(AddObject(*object, image.bytes, image.entries.back()),
                                   absl::StrCat("kernel ", object->symbol.substr(0, 14))));
  }
  image.bytes.resize(AlignUp(static_cast<int64_t>(image.bytes.size()), kPage), '\0');
  return image;
}

}  // namespace smelt
