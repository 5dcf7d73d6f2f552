#include "smelt/codegen/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/codegen/cuda_tools.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/codegen/key_difference.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/core/base/blocks.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {
namespace {

constexpr absl::string_view kSuffix = ".kernel";
constexpr absl::string_view kTemporary = ".tmp.";
// A temporary file of this age belongs to a process that died.
constexpr int64_t kStaleSeconds = 3600;

int64_t Nanoseconds(const timespec& t) { return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec; }

absl::Status MakeDirectories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST && errno != EISDIR) {
      return absl::UnavailableError(absl::StrCat(part, ": mkdir: ", strerror(errno)));
    }
  }
  return absl::OkStatus();
}

std::string ExplainAmong(absl::Span<const KernelCache::EntryInfo> entries, const std::string& wanted) {
  const KernelCache::EntryInfo* nearest = nullptr;
  std::vector<KeyDifference> best;
  const std::string key = ToHex(Sha256(wanted));
  for (const KernelCache::EntryInfo& e : entries) {
    if (e.key_text.empty() && e.key == key) return "miss; its entry is damaged";
    if (e.key_text.empty()) continue;
    if (e.key_text == wanted) return "hit";
    std::vector<KeyDifference> differences = CompareKeys(wanted, e.key_text);
    if (nearest != nullptr && differences.size() >= best.size()) continue;
    nearest = &e;
    best = std::move(differences);
  }
  if (nearest == nullptr) return "miss; the cache has no entry";
  // If keys differ in more places than this, a list of all differences would say less than its length does.
  constexpr size_t kShown = 8;
  std::string out = absl::StrCat("miss; the nearest entry, ", nearest->key.substr(0, 12), ", differs in ", best.size(),
                                 best.size() == 1 ? " part:" : " parts:");
  for (size_t i = 0; i < std::min(best.size(), kShown); ++i) absl::StrAppend(&out, "\n  ", best[i].ToString());
  if (best.size() > kShown) absl::StrAppend(&out, "\n  and ", best.size() - kShown, " more");
  return out;
}

// Among processes, too, a kernel is compiled once: a second process waits until the first has stored it. This is a
// help, not a guarantee: nobody waits for much longer than it takes to compile a kernel, whatever the other does. A
// turn is a lock on one byte of the file, at a place that the key determines.
class Turn {
 public:
  // Without a path no turn is taken.
  Turn(const std::string& path, absl::string_view key) {
    uint64_t place;
    if (path.empty() || !absl::SimpleHexAtoi(key.substr(0, 15), &place)) return;
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(place);
    lock.l_len = 1;
    constexpr int kMaxWaits = 1000;  // of a millisecond
    for (int i = 0; fd_ >= 0 && i < kMaxWaits && fcntl(fd_, F_OFD_SETLK, &lock) != 0; ++i) {
      if (errno != EAGAIN && errno != EACCES) break;
      waited_ = true;
      usleep(1000);
    }
  }
  ~Turn() {
    if (fd_ >= 0) close(fd_);  // gives the lock up; so does the end of the process
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool waited() const { return waited_; }

 private:
  int fd_ = -1;
  bool waited_ = false;
};

}  // namespace

absl::StatusOr<CacheMode> ParseCacheMode(absl::string_view text) {
  if (text == "read-write") return CacheMode::kReadWrite;
  if (text == "read-only") return CacheMode::kReadOnly;
  if (text == "off") return CacheMode::kOff;
  return absl::InvalidArgumentError(absl::StrCat("cache mode \"", text, "\" is not read-write, read-only or off"));
}

class KernelCache::Impl {
 public:
  using Result = absl::StatusOr<std::shared_ptr<const KernelObject>>;

  explicit Impl(Options options) : options_(std::move(options)) {
    if (!options_.explain_misses) return;
    if (absl::StatusOr<std::vector<EntryInfo>> entries = List(); entries.ok()) known_ = *std::move(entries);
  }

  void Warn(absl::string_view what) const {
    if (options_.warn) {
      std::lock_guard<std::mutex> lock(warn_mutex_);
      options_.warn(what);
      return;
    }
    std::fprintf(stderr, "smelt: kernel cache: %.*s\n", static_cast<int>(what.size()), what.data());
  }

  Result Get(const KernelSpec& spec, Target target) {
    const std::string spec_text = spec.ToString();
    const std::string key_text = KernelKeyText(spec_text, target);
    std::promise<Result> promise;
    std::shared_future<Result> future;
    bool mine = false;
    {
      // Kernels are found by the whole text of their key, not by its digest: a hit is equal in everything.
      std::lock_guard<std::mutex> lock(mutex_);
      auto [it, inserted] = kernels_.try_emplace(key_text);
      if (inserted) {
        it->second = promise.get_future().share();
        mine = true;
      } else {
        ++stats_.memory_hits;
      }
      future = it->second;
    }
    if (!mine) return future.get();
    Result result = Recovered<std::shared_ptr<const KernelObject>>(
        "kernels", [&] { return LoadOrCompile(spec, target, spec_text, key_text); });
    if (!result.ok()) {
      // Waiting threads get the error; later ones try again.
      std::lock_guard<std::mutex> lock(mutex_);
      kernels_.erase(key_text);
    }
    promise.set_value(result);
    return result;
  }

  // Returns the bytes that are kept under a key, else those that `make` returns.
  absl::StatusOr<std::string> GetOrMake(const std::string& key_text,
                                        absl::FunctionRef<absl::StatusOr<std::string>()> make) {
    const std::string key = ToHex(Sha256(key_text));
    if (auto bytes = FromDisk(key, key_text)) return *std::move(bytes);
    if (auto bytes = FromStore(key, key_text)) return *std::move(bytes);
    SMELT_ASSIGN_OR_RETURN(std::string bytes, make());
    Keep(key, key_text, bytes);
    return bytes;
  }

  absl::StatusOr<std::string> GetOrAssemble(const std::string& ptx, Target target) {
    if (PtxasBuild().empty()) return RunPtxas(ptx, target);
    // The lines of KernelKeyText.
    return GetOrMake(absl::StrCat("target ", Name(target), "\ngenerator ptxas ", PtxasBuild(),
                                  "\nspec\ncubin of PTX sha256:", ToHex(Sha256(ptx)), "\n"),
                     [&] { return RunPtxas(ptx, target); });
  }

  Result GetLibrary(const LibraryKernel& kernel, Target target) {
    const std::string key_text = LibraryKeyText(kernel.Entry(), target);
    std::lock_guard<std::mutex> lock(library_mutex_);
    std::shared_ptr<const KernelObject>& kept = library_[key_text];
    if (kept != nullptr) return kept;
    auto object = std::make_shared<KernelObject>();
    SMELT_ASSIGN_OR_RETURN(object->bytes, GetOrMake(key_text, [&]() -> absl::StatusOr<std::string> {
                             SMELT_ASSIGN_OR_RETURN(KernelObject compiled, CompileLibraryKernel(kernel, target));
                             return std::move(compiled.bytes);
                           }));
    object->target = target;
    object->symbol = kernel.Entry();
    return kept = std::move(object);
  }

  Stats stats() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  std::vector<Miss> misses() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Miss> out = misses_;
    std::sort(out.begin(), out.end(),
              [](const Miss& a, const Miss& b) { return std::tie(a.target, a.key) < std::tie(b.target, b.key); });
    return out;
  }
  const Options& options() const { return options_; }

  absl::StatusOr<std::vector<EntryInfo>> List() const {
    std::vector<EntryInfo> out;
    if (options_.mode == CacheMode::kOff) return out;
    SMELT_ASSIGN_OR_RETURN(std::vector<EntryInfo> files, Scan(nullptr));
    for (EntryInfo& e : files) {
      absl::StatusOr<std::string> bytes = ReadFile(PathOf(e.key));
      if (!bytes.ok()) continue;  // gone meanwhile
      absl::StatusOr<KernelRecord> entry = DecodeKernelRecord(*bytes);
      if (entry.ok() && ToHex(Sha256(entry->key_text)) == e.key) e.key_text = std::string(entry->key_text);
      out.push_back(std::move(e));
    }
    return out;
  }

  absl::Status Clear() {
    if (options_.mode != CacheMode::kReadWrite) {
      return absl::FailedPreconditionError("the kernel cache is not opened for writing");
    }
    std::vector<std::string> temporaries;
    SMELT_ASSIGN_OR_RETURN(std::vector<EntryInfo> files, Scan(&temporaries));
    for (const EntryInfo& e : files) temporaries.push_back(PathOf(e.key));
    for (const std::string& path : temporaries) {
      if (unlink(path.c_str()) != 0 && errno != ENOENT) {
        return absl::UnavailableError(absl::StrCat(path, ": unlink: ", strerror(errno)));
      }
    }
    std::lock_guard<std::mutex> lock(disk_mutex_);
    bytes_on_disk_ = 0;
    return absl::OkStatus();
  }

 private:
  std::string PathOf(absl::string_view key) const { return absl::StrCat(options_.directory, "/", key, kSuffix); }

  Result LoadOrCompile(const KernelSpec& spec, Target target, const std::string& spec_text,
                       const std::string& key_text) {
    const std::string key = ComputeKernelKey(spec_text, target);
    const auto found = [&](std::string bytes, int64_t Stats::* counter) {
      Count(counter);
      return std::make_shared<const KernelObject>(
          KernelObject{.target = target, .key = key, .symbol = absl::StrCat("k_", key), .bytes = std::move(bytes)});
    };
    const bool is_new = access(PathOf(key).c_str(), F_OK) != 0;
    if (auto bytes = FromDisk(key, key_text)) return found(*std::move(bytes), &Stats::disk_hits);
    const Turn turn(options_.mode == CacheMode::kReadWrite ? absl::StrCat(options_.directory, "/turns") : "", key);
    // Another process may have had its turn since the first look. An entry that was no good is not looked at twice.
    if (turn.waited() || is_new) {
      if (auto bytes = FromDisk(key, key_text)) return found(*std::move(bytes), &Stats::disk_hits);
    }
    if (auto bytes = FromStore(key, key_text)) return found(*std::move(bytes), &Stats::store_hits);
    if (!options_.may_compile) {
      return absl::DataLossError(absl::StrCat("kernel ", key, " is in none of the files given"));
    }
    SMELT_ASSIGN_OR_RETURN(KernelObject object, CompileKernel(spec, target));
    auto result = std::make_shared<const KernelObject>(std::move(object));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++stats_.compiled;
      if (options_.explain_misses) {
        misses_.push_back(
            {key, target, absl::StrCat(spec.params.size(), " params, ", spec.instrs.size(), " operations"),
             options_.mode == CacheMode::kOff ? "miss; there is no cache on disk" : ExplainAmong(known_, key_text)});
      }
    }
    Keep(key, key_text, result->bytes);
    return result;
  }

  void Keep(const std::string& key, const std::string& key_text, const std::string& object) {
    const bool has_store = options_.store && options_.mode != CacheMode::kReadOnly;
    if (options_.mode != CacheMode::kReadWrite && !has_store) return;
    const std::string record = EncodeKernelRecord(key_text, object);
    if (options_.mode == CacheMode::kReadWrite) Store(key, record);
    if (has_store) options_.store->Put(key, record);
  }

  void Count(int64_t Stats::* counter) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++(stats_.*counter);
  }

  // Returns the object of a record, if it is the one wanted; else warns.
  std::optional<std::string> Accept(const std::string& record, const std::string& key_text, absl::string_view where) {
    absl::StatusOr<KernelRecord> entry = DecodeKernelRecord(record);
    absl::Status status = entry.status();
    if (status.ok() && entry->key_text != key_text) status = absl::DataLossError("holds another kernel");
    if (!status.ok()) {
      Warn(absl::StrCat(where, " ", status.message(), "; compiling the kernel anew"));
      Count(&Stats::damaged);
      return std::nullopt;
    }
    return std::string(entry->object);
  }

  std::optional<std::string> FromStore(const std::string& key, const std::string& key_text) {
    if (!options_.store) return std::nullopt;
    const std::optional<std::string> record = options_.store->Get(key);
    if (!record) return std::nullopt;
    std::optional<std::string> object = Accept(*record, key_text, "the entry of the shared cache");
    if (object && options_.mode == CacheMode::kReadWrite) Store(key, *record);
    return object;
  }

  std::optional<std::string> FromDisk(const std::string& key, const std::string& key_text) {
    if (options_.mode == CacheMode::kOff) return std::nullopt;
    const std::string path = PathOf(key);
    // Reading a pipe in an entry's place would block.
    if (struct stat info; stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      Warn(absl::StrCat(path, " is not a file; compiling the kernel anew"));
      return std::nullopt;
    }
    absl::StatusOr<std::string> bytes = ReadFile(path);
    if (!bytes.ok()) {
      if (!absl::IsNotFound(bytes.status())) Warn(bytes.status().message());
      return std::nullopt;
    }
    std::optional<std::string> object = Accept(*bytes, key_text, path);
    if (!object) return std::nullopt;
    // The time of last use, for eviction. A failure costs only the entry's place in the order.
    if (options_.mode == CacheMode::kReadWrite) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return object;
  }

  void Store(const std::string& key, const std::string& entry) {
    const absl::Status status = Publish(PathOf(key), entry);
    if (!status.ok()) {
      // One warning is enough for a full or read-only disk.
      if (!warned_of_writing_.exchange(true)) Warn(absl::StrCat(status.message(), "; kernels are not kept"));
      return;
    }
    std::lock_guard<std::mutex> lock(disk_mutex_);
    if (bytes_on_disk_) *bytes_on_disk_ += static_cast<int64_t>(entry.size());
    if (!bytes_on_disk_ || *bytes_on_disk_ > options_.max_bytes) Evict();
  }

  // Writes the file whole or not at all. It is not synced to the disk: after a crash of the machine an entry may be
  // damaged, which its digest shows.
  absl::Status Publish(const std::string& path, absl::string_view bytes) {
    static std::atomic<uint64_t> counter = 0;
    const std::string temporary = absl::StrCat(path, kTemporary, getpid(), ".", counter++);
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return absl::UnavailableError(absl::StrCat(temporary, ": create: ", strerror(errno)));
    absl::Status status;
    for (absl::string_view rest = bytes; !rest.empty() && status.ok();) {
      const ssize_t n = write(fd, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        status = absl::UnavailableError(absl::StrCat(temporary, ": write: ", strerror(errno)));
      } else {
        rest.remove_prefix(static_cast<size_t>(n));
      }
    }
    if (close(fd) != 0 && status.ok()) {
      status = absl::UnavailableError(absl::StrCat(temporary, ": close: ", strerror(errno)));
    }
    if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
      status = absl::UnavailableError(absl::StrCat(path, ": rename: ", strerror(errno)));
    }
    if (!status.ok()) unlink(temporary.c_str());
    return status;
  }

  // Entries by key. Temporary files that are no longer being written go to `stale`.
  absl::StatusOr<std::vector<EntryInfo>> Scan(std::vector<std::string>* stale) const {
    DIR* dir = opendir(options_.directory.c_str());
    if (!dir && errno == ENOENT) return std::vector<EntryInfo>();
    if (!dir) return absl::UnavailableError(absl::StrCat(options_.directory, ": opendir: ", strerror(errno)));
    std::vector<EntryInfo> out;
    while (const dirent* e = readdir(dir)) {
      absl::string_view name = e->d_name;
      const bool temporary = absl::StrContains(name, kTemporary);
      if (!temporary && !absl::EndsWith(name, kSuffix)) continue;
      struct stat info;
      if (fstatat(dirfd(dir), e->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode)) continue;
      if (temporary) {
        if (stale && time(nullptr) - info.st_mtim.tv_sec > kStaleSeconds) {
          stale->push_back(absl::StrCat(options_.directory, "/", name));
        }
        continue;
      }
      EntryInfo entry;
      entry.key = std::string(absl::StripSuffix(name, kSuffix));
      entry.bytes = info.st_size;
      entry.used_ns = Nanoseconds(info.st_mtim);
      out.push_back(std::move(entry));
    }
    closedir(dir);
    std::sort(out.begin(), out.end(), [](const EntryInfo& a, const EntryInfo& b) { return a.key < b.key; });
    return out;
  }

  // Counts the bytes, and while they are too many, removes the least recently used entries: down to nine tenths, so
  // that this does not happen for every kernel. Other processes may do the same; an entry that one has removed is gone
  // for the other.
  void Evict() {
    std::vector<std::string> stale;
    absl::StatusOr<std::vector<EntryInfo>> files = Scan(&stale);
    if (!files.ok()) return;
    for (const std::string& path : stale) unlink(path.c_str());
    int64_t total = 0;
    for (const EntryInfo& e : *files) total += e.bytes;
    if (total > options_.max_bytes) {
      std::sort(files->begin(), files->end(), [](const EntryInfo& a, const EntryInfo& b) {
        return std::tie(a.used_ns, a.key) < std::tie(b.used_ns, b.key);
      });
      for (const EntryInfo& e : *files) {
        if (total <= options_.max_bytes / 10 * 9) break;
        if (unlink(PathOf(e.key).c_str()) != 0) continue;
        total -= e.bytes;
        std::lock_guard<std::mutex> lock(mutex_);
        ++stats_.evicted;
      }
    }
    bytes_on_disk_ = total;
  }

  const Options options_;
  mutable std::mutex warn_mutex_;
  std::atomic<bool> warned_of_writing_ = false;

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_future<Result>> kernels_;  // finished and in the making, by the key's text
  Stats stats_;
  std::vector<Miss> misses_;

  std::mutex library_mutex_;
  std::map<std::string, std::shared_ptr<const KernelObject>> library_;  // by the key's text

  std::vector<EntryInfo> known_;  // what explains misses
  std::mutex disk_mutex_;
  std::optional<int64_t> bytes_on_disk_;  // not counted before the first write
};

KernelCache::KernelCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KernelCache::~KernelCache() = default;

std::string KernelCache::DefaultDirectory() {
  // The XDG specification: a relative path is to be ignored.
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg && xdg[0] == '/') return absl::StrCat(xdg, "/smelt/kernels");
  const char* home = std::getenv("HOME");
  if (home && home[0] == '/') return absl::StrCat(home, "/.cache/smelt/kernels");
  return "";
}

absl::StatusOr<std::unique_ptr<KernelCache>> KernelCache::Create(Options options) {
  if (options.max_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("kernel cache: a size cap of ", options.max_bytes, " bytes"));
  }
  std::string warning;
  if (options.mode != CacheMode::kOff) {
    if (options.directory.empty()) options.directory = DefaultDirectory();
    if (options.directory.empty()) {
      // A build sandbox has no home; that is no reason to fail.
      options.mode = CacheMode::kOff;
    } else if (options.mode == CacheMode::kReadWrite) {
      const absl::Status made = MakeDirectories(options.directory);
      if (!made.ok()) {
        warning = absl::StrCat(made.message(), "; going on without a cache on disk");
        options.mode = CacheMode::kOff;
      }
    }
  }
  auto cache = std::unique_ptr<KernelCache>(new KernelCache(std::make_unique<Impl>(std::move(options))));
  if (!warning.empty()) cache->impl_->Warn(warning);
  return cache;
}

absl::StatusOr<std::shared_ptr<const KernelObject>> KernelCache::GetOrCompile(const KernelSpec& spec, Target target) {
  return impl_->Get(spec, target);
}

absl::StatusOr<std::vector<std::shared_ptr<const KernelObject>>> KernelCache::GetOrCompileAll(
    absl::Span<const Request> requests, int threads) {
  std::vector<absl::StatusOr<std::shared_ptr<const KernelObject>>> results(
      requests.size(), absl::StatusOr<std::shared_ptr<const KernelObject>>(absl::UnknownError("not asked for")));
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = static_cast<int>(std::min<size_t>(threads, requests.size()));
  // Equal kernels are compiled once. Otherwise a thread would wait for another's compilation.
  std::map<std::string, size_t> first;
  std::vector<size_t> source(requests.size()), work;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto [it, inserted] =
        first.try_emplace(absl::StrCat(Name(requests[i].target), "\n", requests[i].spec->ToString()), i);
    source[i] = it->second;
    if (inserted) work.push_back(i);
  }
  std::atomic<size_t> next = 0;
  auto run = [&] {
    for (size_t k; (k = next++) < work.size();) {
      const Request& r = requests[work[k]];
      results[work[k]] =
          Recovered<std::shared_ptr<const KernelObject>>("kernels", [&] { return impl_->Get(*r.spec, r.target); });
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads && StartThread(pool, run); ++t) {
  }
  run();
  for (std::thread& t : pool) t.join();
  std::vector<std::shared_ptr<const KernelObject>> out;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!results[source[i]].ok()) return results[source[i]].status();
    out.push_back(*results[source[i]]);
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const KernelObject>> KernelCache::GetOrCompileLibrary(const LibraryKernel& kernel,
                                                                                     Target target) {
  return impl_->GetLibrary(kernel, target);
}

absl::StatusOr<std::string> KernelCache::GetOrAssemble(const std::string& ptx, Target target) {
  return impl_->GetOrAssemble(ptx, target);
}

KernelCache::Stats KernelCache::stats() const { return impl_->stats(); }
std::vector<KernelCache::Miss> KernelCache::misses() const { return impl_->misses(); }
const std::string& KernelCache::directory() const { return impl_->options().directory; }

absl::StatusOr<std::vector<KernelCache::EntryInfo>> KernelCache::List() const { return impl_->List(); }

absl::StatusOr<std::vector<std::string>> KernelCache::Verify() const {
  SMELT_ASSIGN_OR_RETURN(std::vector<EntryInfo> entries, impl_->List());
  std::vector<std::string> damaged;
  for (const EntryInfo& e : entries) {
    if (e.key_text.empty()) damaged.push_back(e.key);
  }
  return damaged;
}

absl::Status KernelCache::Clear() { return impl_->Clear(); }

absl::StatusOr<std::string> KernelCache::Explain(const KernelSpec& spec, Target target) const {
  SMELT_ASSIGN_OR_RETURN(std::vector<EntryInfo> entries, impl_->List());
  return ExplainAmong(entries, KernelKeyText(spec.ToString(), target));
}

}  // namespace smelt
