#include "smelt/codegen/kernel_key.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "llvm/Config/llvm-config.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/generator_digest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"

namespace smelt {

namespace {

// The build id of LLVM's shared library in this process: two of one version may have been built from different sources.
// Empty where LLVM is linked statically; the program is then rebuilt when LLVM changes.
std::string LlvmBuildId() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* result) {
        if (!absl::StrContains(object->dlpi_name, "libLLVM")) return 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr) & part = object->dlpi_phdr[i];
          if (part.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
          const char* const end = at + part.p_memsz;
          auto padded = [](uint32_t n) { return (size_t{n} + 3) / 4 * 4; };
          while (static_cast<size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            at += sizeof note;
            const size_t size = padded(note.n_namesz) + padded(note.n_descsz);
            if (static_cast<size_t>(end - at) < size) break;
            if (note.n_type == NT_GNU_BUILD_ID) {
              *static_cast<std::string*>(result) =
                  absl::BytesToHexString(absl::string_view(at + padded(note.n_namesz), note.n_descsz));
              return 1;
            }
            at += size;
          }
        }
        return 0;
      },
      &id);
  return id;
}

}  // namespace

const std::string& CodeGeneratorIdentity(Target target) {
  static const std::string* const cpu = [] {
    auto* out = new std::string(absl::StrCat("sha256:", kGeneratorDigest, " LLVM ", LLVM_VERSION_STRING));
    const std::string build = LlvmBuildId();
    if (!build.empty()) absl::StrAppend(out, " build ", build);
    return out;
  }();
  if (!IsCuda(target)) return *cpu;
  static const std::string* const cuda = [] {
    const absl::StatusOr<std::string> libdevice = ReadFile(FindCudaTools().libdevice);
    return new std::string(
        absl::StrCat(*cpu, " libdevice ", libdevice.ok() ? ToHex(Sha256(*libdevice)).substr(0, 16) : "none"));
  }();
  return *cuda;
}

std::string KernelKeyText(absl::string_view spec_text, Target target) {
  return absl::StrCat("target ", Name(target), "\ngenerator ", CodeGeneratorIdentity(target), "\nspec\n", spec_text);
}

std::string ComputeKernelKey(absl::string_view spec_text, Target target) {
  return ToHex(Sha256(KernelKeyText(spec_text, target)));
}

}  // namespace smelt
