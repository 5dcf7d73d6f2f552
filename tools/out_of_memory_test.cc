// A host process survives a call for which there is no memory: for every model of testdata/, loading, instantiating and
// running are repeated with one allocation after the other failing. A program of its own, because it replaces malloc
// and mmap, for the standard library and OpenSSL too.
//
// The number of allocations of a phase that fail is limited, evenly spread; SMELT_ALL_ALLOCATIONS=1 makes all of them
// fail.
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/library/onednn.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<bool> g_counting = false;
std::atomic<int64_t> g_seen = 0;        // since counting began
std::atomic<int64_t> g_fail_from = -1;  // allocations that fail, by their numbers; -1: none
std::atomic<int64_t> g_fail_to = -1;

// The address range of oneDNN's code. It uses memory without checking whether it was allocated; its own allocations are
// not tested here.
struct Range {
  uintptr_t low = 0, high = 0;
};
Range FindOneDnn() {
  Range out;
  if (!smelt::HasOnednn()) return out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) & h = info->dlpi_phdr[i];
          if (h.p_type != PT_LOAD || !(h.p_flags & PF_X)) continue;
          static_cast<Range*>(found)->low = info->dlpi_addr + h.p_vaddr;
          static_cast<Range*>(found)->high = info->dlpi_addr + h.p_vaddr + h.p_memsz;
        }
        return 1;
      },
      &out);
  return out;
}
const Range g_onednn = FindOneDnn();

bool IsOneDnn(const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(code);
  return at >= g_onednn.low && at < g_onednn.high;
}

// Returns whether oneDNN allocates, itself or through the standard library. The first walk over the stack allocates.
bool OneDnnAsks() {
  void* frames[64];
  g_counting = false;
  const int depth = backtrace(frames, 64);
  g_counting = true;
  return std::any_of(frames, frames + depth, IsOneDnn);
}

bool Fails(void* caller) {
  if (!g_counting.load(std::memory_order_relaxed) || IsOneDnn(caller)) return false;
  const int64_t n = g_seen.fetch_add(1, std::memory_order_relaxed);
  if (n < g_fail_from || n >= g_fail_to || OneDnnAsks()) return false;
  errno = ENOMEM;
  return true;
}

void* New(size_t n, void* caller) {
  void* p = Fails(caller) ? nullptr : __libc_malloc(n == 0 ? 1 : n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

#define SMELT_CALLER __builtin_return_address(0)

void* operator new(size_t n) { return New(n, SMELT_CALLER); }
void* operator new[](size_t n) { return New(n, SMELT_CALLER); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

extern "C" {
void* malloc(size_t n) { return Fails(SMELT_CALLER) ? nullptr : __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return Fails(SMELT_CALLER) ? nullptr : __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return Fails(SMELT_CALLER) ? nullptr : __libc_realloc(p, n); }
void* memalign(size_t alignment, size_t n) { return Fails(SMELT_CALLER) ? nullptr : __libc_memalign(alignment, n); }
void* aligned_alloc(size_t alignment, size_t n) {
  return Fails(SMELT_CALLER) ? nullptr : __libc_memalign(alignment, n);
}
int posix_memalign(void** p, size_t alignment, size_t n) {
  *p = Fails(SMELT_CALLER) ? nullptr : __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (Fails(SMELT_CALLER)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, fd, offset));
}
}

namespace smelt {
namespace {

// Counts from its construction on; allocations [from, to) fail.
class Failing {
 public:
  Failing(int64_t from, int64_t to) {
    g_seen = 0;
    g_fail_from = from;
    g_fail_to = to;
    g_counting = true;
  }
  ~Failing() { g_counting = false; }
  static int64_t seen() { return g_seen; }
};

// Returns some of the numbers [0, count), evenly spread.
std::vector<int64_t> Chosen(int64_t count) {
  static const bool kAll = std::getenv("SMELT_ALL_ALLOCATIONS") != nullptr;
  constexpr int64_t kMost = 60;
  const int64_t step = kAll || count <= kMost ? 1 : (count + kMost - 1) / kMost;
  std::vector<int64_t> out;
  for (int64_t k = 0; k < count; k += step) out.push_back(k);
  return out;
}

std::string Folder() {
  const char* elsewhere = std::getenv("SMELT_TEST_BUNDLES");
  return elsewhere != nullptr ? elsewhere : "tools/conformance_bundles";
}

std::vector<std::string> Models() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".smb") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The arguments of the first call of a model's case.
class Arguments {
 public:
  explicit Arguments(const std::string& model) {
    auto file = SafetensorsFile::Read(absl::StrCat("testdata/", model, ".case.safetensors"));
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    auto document = ParseJsonText(file_->metadata().at("smelt.case"), model);
    EXPECT_TRUE(document.ok()) << document.status();
    words_ = (*document)["calls"][0]["args"];
  }

  // Makes them in their own memory.
  std::vector<Datum> Make() const {
    std::map<std::string, std::shared_ptr<Storage>> storages;
    std::vector<Datum> out;
    for (size_t i = 0; i < words_.size(); ++i) {
      const nlohmann::json& w = words_[i];
      if (!w.contains("storage")) {
        out.push_back(w.contains("int")     ? Datum(w["int"].get<int64_t>())
                      : w.contains("float") ? Datum(w["float"].get<double>())
                      : w.contains("bool")  ? Datum(w["bool"].get<bool>())
                                            : Datum());
        continue;
      }
      std::optional<size_t> same;
      for (size_t k = 0; k < i && !w.contains("distinct"); ++k) {
        const nlohmann::json& o = words_[k];
        if (o.contains("storage") && o["storage"] == w["storage"] && o["dtype"] == w["dtype"] &&
            o["sizes"] == w["sizes"] && o["strides"] == w["strides"] && o["offset"] == w["offset"])
          same = k;
      }
      if (same) {
        out.push_back(out[*same]);
        continue;
      }
      const std::string name = w["storage"].get<std::string>();
      std::shared_ptr<Storage>& s = storages[name];
      if (s == nullptr) {
        const absl::string_view bytes = file_->entries().at(name).bytes;
        s = Storage::Allocate(static_cast<int64_t>(bytes.size()));
        if (!bytes.empty()) std::memcpy(s->data(), bytes.data(), bytes.size());
      }
      out.push_back(Datum(Tensor(s, *ParseDType(w["dtype"].get<std::string>()),
                                 Geometry{w["sizes"].get<std::vector<int64_t>>(),
                                          w["strides"].get<std::vector<int64_t>>(), w["offset"].get<int64_t>()})));
    }
    return out;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
  nlohmann::json words_;
};

// Returns all that is visible of tensors: geometry and the bytes of the whole storage.
std::string Shown(const std::vector<Datum>& values) {
  std::string out;
  for (const Datum& v : values) {
    if (!v.IsTensor()) {
      absl::StrAppend(&out, v.IsInt() ? absl::StrCat(v.as_int()) : v.IsFloat() ? absl::StrCat(v.as_float()) : "-", ";");
      continue;
    }
    const Storage& s = *v.tensor().storage();
    absl::StrAppend(&out, v.tensor().geometry().ToString(), ":", absl::string_view(s.data(), s.bytes()), ";");
  }
  return out;
}
// Returns the elements of results. The bytes between them are undefined.
std::string Elements(const std::vector<Datum>& values) {
  std::vector<Datum> dense;
  for (const Datum& v : values) dense.push_back(v.IsTensor() ? Datum(v.tensor().Clone()) : v);
  return Shown(dense);
}
std::string States(const Program& program, const Instance& instance) {
  std::vector<Datum> states;
  for (size_t i = 0; i < program.states().size(); ++i) {
    if (program.states()[i].is_mutated) states.push_back(instance.state(static_cast<int>(i)));
  }
  return Shown(states);
}

class OutOfMemoryTest : public testing::TestWithParam<std::string> {
 protected:
  std::string bundle() const { return absl::StrCat(Folder(), "/", GetParam(), ".smb"); }
  std::shared_ptr<const Program> Load() const {
    ProgramOptions options;
    options.threads = 1;
    auto p = Program::Load(bundle(), options);
    EXPECT_TRUE(p.ok()) << p.status();
    return *p;
  }
};

TEST_P(OutOfMemoryTest, LoadingEndsWithAnError) {
  Load();  // what is made once per process
  const std::string path = bundle();
  int64_t count;
  {
    Failing none(-1, -1);
    ASSERT_TRUE(Program::Load(path).ok());
    count = Failing::seen();
  }
  for (const bool all_from_there : {false, true}) {
    for (int64_t k : Chosen(count)) {
      absl::StatusCode code = absl::StatusCode::kOk;
      {
        Failing failing(k, all_from_there ? INT64_MAX : k + 1);
        const auto p = Program::Load(path);
        code = p.status().code();
      }
      // A failure that a fallback handles does not count.
      EXPECT_TRUE(code == absl::StatusCode::kResourceExhausted || (code == absl::StatusCode::kOk && !all_from_there))
          << "allocation " << k << ": " << absl::StatusCodeToString(code);
    }
  }
  Load();
}

TEST_P(OutOfMemoryTest, ACallEndsWithAnErrorAndLeavesWhatTheCallerHas) {
  const std::shared_ptr<const Program> program = Load();
  const Arguments arguments(GetParam());
  // The correct results of a first call.
  auto good = Instance::Create(program);
  ASSERT_TRUE(good.ok());
  const std::vector<Datum> good_args = arguments.Make();
  const auto want = (*good)->Run(good_args);
  const std::string want_outputs = want.ok() ? Elements(*want) : std::string(want.status().message());
  const std::string want_args = Shown(good_args), want_states = States(*program, **good);

  int64_t create = 0, whole = 0;
  {
    // Another program, for which nothing is prepared yet.
    const std::shared_ptr<const Program> fresh = Load();
    const std::vector<Datum> args = arguments.Make();
    Failing none(-1, -1);
    auto instance = Instance::Create(fresh);
    create = Failing::seen();
    (void)(*instance)->Run(args);
    whole = Failing::seen();
  }
  int64_t failed = 0, named = 0;
  for (const bool all_from_there : {false, true}) {
    for (int64_t k : Chosen(whole)) {
      const std::shared_ptr<const Program> fresh = Load();
      const std::vector<Datum> args = arguments.Make();
      const std::string before = Shown(args);
      std::unique_ptr<Instance> instance;
      absl::StatusOr<std::vector<Datum>> outputs = absl::UnknownError("");
      {
        Failing failing(k, all_from_there ? INT64_MAX : k + 1);
        auto made = Instance::Create(fresh);
        if (made.ok()) {
          instance = *std::move(made);
          outputs = instance->Run(args);
        } else {
          outputs = made.status();
        }
      }
      if (instance == nullptr) {
        EXPECT_TRUE(absl::IsResourceExhausted(outputs.status())) << k << " of " << create << ": " << outputs.status();
        instance = std::move(*Instance::Create(fresh));
      } else if (outputs.ok()) {
        EXPECT_FALSE(all_from_there && k + 1 < whole) << "allocation " << k << " of " << whole << " was not needed";
        EXPECT_EQ(Elements(*outputs), want_outputs) << "allocation " << k;
        EXPECT_EQ(Shown(args), want_args) << "allocation " << k;
        continue;
      } else if (absl::IsResourceExhausted(outputs.status())) {
        ++failed;
        if (absl::StrContains(outputs.status().message(), "may have been written")) {
          ++named;
          ASSERT_TRUE(instance->ResetStates().ok());
        } else {
          EXPECT_EQ(Shown(args), before) << "allocation " << k << " of " << whole << ": " << outputs.status();
        }
      } else {
        EXPECT_EQ(std::string(outputs.status().message()), want_outputs) << "allocation " << k << " of " << whole;
      }
      // The same instance works for another call.
      instance->Seed(0);
      const std::vector<Datum> again = arguments.Make();
      const auto second = instance->Run(again);
      EXPECT_EQ(second.ok() ? Elements(*second) : std::string(second.status().message()), want_outputs)
          << "after allocation " << k << " of " << whole;
      EXPECT_EQ(Shown(again), want_args) << "after allocation " << k << " of " << whole;
      EXPECT_EQ(States(*fresh, *instance), want_states) << "after allocation " << k << " of " << whole;
    }
  }
  std::printf(
      "%s: %lld allocations; %lld calls ended for want of memory, %lld of them named what they may have written\n",
      GetParam().c_str(), static_cast<long long>(whole), static_cast<long long>(failed), static_cast<long long>(named));
}

INSTANTIATE_TEST_SUITE_P(Testdata, OutOfMemoryTest, testing::ValuesIn(Models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace smelt
