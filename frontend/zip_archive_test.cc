#include "smelt/frontend/zip_archive.h"

#include <cstdio>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/frontend/pt2_testing.h"

namespace smelt {
namespace {

using testing::HasSubstr;

constexpr int64_t kBig = 3 << 20;  // mapped
constexpr int64_t kNoLimit = int64_t{1} << 40;

std::string Noise(int64_t bytes) {
  std::mt19937 random(7);
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

// Entry "big", its contents at a multiple of 64.
std::vector<TestZipEntry> Entries() {
  // The local header of 30 bytes and the name come before the contents, and so does the first entry.
  TestZipEntry first{.name = "first", .data = std::string(64 - 30 - 5 + 64 - 30 - 3, 'x')};
  return {first, {.name = "big", .data = Noise(kBig)}, {.name = "last", .data = "y"}};
}

std::string WriteFile(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/archive.zip";
  std::remove(path.c_str());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Returns the kilobytes of this process's memory that no file backs.
int64_t AnonymousKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8));
  }
  return -1;
}

std::string Contents(const Storage& s) { return std::string(s.data(), static_cast<size_t>(s.bytes())); }

TEST(ZipArchiveTest, LargeStoredEntriesAreMappedAndMayBeWritten) {
  const std::string path = WriteFile(WriteTestZip(Entries()));
  auto zip = ZipArchive::Open(path);
  ASSERT_TRUE(zip.ok()) << zip.status();
  auto big = (*zip)->ReadStorage("big", kNoLimit);
  ASSERT_TRUE(big.ok()) << big.status();
  EXPECT_EQ(Contents(**big), Noise(kBig));
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*big)->data()) % 64, 0);
  (*big)->data()[5] ^= 1;
  EXPECT_EQ(Contents(**(*ZipArchive::Open(path))->ReadStorage("big", kNoLimit)), Noise(kBig));
  // The archive may be destroyed before the storage is.
  zip->reset();
  EXPECT_EQ((*big)->data()[6], Noise(7)[6]);
}

TEST(ZipArchiveTest, AMappedEntryTakesNoMemoryOfItsOwn) {
  const std::string path = WriteFile(WriteTestZip(Entries()));
  auto zip = ZipArchive::Open(path);
  ASSERT_TRUE(zip.ok());
  const int64_t before = AnonymousKilobytes();
  auto big = (*zip)->ReadStorage("big", kNoLimit);
  ASSERT_TRUE(big.ok());
  EXPECT_LT(AnonymousKilobytes() - before, (kBig >> 10) / 2);
}

TEST(ZipArchiveTest, LargeEntriesThatCannotBeMappedAreRead) {
  std::vector<TestZipEntry> entries = Entries();
  entries[0].data += "1";  // "big" is no more at a multiple of 64
  EXPECT_EQ(Contents(**(*ZipArchive::Open(WriteFile(WriteTestZip(entries))))->ReadStorage("big", kNoLimit)),
            Noise(kBig));
  entries = Entries();
  entries[1].deflate = true;
  EXPECT_EQ(Contents(**(*ZipArchive::Open(WriteFile(WriteTestZip(entries))))->ReadStorage("big", kNoLimit)),
            Noise(kBig));
}

TEST(ZipArchiveTest, ADamagedLargeEntryIsCorrupt) {
  std::string bytes = WriteTestZip(Entries());
  bytes[bytes.size() / 2] ^= 1;
  auto zip = ZipArchive::Open(WriteFile(bytes));
  ASSERT_TRUE(zip.ok());
  EXPECT_THAT((*zip)->ReadStorage("big", kNoLimit).status().message(), HasSubstr("corrupt"));
  EXPECT_THAT((*zip)->ReadStorage("big", kBig - 1).status().message(), HasSubstr("at most"));
}

TEST(ZipArchiveTest, DirectoriesThatLieNeverMapOtherBytes) {
  const std::string good = WriteTestZip(Entries());
  const size_t directory = good.size() - 300;  // the directory and the end record are the last 220 bytes or so
  std::mt19937 random(3);
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good;
    for (int n = 1 + random() % 3; n > 0; --n) bytes[directory + random() % 300] = static_cast<char>(random());
    const std::string path = WriteFile(bytes);
    auto mapped = StoredEntries::Find(path).Map("big", kBig, 0x12345678);
    EXPECT_EQ(mapped, nullptr);
    if (i % 20 != 0) continue;  // the whole way costs more
    auto zip = ZipArchive::Open(path);
    if (!zip.ok()) continue;
    auto big = (*zip)->ReadStorage("big", kNoLimit);
    EXPECT_TRUE(!big.ok() || (*big)->bytes() != kBig || Contents(**big) == Noise(kBig));
  }
}

}  // namespace
}  // namespace smelt
