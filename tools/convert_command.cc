#include "smelt/tools/convert_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/compile_options.h"
#include "smelt/tools/convert_inputs.h"
#include "smelt/tools/convert_model.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/forked_workers.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/version.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

// As a shell reports a process that SIGINT ended.
constexpr int kExitInterrupted = 130;

// The messages of a running conversion: on a terminal one line that changes, elsewhere one line per model, and one when
// no model has ended for ten seconds.
class BatchProgress {
 public:
  BatchProgress(size_t models, bool quiet)
      : models_(models), quiet_(quiet), terminal_(!quiet && isatty(STDOUT_FILENO) != 0) {}

  void Ended(const ConvertRecord& r) {
    last_line_s_ = Seconds();
    ++done_;
    failed_ += r.status == "failed";
    converted_ += r.status == "converted";
    compiled_ += r.kernels_compiled;
    reused_ += r.kernels_from_cache;
    if (terminal_) {
      if (r.status == "failed") {
        Clear();
        std::fprintf(stderr, "smelt convert: %s\n", r.error.c_str());
      }
      return Draw();
    }
    if (r.status == "failed") {
      std::fprintf(stderr, "smelt convert: %s\n", r.error.c_str());
      if (!quiet_) std::printf("[%zu/%zu] %s: failed (exit code %d)\n", done_, models_, r.model.c_str(), r.exit_code);
    } else if (!quiet_) {
      std::printf("[%zu/%zu] %s: %s, %s bytes, %.0f ms\n", done_, models_, r.model.c_str(), r.status.c_str(),
                  absl::StrCat(r.bundle_bytes).c_str(), r.milliseconds);
    }
    std::fflush(stdout);
  }

  void Draw() {
    if (!terminal_) {
      if (!quiet_ && done_ < models_ && Seconds() - last_line_s_ >= 10) {
        last_line_s_ = Seconds();
        std::printf("[%zu/%zu] at work (%s)\n", done_, models_, SecondsText(last_line_s_).c_str());
        std::fflush(stdout);
      }
      return;
    }
    std::string left = "";
    if (done_ > 0 && done_ < models_) {
      const int64_t s = static_cast<int64_t>(Seconds() / done_ * (models_ - done_) + 0.5);
      left = absl::StrFormat(", about %d:%02d left", s / 60, s % 60);
    }
    std::printf("\r\x1b[K%zu of %s, %zu failed; kernels: %lld compiled, %lld reused%s", done_,
                Count(static_cast<int64_t>(models_), "model").c_str(), failed_, static_cast<long long>(compiled_),
                static_cast<long long>(reused_), left.c_str());
    std::fflush(stdout);
  }

  void Summary() {
    if (quiet_) return;
    Clear();
    const double s = Seconds();
    const int64_t kernels = compiled_ + reused_;
    std::printf(
        "%s: %zu converted, %zu skipped, %zu failed%s; kernels: %lld compiled, %lld reused%s; %.1f s, "
        "%.1f models/s\n",
        Count(static_cast<int64_t>(models_), "model").c_str(), converted_, done_ - converted_ - failed_, failed_,
        done_ < models_ ? absl::StrCat(", ", models_ - done_, " not begun").c_str() : "",
        static_cast<long long>(compiled_), static_cast<long long>(reused_),
        kernels > 0 ? absl::StrFormat(" (%.1f%%)", 100.0 * reused_ / kernels).c_str() : "", s, done_ / s);
  }

 private:
  void Clear() {
    if (terminal_) std::printf("\r\x1b[K");
  }
  double Seconds() const {
    return std::max(1e-3, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
  }

  const size_t models_;
  const bool quiet_, terminal_;
  size_t done_ = 0, failed_ = 0, converted_ = 0;
  int64_t compiled_ = 0, reused_ = 0;
  double last_line_s_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Batch {
 public:
  absl::Status ReadArguments(const CommandLine& line) {
    if (line.positional().empty() || !line.Has("out-dir"))
      return absl::InvalidArgumentError("models and --out-dir=DIR expected");
    SMELT_RETURN_IF_ERROR(line.CheckFiles({"op-schema"}, {"report", "log"}));
    SMELT_RETURN_IF_ERROR(ReadCompileOptions(line, options_, cache_options_));
    if (options_.threads == 0) options_.threads = 1;  // models are what is done side by side
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    SMELT_ASSIGN_OR_RETURN(jobs_, line.GetInt("jobs", cores, 1, 1024));
    keep_going_ = line.Has("keep-going");
    quiet_ = line.Has("quiet");
    if (line.Has("shard")) {
      SMELT_ASSIGN_OR_RETURN(shard_, ParseConvertShard(line.Get("shard")));
    }
    report_ = line.Get("report");
    log_path_ = line.Get("log");
    out_dir_ = fs::path(line.Get("out-dir")).lexically_normal().string();
    while (out_dir_.size() > 1 && absl::EndsWith(out_dir_, "/")) out_dir_.pop_back();
    return absl::OkStatus();
  }

  absl::Status ReadOperators(const std::string& paths) {
    SMELT_ASSIGN_OR_RETURN(options_.operators, ReadOperatorSchemas(paths));
    return absl::OkStatus();
  }

  // Called before the first model. FailedPrecondition means that another batch is at work in the folder.
  absl::Status Prepare(const std::vector<std::string>& paths) {
    SMELT_ASSIGN_OR_RETURN(inputs_, FindConvertInputs(paths, keep_going_));
    for (const ConvertInput& i : inputs_) places_.push_back(PlacesOf(out_dir_, i));
    // Every shard checks the whole batch, so that all of them refuse it for the same reason.
    SMELT_RETURN_IF_ERROR(CheckOutputs());
    if (shard_) {
      std::erase_if(inputs_, [&](const ConvertInput& i) { return !shard_->Holds(i); });
      places_.clear();
      for (const ConvertInput& i : inputs_) places_.push_back(PlacesOf(out_dir_, i));
    }
    results_.resize(inputs_.size());
    identity_ = ConvertIdentity(options_);
    return absl::OkStatus();
  }

  absl::Status OpenOutputs() {
    std::error_code error;
    fs::create_directories(out_dir_ + "/.smelt", error);
    if (error) return absl::UnavailableError(absl::StrCat(out_dir_, ": ", error.message()));
    // Shards work in the folder at the same time, but not beside a conversion of the whole batch.
    SMELT_RETURN_IF_ERROR(Lock(LockPath(), shard_ ? LOCK_SH : LOCK_EX));
    if (shard_) SMELT_RETURN_IF_ERROR(Lock(ShardLockPath(), LOCK_EX));
    RemoveLeftovers();
    if (!log_path_.empty()) {
      log_ = std::fopen(log_path_.c_str(), "we");
      if (log_ == nullptr) return absl::UnavailableError(absl::StrCat(log_path_, ": ", strerror(errno)));
    }
    return absl::OkStatus();
  }

  int Run() {
    sigset_t stops;
    sigemptyset(&stops);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, s);
    sigprocmask(SIG_BLOCK, &stops, nullptr);
    const int stop_fd = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);

    // The largest models come first. Otherwise one of them could run alone at the end.
    std::vector<int> order;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].missing.empty()) order.push_back(static_cast<int>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return inputs_[a].bytes > inputs_[b].bytes; });

    BatchProgress progress(inputs_.size(), quiet_);
    std::optional<ForkedWorkers> workers(std::in_place, [this] { return StartWorker(); });
    size_t next = 0;
    bool stop = false;  // begin no more
    absl::Status broken;
    const auto ended = [&](int item, const ConvertRecord& r) {
      progress.Ended(r);
      Log(r);
      stop = stop || (r.status == "failed" && !keep_going_);
      results_[item] = r;
    };
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].missing.empty()) continue;
      ended(static_cast<int>(i), Failed(static_cast<int>(i), kExitUnreadable, inputs_[i].missing));
    }
    while (workers->busy() > 0 || (next < order.size() && !stop)) {
      while (!stop && next < order.size() && workers->busy() < jobs_) {
        broken = workers->Give(order[next]);
        if (broken.ok()) {
          ++next;
          continue;
        }
        // If the system gives no more processes, the present ones do the work.
        if (workers->busy() > 0) {
          jobs_ = workers->busy();
          broken = absl::OkStatus();
        } else {
          stop = true;
        }
        break;
      }
      for (const ForkedWorkers::Outcome& o : workers->Wait(500, stop_fd)) {
        ended(o.item, ResultOf(o));
      }
      progress.Draw();
      signalfd_siginfo info;
      if (read(stop_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        workers.reset();  // kills those at work: outputs are whole or absent
        RemoveLeftovers();
        progress.Summary();
        (void)WriteReport();  // of what was done; it prints an error itself
        std::fprintf(stderr, "smelt convert: interrupted; the same command goes on where it was\n");
        return kExitInterrupted;
      }
    }
    progress.Summary();
    if (!broken.ok()) {
      std::fprintf(stderr, "smelt convert: %s\n", std::string(broken.message()).c_str());
      return kExitCannotWrite;
    }
    return WriteReport();
  }

  ~Batch() {
    if (log_ != nullptr) std::fclose(log_);
    for (int lock : locks_) close(lock);
  }

 private:
  std::string LockPath() const { return out_dir_ + "/.smelt/lock"; }
  std::string ShardLockPath() const { return absl::StrCat(LockPath(), ".", shard_->number, "-of-", shard_->count); }
  // `kind` is LOCK_SH or LOCK_EX. The lock is held until this process and its workers end.
  absl::Status Lock(const std::string& path, int kind) {
    const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
    locks_.push_back(lock);
    if (flock(lock, kind | LOCK_NB) == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(out_dir_, ": another smelt convert is at work there"));
  }

  // The path of the file that a path leads to; "" for a device, which may be several outputs.
  static std::string FileOf(const std::string& path) {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return "";
    return fs::weakly_canonical(path, error).string();
  }

  // Checks that no two outputs are one file, and none is a model.
  absl::Status CheckOutputs() const {
    std::map<std::string, std::string> taken;  // a file, and as what
    for (const ConvertInput& i : inputs_) {
      for (const MethodFile& file : i.files) taken[FileOf(file.path)] = absl::StrCat("the model ", file.path);
    }
    const auto take = [&](const std::string& path, const std::string& what) -> absl::Status {
      const std::string file = FileOf(path);
      if (file.empty()) return absl::OkStatus();
      const auto [it, fresh] = taken.try_emplace(file, absl::StrCat(what, " ", path));
      if (fresh) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(what, " ", path, ": another file expected: this one is also ", it->second));
    };
    for (const ConvertPlaces& p : places_) {
      SMELT_RETURN_IF_ERROR(take(p.bundle, "the bundle"));
      SMELT_RETURN_IF_ERROR(take(p.record, "the record"));
    }
    SMELT_RETURN_IF_ERROR(take(LockPath(), "the lock"));
    if (shard_) SMELT_RETURN_IF_ERROR(take(ShardLockPath(), "the lock"));
    if (!report_.empty()) SMELT_RETURN_IF_ERROR(take(report_, "--report"));
    if (!log_path_.empty()) SMELT_RETURN_IF_ERROR(take(log_path_, "--log"));
    return absl::OkStatus();
  }

  // Runs in the worker's process.
  ForkedWorkers::Work StartWorker() {
    auto cache = KernelCache::Create(cache_options_);
    std::shared_ptr<KernelCache> shared = cache.ok() ? std::move(*cache) : nullptr;
    return [this, shared, options = options_](int item) mutable {
      options.cache = shared.get();
      ConvertRecord r;
      const absl::Status s = CatchOutOfMemory([&] {
        r = ConvertModel(inputs_[item], places_[item], options, identity_);
        return absl::OkStatus();
      });
      return Encode(s.ok() ? r : Failed(item, ExitCodeOf(s), s.message()));
    };
  }

  ConvertRecord Failed(int item, int exit_code, absl::string_view why) const {
    ConvertRecord r;
    r.model = inputs_[item].path;
    r.bundle = places_[item].bundle;
    r.model_bytes = inputs_[item].bytes;
    r.status = "failed";
    r.exit_code = exit_code;
    r.error = absl::StrCat(r.model, ": ", why);
    return r;
  }

  ConvertRecord ResultOf(const ForkedWorkers::Outcome& o) const {
    ConvertRecord r;
    if (!o.ended && Decode(o.answer, r)) return r;
    // The system kills a process that takes all memory.
    const bool out_of_memory = o.exit_code == kExitCannotWrite;
    return Failed(o.item, o.signal == SIGKILL || out_of_memory ? kExitCannotWrite : kExitBug,
                  absl::StrCat("the process that converted it ",
                               o.signal == SIGKILL ? "was killed (out of memory?)"
                               : o.signal != 0     ? absl::StrCat("was ended by signal ", o.signal, ": a bug in smelt")
                               : out_of_memory     ? "ran out of memory"
                                                   : "ended: a bug in smelt"));
  }

  void Log(const ConvertRecord& r) {
    if (log_ == nullptr) return;
    const std::string line = JsonText(LogLine(r)) + "\n";
    std::fwrite(line.data(), 1, line.size(), log_);
    std::fflush(log_);
  }

  // Removes the temporary files of a run that was killed (NAME.tmp.PID.N). Those that another process (smelt compile)
  // is writing stay.
  void RemoveLeftovers() const {
    std::set<std::string> ours, folders;
    for (const ConvertPlaces& p : places_) {
      for (const std::string& path : {p.bundle, p.record}) {
        ours.insert(path);
        folders.insert(fs::path(path).parent_path().string());
      }
    }
    for (const std::string& folder : folders) {
      std::error_code error;
      for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const std::string path = it->path().string();
        const size_t at = path.rfind(".tmp.");
        if (at != std::string::npos && ours.count(path.substr(0, at)) != 0) RemoveAbandonedOutput(path);
      }
    }
  }

  int WriteReport() {
    if (log_ != nullptr && (std::fflush(log_) != 0 || std::ferror(log_) != 0)) {
      std::fprintf(stderr, "smelt convert: %s: cannot write all of the log\n", log_path_.c_str());
      return kExitCannotWrite;
    }
    std::vector<ReportModel> models;
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i]) {
        models.push_back(ToReport(*results_[i], inputs_[i].relative));
      } else {
        models.emplace_back().name = inputs_[i].relative;
        models.back().status = "not begun";
      }
    }
    if (!report_.empty()) {
      const absl::Status s = WriteFileAtomically(
          report_,
          RenderReport({.title = "smelt: converted models", .version = VersionText(), .options = Describe(options_)},
                       models));
      if (!s.ok()) {
        std::fprintf(stderr, "smelt convert: %s\n", std::string(s.message()).c_str());
        return kExitCannotWrite;
      }
      if (!quiet_) {
        std::fflush(stdout);
        std::error_code error;
        const auto bytes = fs::is_regular_file(report_, error) ? fs::file_size(report_, error) : 0;
        std::fprintf(
            stderr, "smelt convert: wrote %s%s\n", report_.c_str(),
            error || bytes == 0 ? "" : absl::StrCat(" (", BytesText(static_cast<int64_t>(bytes)), ")").c_str());
      }
    }
    const bool failed =
        std::any_of(results_.begin(), results_.end(), [](const auto& r) { return !r || r->status == "failed"; });
    return failed ? kExitSomeFailed : kExitOk;
  }

  CompileOptions options_;
  KernelCache::Options cache_options_;
  int64_t jobs_ = 1;
  bool keep_going_ = false, quiet_ = false;
  std::optional<ConvertShard> shard_;
  std::string out_dir_, report_, log_path_, identity_;
  std::vector<ConvertInput> inputs_;
  std::vector<ConvertPlaces> places_;
  std::vector<std::optional<ConvertRecord>> results_;
  std::FILE* log_ = nullptr;
  std::vector<int> locks_;
};

}  // namespace

int RunConvert(const CommandLine& line) {
  Batch batch;
  absl::Status s = batch.ReadArguments(line);
  if (!s.ok()) return UsageError(*FindCommand("convert"), s);
  auto fail = [](const absl::Status& status, int code) {
    std::fprintf(stderr, "smelt convert: %s\n", std::string(status.message()).c_str());
    return code;
  };
  if (s = batch.ReadOperators(line.Get("op-schema")); !s.ok()) return fail(s, ExitCodeOf(s));
  if (s = batch.Prepare(line.positional()); !s.ok()) {
    return fail(s, absl::IsInvalidArgument(s) ? kExitUsage : ExitCodeOf(s));
  }
  if (s = batch.OpenOutputs(); !s.ok()) return fail(s, kExitCannotWrite);
  return batch.Run();
}

}  // namespace smelt
