// From LLVM IR to PTX, and from PTX to a cubin.
#include "smelt/codegen/llvm_cuda.h"

#include <elf.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "smelt/codegen/cuda_library.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/emit_file.h"
#include "smelt/codegen/llvm_memory.h"
#include "smelt/codegen/lower_cuda.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

// Returns the oldest version of PTX that supports the architecture and has the instructions that kernels use (7.8):
// older versions run on more drivers.
const char* PtxFeature(Target t) {
  switch (ComputeCapability(t)) {
    case 90:
      return "+ptx80";
    case 100:
      return "+ptx86";
    case 103:
      return "+ptx88";
    case 110:
      return "+ptx90";
    case 120:
      return "+ptx87";
    default:
      return "+ptx78";
  }
}

absl::StatusOr<llvm::TargetMachine*> MachineFor(Target target) {
  thread_local std::map<Target, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[target];
  if (machine) return machine.get();
  static std::once_flag once;
  std::call_once(once, [] {
    ThrowWhereLlvmHasNoMemory();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  const llvm::Triple triple(Triple(target));
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) return absl::UnimplementedError(absl::StrCat("LLVM has no target ", Triple(target), ": ", error));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(found->createTargetMachine(triple, Name(target), PtxFeature(target), options, llvm::Reloc::PIC_));
  return machine.get();
}

// Links the functions of libdevice that the module calls. They become the module's own, always inlined: modules of
// several kernels are later put into one file, where no two names may be equal.
absl::Status LinkLibdevice(llvm::Module& module, Target target, const std::string& symbol) {
  bool needed = false;
  std::string example;
  for (const llvm::Function& f : module) {
    if (!f.isDeclaration() || !f.getName().starts_with("__nv_")) continue;
    needed = true;
    example = f.getName().str();
  }
  if (!needed) return absl::OkStatus();
  const std::string& path = FindCudaTools().libdevice;
  if (path.empty()) {
    return absl::UnimplementedError(absl::StrCat("target ", Name(target), ": ", example,
                                                 " is of libdevice.10.bc, which is not found; it is part of the CUDA "
                                                 "toolkit (CUDA_HOME)"));
  }
  SMELT_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  auto buffer = llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(bytes), path, /*RequiresNullTerminator=*/false);
  auto parsed = llvm::getLazyBitcodeModule(buffer->getMemBufferRef(), module.getContext());
  if (!parsed) return absl::DataLossError(absl::StrCat(path, ": ", llvm::toString(parsed.takeError())));
  std::unique_ptr<llvm::Module> library = std::move(*parsed);
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  std::set<std::string> own;
  for (const llvm::Function& f : module) {
    if (!f.isDeclaration()) own.insert(f.getName().str());
  }
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::Flags::LinkOnlyNeeded)) {
    return absl::InternalError(absl::StrCat(path, ": cannot be linked to a kernel"));
  }
  llvm::internalizeModule(module, [&](const llvm::GlobalValue& v) { return own.count(v.getName().str()) != 0; });
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || own.count(f.getName().str())) continue;
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  for (llvm::GlobalVariable& g : module.globals()) {
    if (g.hasLocalLinkage() && !g.getName().starts_with(symbol))
      g.setName(absl::StrCat(symbol, "_", g.getName().str()));
  }
  return absl::OkStatus();
}

absl::Status Check(const llvm::Module& module) {
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream)) return absl::InternalError(absl::StrCat("LLVM IR: ", broken));
  return absl::OkStatus();
}

void Optimize(llvm::Module& module, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // With the machine NVVMReflect runs first: it decides libdevice's branches on denormals.
  llvm::PassBuilder builder(machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

}  // namespace

namespace {

absl::StatusOr<std::string> ToPtx(llvm::Module& module, Target target, const std::string& symbol) {
  SMELT_ASSIGN_OR_RETURN(llvm::TargetMachine * machine, MachineFor(target));
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  // Denormals are kept, as in PyTorch.
  module.addModuleFlag(llvm::Module::Override, "nvvm-reflect-ftz", uint32_t{0});
  SMELT_RETURN_IF_ERROR(LinkLibdevice(module, target, symbol));
  SMELT_RETURN_IF_ERROR(Check(module));
  Optimize(module, machine);
  SMELT_ASSIGN_OR_RETURN(auto emitter,
                         FileEmitter::Create(*machine, llvm::CodeGenFileType::AssemblyFile, LlvmPasses::kAll));
  return emitter->Emit(module);
}

}  // namespace

absl::StatusOr<std::string> CompileToPtx(const KernelSpec& spec, Target target, const std::string& symbol) {
  SMELT_RETURN_IF_ERROR(VerifyKernelSpec(spec));
  llvm::LLVMContext context;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module, LowerKernelForCuda(context, spec, symbol));
  return ToPtx(*module, target, symbol);
}

absl::StatusOr<KernelObject> CompileLibraryKernel(const LibraryKernel& kernel, Target target) {
  llvm::LLVMContext context;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                         LowerLibraryKernel(context, kernel, ComputeCapability(target)));
  KernelObject out;
  out.target = target;
  out.symbol = kernel.Entry();
  SMELT_ASSIGN_OR_RETURN(out.bytes, ToPtx(*module, target, out.symbol));
  return out;
}

absl::StatusOr<std::string> PrintCudaIr(const KernelSpec& spec, const std::string& symbol) {
  SMELT_RETURN_IF_ERROR(VerifyKernelSpec(spec));
  llvm::LLVMContext context;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module, LowerKernelForCuda(context, spec, symbol));
  SMELT_RETURN_IF_ERROR(Check(*module));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

namespace {

// Finds the code of each function in a cubin, an ELF file: its section is ".text." and its name.
absl::Status FindCode(absl::string_view cubin, absl::Span<const KernelObject* const> objects, Image& image) {
  const absl::Status bad = absl::InternalError("ptxas gave no ELF file that can be read");
  Elf64_Ehdr header;
  if (cubin.size() < sizeof header) return bad;
  std::memcpy(&header, cubin.data(), sizeof header);
  auto section = [&](uint64_t i, Elf64_Shdr* out) {
    const uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    if (at > cubin.size() || cubin.size() - at < sizeof *out) return false;
    std::memcpy(out, cubin.data() + at, sizeof *out);
    return out->sh_offset <= cubin.size() &&
           (out->sh_type == SHT_NOBITS || out->sh_size <= cubin.size() - out->sh_offset);
  };
  Elf64_Shdr names;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || !section(header.e_shstrndx, &names)) return bad;
  const absl::string_view table = cubin.substr(names.sh_offset, names.sh_size);
  std::map<std::string, Image::Entry> found;
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr s;
    if (!section(i, &s) || s.sh_name >= table.size()) return bad;
    const absl::string_view name = table.substr(s.sh_name, table.find('\0', s.sh_name) - s.sh_name);
    if (absl::StartsWith(name, ".text."))
      found[std::string(name.substr(6))] = {static_cast<int64_t>(s.sh_offset), static_cast<int64_t>(s.sh_size)};
  }
  for (const KernelObject* o : objects) {
    auto it = found.find(o->symbol);
    if (it == found.end()) return absl::InternalError(absl::StrCat("the cubin has no ", o->symbol));
    image.entries.push_back(it->second);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CudaImage> LinkCudaImage(absl::Span<const KernelObject* const> objects, CudaAssembler assemble) {
  CudaImage out;
  if (objects.empty()) return out;
  // One file may state its version and target once. Equal kernels of a graph are one object. If one is given twice, it
  // must not be defined twice.
  std::map<std::string, Image::Entry> written;
  for (const KernelObject* o : objects) {
    if (!IsCuda(o->target)) return absl::InvalidArgumentError(absl::StrCat(o->symbol, " is no kernel for CUDA"));
    auto [it, fresh] = written.try_emplace(o->symbol);
    if (fresh) {
      it->second.offset = static_cast<int64_t>(out.image.bytes.size());
      for (absl::string_view line : absl::StrSplit(o->bytes, '\n')) {
        const bool header = absl::StartsWith(line, ".version") || absl::StartsWith(line, ".target") ||
                            absl::StartsWith(line, ".address_size");
        if (absl::StartsWith(line, "//") || (header && written.size() > 1)) continue;
        absl::StrAppend(&out.image.bytes, line, "\n");
      }
      it->second.size = static_cast<int64_t>(out.image.bytes.size()) - it->second.offset;
    }
    out.image.entries.push_back(it->second);
  }
  absl::StatusOr<std::string> cubin = assemble(out.image.bytes, objects[0]->target);
  out.image.bytes.push_back('\0');  // the driver wants a string
  if (absl::IsUnimplemented(cubin.status())) return out;
  SMELT_RETURN_IF_ERROR(cubin.status());
  out.is_cubin = true;
  out.ptx = std::exchange(out.image.bytes, *std::move(cubin));
  out.image.entries.clear();
  SMELT_RETURN_IF_ERROR(FindCode(out.image.bytes, objects, out.image));
  return out;
}

}  // namespace smelt
