// A cache of compiled kernels, in the process and on disk.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<KernelCache> cache, KernelCache::Create({}));
//   SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const KernelObject> kernel, cache->GetOrCompile(spec, Target::kX86_64_V3));
//
// Safe to use from any number of threads: equal kernels that are requested at once are compiled once. Safe among
// processes: entries are published as a whole, by rename. An entry that cannot be read or does not match its own digest
// is a miss with a warning, and is replaced. A disk that fails (full, read-only) causes a warning and the loss of the
// cache's benefit, never the loss of a kernel.
#ifndef SMELT_CODEGEN_KERNEL_CACHE_H_
#define SMELT_CODEGEN_KERNEL_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/codegen/compiler.h"

namespace smelt {

struct LibraryKernel;

enum class CacheMode {
  kReadWrite,
  kReadOnly,  // entries are used; none is written, touched or removed
  kOff,       // nothing is read or written on disk; kernels are still kept in the process
};
// "read-write", "read-only", "off"
absl::StatusOr<CacheMode> ParseCacheMode(absl::string_view text);

// Another source of kernels besides this machine's disk: a shared server, or a file. The cache verifies its records, by
// digest and by the whole text of the key. Safe to use from any number of threads.
class KernelStore {
 public:
  virtual ~KernelStore() = default;
  // Returns a record (kernel_record.h), or nullopt for any reason, which is not an error.
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  virtual void Put(const std::string& key, const std::string& record) = 0;
};

class KernelCache {
 public:
  struct Options {
    CacheMode mode = CacheMode::kReadWrite;
    std::string directory;                        // empty: DefaultDirectory()
    int64_t max_bytes = int64_t{1} << 30;         // on disk; the least recently used entries are removed first
    std::function<void(absl::string_view)> warn;  // null: standard error
    bool explain_misses = false;                  // keeps misses(); costs reading the whole cache
    // Asked for kernels that are not on disk, and given compiled ones, except in read-only mode.
    std::shared_ptr<KernelStore> store;
    bool may_compile = true;  // false: a kernel that is found nowhere is an error, kDataLoss
  };
  struct Stats {
    int64_t memory_hits = 0, disk_hits = 0, store_hits = 0, compiled = 0;
    int64_t damaged = 0;  // entries that could not be used
    int64_t evicted = 0;
  };
  struct Request {
    const KernelSpec* spec;
    Target target;
  };
  // A kernel that had to be compiled.
  struct Miss {
    std::string key;
    Target target;
    std::string summary;      // "2 params, 5 operations"
    std::string explanation;  // see Explain
  };
  // An entry on disk.
  struct EntryInfo {
    std::string key;
    int64_t bytes = 0;
    int64_t used_ns = 0;   // time of last use, since the epoch
    std::string key_text;  // KernelKeyText, empty if the entry is damaged
  };

  // Creates the directory if it is missing. Fails only for invalid options.
  static absl::StatusOr<std::unique_ptr<KernelCache>> Create(Options options);
  ~KernelCache();

  // $XDG_CACHE_HOME/smelt/kernels, else $HOME/.cache/smelt/kernels; empty if neither is set.
  static std::string DefaultDirectory();

  absl::StatusOr<std::shared_ptr<const KernelObject>> GetOrCompile(const KernelSpec& spec, Target target);
  // Gets all of them, on `threads` threads (0: one per core), in the order of the requests. Returns the first error in
  // that order.
  absl::StatusOr<std::vector<std::shared_ptr<const KernelObject>>> GetOrCompileAll(absl::Span<const Request> requests,
                                                                                   int threads);

  // Returns PTX of a library kernel, as CompileLibraryKernel does (llvm_cuda.h), with its errors. Kept in the process, on
  // disk and in the store as kernels are, but neither counted among them nor subject to `may_compile`.
  absl::StatusOr<std::shared_ptr<const KernelObject>> GetOrCompileLibrary(const LibraryKernel& kernel, Target target);

  // Returns the cubin that ptxas makes of PTX (cuda_tools.h), with its errors. Kept on disk and in the store as kernels
  // are, but neither counted among them nor subject to `may_compile`.
  absl::StatusOr<std::string> GetOrAssemble(const std::string& ptx, Target target);

  Stats stats() const;
  // With Options::explain_misses: the misses by target and key, compared with the disk when the cache was opened.
  std::vector<Miss> misses() const;
  const std::string& directory() const;

  // For `smelt cache`: entries on disk, by key. Verify removes nothing; it names the damaged ones.
  absl::StatusOr<std::vector<EntryInfo>> List() const;
  absl::StatusOr<std::vector<std::string>> Verify() const;
  absl::Status Clear();
  // Explains why this kernel is not in the cache: the parts of its key that differ from the nearest entry's, one per
  // line. "hit" if it is in the cache.
  absl::StatusOr<std::string> Explain(const KernelSpec& spec, Target target) const;

 private:
  class Impl;
  explicit KernelCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_CACHE_H_
