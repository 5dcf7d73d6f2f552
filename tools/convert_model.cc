#include "smelt/tools/convert_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/core/base/block_digest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/tools/compile_options.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/method_files.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/stats.h"

namespace smelt {
namespace {

// The header's digest of a bundle on disk, with its size; "" if there is none.
std::string BundleDigest(const std::string& path, int64_t& bytes) {
  constexpr size_t kHeaderBytes = 96, kDigest = 64;
  const absl::StatusOr<MappedFile> file = MapFile(path);
  bytes = file.ok() ? static_cast<int64_t>(file->size()) : 0;
  if (!file.ok() || file->size() < kHeaderBytes) return "";
  return absl::BytesToHexString(file->text().substr(kDigest, 32));
}

struct Made {
  CompileStats stats;
  absl::Status status;
  bool writing = false;  // when it failed
  std::vector<UnsupportedOperator> unsupported;
};
void AddUnsupported(const Graph& graph, std::vector<UnsupportedOperator>& sum) {
  for (UnsupportedOperator& u : FindUnsupported(graph)) {
    const auto same = std::find_if(sum.begin(), sum.end(), [&](const auto& other) { return other.name == u.name; });
    if (same == sum.end()) {
      sum.push_back(std::move(u));
    } else {
      same->count += u.count;
    }
  }
}

Made Make(const ConvertInput& input, const std::string& bundle, CompileOptions options) {
  Made out;
  auto read = ReadMethodModels(input.files, options.operators);
  if (!read.ok()) {
    out.status = read.status();
    if (!absl::IsUnimplemented(out.status)) return out;
    // The missing operators of a text model are known before its types are complete.
    for (const MethodFile& file : input.files) {
      auto incomplete = ReadModel(file.path, /*complete=*/false, nullptr, options.operators);
      if (incomplete.ok()) AddUnsupported(**incomplete, out.unsupported);
    }
    return out;
  }
  const bool has_methods = !input.files[0].method.empty();
  if (!has_methods) options.structure = std::move(read->methods[0].structure);
  auto stats = has_methods ? CompileMethodsToFile(read->methods, bundle, options)
                           : CompileToFile(*read->graphs[0], bundle, options);
  if (stats.ok()) {
    out.stats = *stats;
    return out;
  }
  out.status = Annotate(stats.status(), input.path);
  out.writing = true;
  if (absl::IsUnimplemented(out.status)) {
    for (const std::unique_ptr<Graph>& graph : read->graphs) AddUnsupported(*graph, out.unsupported);
  }
  return out;
}

absl::Status MakeFolderOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder.string(), ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace

ConvertPlaces PlacesOf(const std::string& out_dir, const ConvertInput& input) {
  return {absl::StrCat(out_dir, "/", input.relative, ".smb"),
          absl::StrCat(out_dir, "/.smelt/", input.relative, ".json")};
}

std::string ConvertIdentity(const CompileOptions& options) {
  auto program = MapFile("/proc/self/exe");
  std::string out =
      absl::StrCat("smelt convert 1\nprogram ",
                   program.ok() ? ToHex(Sha256(program->bytes())) : std::string(program.status().message()), "\n",
                   Describe(options), "\n");
  // The libraries that the program is linked to.
  for (Target t : options.targets) absl::StrAppend(&out, CodeGeneratorIdentity(t), "\n");
  return out;
}

ConvertRecord ConvertModel(const ConvertInput& input, const ConvertPlaces& places, const CompileOptions& options,
                           const std::string& identity) {
  const auto begin = std::chrono::steady_clock::now();
  ConvertRecord out;
  out.model = input.path;
  out.bundle = places.bundle;
  out.model_bytes = input.bytes;
  auto finish = [&](const char* status, int exit_code, absl::string_view error) {
    out.status = status;
    out.exit_code = exit_code;
    out.error = std::string(error);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    out.milliseconds = ms.count();
    return out;
  };

  {
    Sha256Hasher hasher;
    hasher.Update(identity);
    out.model_bytes = 0;
    for (const MethodFile& file : input.files) {
      auto model = MapFile(file.path);
      if (!model.ok()) return finish("failed", ExitCodeOf(model.status()), model.status().message());
      // The bundle holds the model's name.
      hasher.Update(absl::StrCat(file.method.empty() ? "name " : "method ",
                                 std::filesystem::path(file.path).stem().string(), "\n"));
      const Sha256Digest content = BlockDigest(model->bytes());
      hasher.Update(content.data(), content.size());
      out.model_bytes += static_cast<int64_t>(model->size());
    }
    out.input_digest = ToHex(hasher.Finish());
  }
  ConvertRecord before;
  int64_t bytes = 0;
  if (auto text = ReadFile(places.record);
      text.ok() && Decode(*text, before) && before.input_digest == out.input_digest &&
      before.bundle_digest == BundleDigest(places.bundle, bytes) && before.bundle_bytes == bytes) {
    out.bundle_bytes = bytes;
    out.bundle_digest = before.bundle_digest;
    out.kernels = before.kernels;
    return finish("skipped", kExitOk, "");
  }

  for (const std::string& path : {places.bundle, places.record}) {
    if (absl::Status s = MakeFolderOf(path); !s.ok()) return finish("failed", kExitCannotWrite, s.message());
  }
  Made made = Make(input, places.bundle, options);
  for (const UnsupportedOperator& u : made.unsupported) out.unsupported.push_back({u.name, u.count});
  if (!made.status.ok()) {
    return finish("failed", made.writing ? WriteExitCodeOf(made.status) : ExitCodeOf(made.status),
                  made.status.message());
  }
  out.kernels_compiled = made.stats.kernels_compiled;
  out.kernels_from_cache = made.stats.kernels_from_cache;
  auto bundle = ReadBundle(places.bundle);
  if (!bundle.ok()) return finish("failed", kExitBug, bundle.status().message());
  out.kernels = KernelsOf(**bundle);
  out.bundle_digest = BundleDigest(places.bundle, out.bundle_bytes);
  finish("converted", kExitOk, "");
  if (absl::Status s = WriteFileAtomically(places.record, Encode(out)); !s.ok()) {
    return finish("failed", WriteExitCodeOf(s), s.message());
  }
  return out;
}

}  // namespace smelt
