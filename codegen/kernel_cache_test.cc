#include "smelt/codegen/kernel_cache.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/sha256.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Target kTarget = Target::kX86_64_V3;

// x * constant + constant, one kernel per constant.
KernelSpec Spec(double constant) {
  absl::StatusOr<KernelSpec> spec = ParseKernelSpec(absl::StrReplaceAll(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = const float32 $C
%2 = mul float32 %0 %1
%3 = add float32 %2 %1
%4 = store.p1 float32 %3
outer 0 1 2 3 4
)",
                                                                        {{"$C", absl::StrCat(constant)}}));
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

class KernelCacheTest : public testing::Test {
 protected:
  KernelCacheTest() {
    std::string pattern = absl::StrCat(testing::TempDir(), "/cache.XXXXXX");
    directory_ = mkdtemp(pattern.data());
  }

  std::unique_ptr<KernelCache> Open(CacheMode mode = CacheMode::kReadWrite, int64_t max_bytes = 1 << 30) {
    KernelCache::Options options;
    options.mode = mode;
    options.directory = directory_;
    options.max_bytes = max_bytes;
    options.warn = [this](absl::string_view what) { warnings_.emplace_back(what); };
    absl::StatusOr<std::unique_ptr<KernelCache>> cache = KernelCache::Create(options);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  std::string PathOf(const KernelSpec& spec) {
    return absl::StrCat(directory_, "/", ComputeKernelKey(spec.ToString(), kTarget), ".kernel");
  }
  std::string BytesOf(KernelCache& cache, const KernelSpec& spec) {
    auto kernel = cache.GetOrCompile(spec, kTarget);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? (*kernel)->bytes : "";
  }

  // Returns all files except the lock file of the processes.
  std::vector<std::string> Files() {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(directory_)) {
      if (e.path().filename() != "turns") out.push_back(e.path().filename());
    }
    return out;
  }

  std::string directory_;
  std::vector<std::string> warnings_;
};

TEST_F(KernelCacheTest, AKernelIsCompiledOnceAProcess) {
  auto cache = Open();
  const std::string bytes = BytesOf(*cache, Spec(2));
  EXPECT_EQ(BytesOf(*cache, Spec(2)), bytes);
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_EQ(cache->stats().memory_hits, 1);
}

TEST_F(KernelCacheTest, TenThreadsThatAskAtOnceCompileOnce) {
  auto cache = Open();
  std::vector<std::thread> threads;
  std::set<const KernelObject*> objects;
  std::mutex mutex;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      auto kernel = cache->GetOrCompile(Spec(3), kTarget);
      ASSERT_TRUE(kernel.ok());
      std::lock_guard<std::mutex> lock(mutex);
      objects.insert(kernel->get());
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_THAT(objects, SizeIs(1));
}

TEST_F(KernelCacheTest, ANewProcessFindsTheSameBytesOnDisk) {
  const std::string bytes = BytesOf(*Open(), Spec(2));
  auto cache = Open();
  EXPECT_EQ(BytesOf(*cache, Spec(2)), bytes);
  EXPECT_EQ(cache->stats().disk_hits, 1);
  EXPECT_EQ(cache->stats().compiled, 0);
}

TEST_F(KernelCacheTest, OtherConstantsAndOtherTargetsAreOtherKernels) {
  auto cache = Open();
  BytesOf(*cache, Spec(2));
  BytesOf(*cache, Spec(2.5));
  ASSERT_TRUE(cache->GetOrCompile(Spec(2), Target::kX86_64_V2).ok());
  EXPECT_EQ(cache->stats().compiled, 3);
}

TEST_F(KernelCacheTest, EveryDamagedEntryIsAMissWithAWarningAndIsReplaced) {
  const KernelSpec spec = Spec(2);
  const std::string bytes = BytesOf(*Open(), spec);
  const std::string entry = *ReadFile(PathOf(spec));
  std::vector<std::string> damaged = {"",
                                      "x",
                                      entry.substr(0, 20),
                                      entry.substr(0, entry.size() - 1),
                                      entry + "x",
                                      std::string(entry.size(), '\0'),
                                      absl::StrReplaceAll(entry, {{"smelt kernel 1", "smelt kernel 2"}})};
  for (size_t at = 0; at < entry.size(); at += entry.size() / 50) {
    damaged.push_back(entry);
    damaged.back()[at] ^= 1;
  }
  for (const std::string& d : damaged) {
    ASSERT_EQ(WriteFileAtomically(PathOf(spec), d), absl::OkStatus());
    warnings_.clear();
    auto cache = Open();
    EXPECT_EQ(BytesOf(*cache, spec), bytes);
    EXPECT_EQ(cache->stats().compiled, 1);
    EXPECT_EQ(cache->stats().damaged, 1);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("compiling the kernel anew")));
    EXPECT_EQ(*ReadFile(PathOf(spec)), entry);
  }
}

TEST_F(KernelCacheTest, APipeInAnEntrysPlaceIsNotWaitedForAndIsReplaced) {
  const KernelSpec spec = Spec(2);
  const std::string bytes = BytesOf(*Open(), spec);
  ASSERT_EQ(unlink(PathOf(spec).c_str()), 0);
  ASSERT_EQ(mkfifo(PathOf(spec).c_str(), 0600), 0);
  auto cache = Open();
  EXPECT_THAT(*cache->List(), IsEmpty());
  EXPECT_EQ(BytesOf(*cache, spec), bytes);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is not a file")));
  EXPECT_TRUE(ReadFile(PathOf(spec)).ok());
}

TEST_F(KernelCacheTest, AnEntryOfAnotherKernelIsNotUsed) {
  // Simulates two keys with the same digest.
  BytesOf(*Open(), Spec(2));
  ASSERT_EQ(rename(PathOf(Spec(2)).c_str(), PathOf(Spec(3)).c_str()), 0);
  auto cache = Open();
  BytesOf(*cache, Spec(3));
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("holds another kernel")));
}

TEST_F(KernelCacheTest, ReadOnlyUsesEntriesAndWritesNothing) {
  BytesOf(*Open(), Spec(2));
  auto cache = Open(CacheMode::kReadOnly);
  BytesOf(*cache, Spec(2));
  BytesOf(*cache, Spec(3));
  EXPECT_EQ(cache->stats().disk_hits, 1);
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_THAT(*Open()->List(), SizeIs(1));
  EXPECT_EQ(cache->Clear().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(KernelCacheTest, OffTouchesNoDisk) {
  auto cache = Open(CacheMode::kOff);
  BytesOf(*cache, Spec(2));
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_THAT(*Open()->List(), IsEmpty());
}

TEST_F(KernelCacheTest, TheLeastRecentlyUsedEntriesGoFirst) {
  BytesOf(*Open(), Spec(1));
  const int64_t entry = (*Open()->List())[0].bytes;
  // Room for four entries, of which a tenth must stay free.
  auto age = [&](double c, int seconds) {
    const timespec times[2] = {{1000000 - seconds, 0}, {1000000 - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, PathOf(Spec(c)).c_str(), times, 0), 0);
  };
  {
    auto cache = Open();
    BytesOf(*cache, Spec(2));
    BytesOf(*cache, Spec(3));
    BytesOf(*cache, Spec(4));
  }
  age(1, 10);
  age(2, 40);
  age(3, 30);
  age(4, 20);
  BytesOf(*Open(), Spec(2));  // used just now
  auto cache = Open(CacheMode::kReadWrite, entry * 4 + entry * 3 / 4);
  BytesOf(*cache, Spec(5));
  EXPECT_EQ(cache->stats().evicted, 1);
  EXPECT_FALSE(ReadFile(PathOf(Spec(3))).ok());
  for (double c : {1, 2, 4, 5}) EXPECT_TRUE(ReadFile(PathOf(Spec(c))).ok()) << c;
}

TEST_F(KernelCacheTest, AFolderThatCannotBeMadeCostsAWarningOnly) {
  std::ofstream(directory_ + "/file") << "x";
  directory_ += "/file/below";
  auto cache = Open();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("without a cache on disk")));
  EXPECT_NE(BytesOf(*cache, Spec(2)), "");
}

TEST_F(KernelCacheTest, AFullDiskCostsOneWarningAndLeavesNothingBehind) {
  const std::string bytes = BytesOf(*Open(CacheMode::kOff), Spec(2));
  auto cache = Open();
  // Stops writing in the middle of an entry, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small = {300, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string first = BytesOf(*cache, Spec(2));
  BytesOf(*cache, Spec(3));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(first, bytes);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("kernels are not kept")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(KernelCacheTest, AFolderThatVanishesCostsOneWarning) {
  auto cache = Open();
  ASSERT_EQ(rmdir(directory_.c_str()), 0);
  EXPECT_NE(BytesOf(*cache, Spec(2)), "");
  EXPECT_NE(BytesOf(*cache, Spec(3)), "");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("kernels are not kept")));
}

TEST_F(KernelCacheTest, TwoThatNeedTheSameKernelsAtOnceCompileEachOnce) {
  // Two caches over one folder stand for two processes: they share nothing else.
  std::vector<std::unique_ptr<KernelCache>> caches;
  for (int i = 0; i < 2; ++i) caches.push_back(Open());
  std::vector<std::thread> threads;
  for (auto& cache : caches) {
    threads.emplace_back([&] {
      for (int c = 2; c < 10; ++c) BytesOf(*cache, Spec(c));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(caches[0]->stats().compiled + caches[1]->stats().compiled, 8);
}

// Runs f in a process of its own; returns whether it returned true there.
template <typename F>
bool InChild(const F& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Root may write everywhere; without its capabilities it is an owner like others. (Another user might not be able to
// enter the folder.)
bool GiveUpPrivileges() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

TEST_F(KernelCacheTest, AFolderThatMayOnlyBeReadGivesItsEntriesAndCostsOneWarning) {
  const std::string bytes = BytesOf(*Open(), Spec(2));
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  EXPECT_TRUE(InChild([&] {
    if (!GiveUpPrivileges()) return false;
    auto cache = Open();
    return BytesOf(*cache, Spec(2)) == bytes && cache->stats().disk_hits == 1 && !BytesOf(*cache, Spec(3)).empty() &&
           !BytesOf(*cache, Spec(4)).empty() && warnings_.size() == 1;
  }));
  ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
  EXPECT_THAT(Files(), SizeIs(1));
}

TEST_F(KernelCacheTest, ManyProcessesAtOnceAgree) {
  constexpr int kProcesses = 4, kKernels = 12;
  std::vector<std::string> expected;
  {
    auto cache = Open(CacheMode::kOff);
    for (int k = 0; k < kKernels; ++k) expected.push_back(BytesOf(*cache, Spec(k)));
  }
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      auto cache = Open();
      bool same = true;
      for (int k = 0; k < kKernels; ++k) {
        const int kernel = (k + p * 5) % kKernels;
        same = same && BytesOf(*cache, Spec(kernel)) == expected[kernel];
      }
      _exit(same && warnings_.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(*Open()->Verify(), IsEmpty());
  EXPECT_THAT(Files(), SizeIs(kKernels));
}

TEST_F(KernelCacheTest, ProcessesKilledAtRandomMomentsLeaveWholeEntriesOnly) {
  uint32_t random = 12345;
  for (int round = 0; round < 16; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      auto cache = Open();
      for (int k = 0; k < 1000; ++k) (void)cache->GetOrCompile(Spec(round * 1000 + k), kTarget);
      _exit(0);
    }
    random = random * 1664525 + 1013904223;
    usleep(20000 + (random >> 8) % 80000);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
  }
  auto cache = Open();
  EXPECT_THAT(*cache->Verify(), IsEmpty());
  EXPECT_THAT(*cache->List(), testing::Not(IsEmpty()));
}

TEST_F(KernelCacheTest, VerifyFindsEveryFlippedBit) {
  const KernelSpec spec = Spec(2);
  BytesOf(*Open(), spec);
  const std::string entry = *ReadFile(PathOf(spec));
  auto cache = Open();
  for (size_t bit = 0; bit < entry.size() * 8; bit += 13) {
    std::string damaged = entry;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(PathOf(spec), std::ios::binary) << damaged;
    ASSERT_THAT(*cache->Verify(), SizeIs(1)) << "bit " << bit;
  }
  for (size_t size = 0; size < entry.size(); size += 17) {
    std::ofstream(PathOf(spec), std::ios::binary | std::ios::trunc) << entry.substr(0, size);
    ASSERT_THAT(*cache->Verify(), SizeIs(1)) << "cut to " << size;
  }
}

TEST_F(KernelCacheTest, ManyAtOnceComeInTheOrderOfTheRequestsWhateverTheThreads) {
  std::vector<KernelSpec> specs;
  for (int i = 0; i < 12; ++i) specs.push_back(Spec(i % 7));
  std::vector<KernelCache::Request> requests;
  for (const KernelSpec& s : specs) requests.push_back({&s, kTarget});
  std::vector<std::string> keys[2];
  std::vector<std::string> bytes[2];
  for (int threads : {1, 4}) {
    auto cache = Open(CacheMode::kOff);
    auto kernels = cache->GetOrCompileAll(requests, threads);
    ASSERT_TRUE(kernels.ok()) << kernels.status();
    EXPECT_EQ(cache->stats().compiled, 7);
    for (const auto& k : *kernels) {
      keys[threads == 4].push_back(k->key);
      bytes[threads == 4].push_back(k->bytes);
    }
  }
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(KernelCacheTest, AnErrorIsTheFirstRequestsAndIsNotKept) {
  KernelSpec bad = Spec(1);
  bad.instrs[4].op = KernelOp::kAtomicAdd;
  const KernelSpec good = Spec(1);
  auto cache = Open();
  EXPECT_EQ(cache->GetOrCompileAll({{&good, kTarget}, {&bad, kTarget}}, 2).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(cache->GetOrCompile(bad, kTarget).ok());
}

TEST_F(KernelCacheTest, ExplainNamesThePartThatDiffersFromTheNearestEntry) {
  auto cache = Open();
  EXPECT_EQ(*cache->Explain(Spec(2), kTarget), "miss; the cache has no entry");
  BytesOf(*cache, Spec(2));
  EXPECT_EQ(*cache->Explain(Spec(2), kTarget), "hit");
  EXPECT_THAT(*cache->Explain(Spec(3), kTarget),
              HasSubstr("differs in 1 part:\n  constant of %1: float32 3, cached float32 2"));
  EXPECT_THAT(*cache->Explain(Spec(2), Target::kX86_64_V4), HasSubstr("target: x86-64-v4, cached x86-64-v3"));
}

TEST_F(KernelCacheTest, MissesAreExplainedByWhatWasThereWhenTheCacheWasOpened) {
  BytesOf(*Open(), Spec(2));
  KernelCache::Options options;
  options.directory = directory_;
  options.explain_misses = true;
  auto cache = *KernelCache::Create(options);
  BytesOf(*cache, Spec(2));
  EXPECT_THAT(cache->misses(), IsEmpty());
  BytesOf(*cache, Spec(3));
  BytesOf(*cache, Spec(4));
  const std::vector<KernelCache::Miss> misses = cache->misses();
  ASSERT_THAT(misses, SizeIs(2));
  for (const KernelCache::Miss& m : misses) {
    EXPECT_THAT(m.explanation, HasSubstr("cached float32 2"));
    EXPECT_EQ(m.summary, "2 params, 5 operations");
  }
}

TEST_F(KernelCacheTest, ClearRemovesAllEntriesAndNothingElse) {
  auto cache = Open();
  BytesOf(*cache, Spec(2));
  std::ofstream(directory_ + "/mine") << "x";
  ASSERT_EQ(mkdir((directory_ + "/mine.kernel").c_str(), 0700), 0);
  ASSERT_EQ(cache->Clear(), absl::OkStatus());
  EXPECT_THAT(*cache->List(), IsEmpty());
  EXPECT_TRUE(ReadFile(directory_ + "/mine").ok());
}

TEST(CacheModeTest, ParsesItsThreeNames) {
  EXPECT_EQ(*ParseCacheMode("read-write"), CacheMode::kReadWrite);
  EXPECT_EQ(*ParseCacheMode("read-only"), CacheMode::kReadOnly);
  EXPECT_EQ(*ParseCacheMode("off"), CacheMode::kOff);
  EXPECT_THAT(ParseCacheMode("on").status().message(), HasSubstr("read-only"));
}

const LibraryKernel kLibraryKernel = {kSearchKernel, {DType::kInt64, DType::kInt64, DType::kInt64}};

TEST_F(KernelCacheTest, KeepsLibraryKernelsByTheirKeys) {
  auto kernel = Open()->GetOrCompileLibrary(kLibraryKernel, Target::kSm80);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->symbol, kLibraryKernel.Entry());
  const auto entries = *Open()->List();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].key_text, LibraryKeyText(kLibraryKernel.Entry(), Target::kSm80));
  // They are not counted among the kernels of models.
  EXPECT_EQ(Open()->stats().compiled, 0);
}

TEST_F(KernelCacheTest, TakesALibraryKernelThatAnotherProcessHasKept) {
  const std::string key_text = LibraryKeyText(kLibraryKernel.Entry(), Target::kSm80);
  const std::string path = absl::StrCat(directory_, "/", ToHex(Sha256(key_text)), ".kernel");
  ASSERT_TRUE(WriteFileAtomically(path, EncodeKernelRecord(key_text, "text of another process")).ok());
  auto kernel = Open(CacheMode::kReadOnly)->GetOrCompileLibrary(kLibraryKernel, Target::kSm80);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->bytes, "text of another process");
}

}  // namespace
}  // namespace smelt
