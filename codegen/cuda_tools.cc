#include "smelt/codegen/cuda_tools.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"

extern char** environ;

namespace smelt {
namespace {

std::string First(const std::vector<std::string>& paths, int mode) {
  for (const std::string& p : paths) {
    if (access(p.c_str(), mode) == 0) return p;
  }
  return "";
}

// A folder that is removed with this object, together with the named files.
class Scratch {
 public:
  Scratch() {
    const char* parent = std::getenv("TMPDIR");
    path_ = absl::StrCat(parent && *parent ? parent : "/tmp", "/smelt.XXXXXX");
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    for (const std::string& f : files_) unlink(f.c_str());
    if (!path_.empty()) rmdir(path_.c_str());
  }
  bool ok() const { return !path_.empty(); }
  std::string File(const char* name) {
    files_.push_back(absl::StrCat(path_, "/", name));
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

}  // namespace

const CudaTools& FindCudaTools() {
  static const CudaTools* const tools = [] {
    auto* t = new CudaTools();
    const char* home = std::getenv("CUDA_HOME");
    if (home && *home) {
      t->libdevice = First({absl::StrCat(home, "/nvvm/libdevice/libdevice.10.bc")}, R_OK);
      t->ptxas = First({absl::StrCat(home, "/bin/ptxas")}, X_OK);
    } else {
      t->libdevice = First(
          {"/usr/local/cuda/nvvm/libdevice/libdevice.10.bc", "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc"},
          R_OK);
      t->ptxas = First({"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"}, X_OK);
    }
    return t;
  }();
  return *tools;
}

namespace {

// Runs a program, whose output goes to the file `log`, and returns its exit status.
absl::StatusOr<int> Run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> args;
  for (const std::string& word : command) args.push_back(const_cast<char*>(word.c_str()));
  args.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  const int error = posix_spawn(&child, args[0], &actions, nullptr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::UnavailableError(absl::StrCat(command[0], ": ", strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

const std::string& PtxasBuild() {
  static const std::string* const build = [] {
    Scratch scratch;
    const std::string& program = FindCudaTools().ptxas;
    if (program.empty() || !scratch.ok()) return new std::string();
    const std::string log = scratch.File("log");
    const absl::StatusOr<int> status = Run({program, "--version"}, log);
    const absl::StatusOr<std::string> words = ReadFile(log);
    if (!status.ok() || *status != 0 || !words.ok()) return new std::string();
    std::string last;
    for (absl::string_view line : absl::StrSplit(*words, '\n', absl::SkipEmpty())) last = std::string(line);
    return new std::string(last);
  }();
  return *build;
}

absl::StatusOr<std::string> RunPtxas(const std::string& ptx, Target target) {
  const std::string& program = FindCudaTools().ptxas;
  if (program.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("target ", Name(target), ": ptxas is not found; it is part of the CUDA toolkit (CUDA_HOME)"));
  }
  Scratch scratch;
  if (!scratch.ok()) return absl::UnavailableError(absl::StrCat("mkdtemp: ", strerror(errno)));
  const std::string in = scratch.File("kernels.ptx"), out = scratch.File("kernels.cubin"), log = scratch.File("log");
  SMELT_RETURN_IF_ERROR(WriteFileAtomically(in, absl::string_view(ptx)));
  const std::string arch = absl::StrCat("-arch=", Name(target));
  SMELT_ASSIGN_OR_RETURN(const int status, Run({program, arch, in, "-o", out}, log));
  if (status != 0) {
    const absl::StatusOr<std::string> words = ReadFile(log);
    return absl::InternalError(absl::StrCat("ptxas ", arch, ": ", words.ok() ? *words : "failed"));
  }
  return ReadFile(out);
}

}  // namespace smelt
