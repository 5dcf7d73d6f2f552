#include "smelt/core/base/file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A folder of this test's own.
class FileTest : public testing::Test {
 protected:
  FileTest()
      : folder_(absl::StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name())) {
    EXPECT_EQ(mkdir(folder_.c_str(), 0755), 0);
  }

  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    DIR* dir = opendir(folder_.c_str());
    while (const dirent* entry = readdir(dir)) {
      if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    }
    closedir(dir);
    return names;
  }

 private:
  std::string folder_;
};

TEST_F(FileTest, WhatIsWrittenIsReadAndMapped) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomically(Path("f"), bytes).ok());
  EXPECT_EQ(*ReadFile(Path("f")), bytes);
  EXPECT_EQ(MapFile(Path("f"))->text(), bytes);
}

TEST_F(FileTest, AnEmptyFileIsReadAndMapped) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "").ok());
  EXPECT_EQ(*ReadFile(Path("f")), "");
  EXPECT_EQ(MapFile(Path("f"))->size(), 0u);
}

TEST_F(FileTest, AFileThatDoesNotKnowItsSizeIsReadWhole) {
  EXPECT_THAT(*ReadFile("/proc/self/status"), HasSubstr("Pid:"));
}

TEST_F(FileTest, AWriteReplacesTheFileAndLeavesNothingElseAndNoMappingChanges) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "old").ok());
  const MappedFile old = *MapFile(Path("f"));
  ASSERT_TRUE(WriteFileAtomically(Path("f"), std::vector<uint8_t>{'n', 'e', 'w', '!'}).ok());
  EXPECT_EQ(*ReadFile(Path("f")), "new!");
  EXPECT_EQ(old.text(), "old");
  EXPECT_THAT(Names(), UnorderedElementsAre("f"));
}

TEST_F(FileTest, AFailedWriteLeavesNothing) {
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  const absl::Status status = WriteFileAtomically(Path("d"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Names(), UnorderedElementsAre("d"));
}

TEST_F(FileTest, ErrorsNameThePathAndTheReason) {
  const absl::Status status = ReadFile(Path("none")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), absl::StrCat(Path("none"), ": cannot open: No such file or directory"));
  EXPECT_EQ(MapFile(Path("none")).status(), status);
  EXPECT_EQ(MapFile(Path("")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteFileAtomically(Path("none/f"), "x").code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, AMappingMoves) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "text").ok());
  MappedFile a = *MapFile(Path("f"));
  const uint8_t* data = a.data();
  MappedFile b = std::move(a);
  EXPECT_EQ(b.data(), data);
  a = std::move(b);
  EXPECT_EQ(a.data(), data);
  EXPECT_EQ(a.text(), "text");
}

}  // namespace
}  // namespace smelt
