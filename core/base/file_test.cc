#include "smelt/core/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
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

// The test's own folder.
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
  EXPECT_EQ(status.message(), absl::StrCat(Path("d"), ": cannot replace: Is a directory"));
  EXPECT_THAT(Names(), UnorderedElementsAre("d"));
}

TEST_F(FileTest, ALinkStaysAndTheFileThatItLeadsToIsReplaced) {
  ASSERT_EQ(mkdir(Path("d").c_str(), 0755), 0);
  ASSERT_EQ(symlink("d/middle", Path("link").c_str()), 0);
  ASSERT_EQ(symlink("../f", Path("d/middle").c_str()), 0);
  // The link leads to nothing yet, then to a file.
  for (const char* bytes : {"first", "second"}) {
    ASSERT_TRUE(WriteFileAtomically(Path("link"), bytes).ok());
    EXPECT_EQ(*ReadFile(Path("f")), bytes);
    struct stat info;
    ASSERT_EQ(lstat(Path("link").c_str(), &info), 0);
    EXPECT_TRUE(S_ISLNK(info.st_mode));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("d", "f", "link"));
}

TEST_F(FileTest, LinksInACircleAreAnError) {
  ASSERT_EQ(symlink("b", Path("a").c_str()), 0);
  ASSERT_EQ(symlink("a", Path("b").c_str()), 0);
  EXPECT_TRUE(absl::IsUnavailable(WriteFileAtomically(Path("a"), "x")));
  EXPECT_THAT(Names(), UnorderedElementsAre("a", "b"));
}

TEST_F(FileTest, ADeviceIsWrittenAndNotReplaced) {
  ASSERT_EQ(symlink("/dev/null", Path("null").c_str()), 0);
  EXPECT_TRUE(WriteFileAtomically(Path("null"), "x").ok());
  ASSERT_EQ(symlink("/dev/full", Path("full").c_str()), 0);
  const absl::Status full = WriteFileAtomically(Path("full"), "x");
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  struct stat info;
  for (const char* device : {"/dev/null", "/dev/full"}) {
    ASSERT_EQ(stat(device, &info), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("null", "full"));
}

TEST_F(FileTest, APipeIsWrittenAndStays) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0644), 0);
  std::string read;
  std::thread reader([&] {
    const int fd = open(Path("pipe").c_str(), O_RDONLY);
    char buffer[16];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) read.append(buffer, static_cast<size_t>(n));
    close(fd);
  });
  const absl::Status written = WriteFileAtomically(Path("pipe"), "through the pipe");
  reader.join();
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(read, "through the pipe");
  EXPECT_THAT(Names(), UnorderedElementsAre("pipe"));
}

TEST_F(FileTest, AnOwnDescriptorIsWrittenWhereItIs) {
  const int fd = open(Path("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(write(fd, "begin ", 6), 6);
  EXPECT_TRUE(WriteFileAtomically(absl::StrCat("/dev/fd/", fd), "middle ").ok());
  ASSERT_EQ(write(fd, "end", 3), 3);
  close(fd);
  EXPECT_EQ(*ReadFile(Path("f")), "begin middle end");
}

TEST_F(FileTest, ANamedPipeIsNotReadAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0644), 0);
  for (const absl::Status& s :
       {ReadFile(Path("pipe")).status(), MapFile(Path("pipe")).status(), OpenFile(Path("pipe")).status()})
    EXPECT_EQ(s, absl::InvalidArgumentError(absl::StrCat(Path("pipe"), ": is a named pipe; a file expected")));
}

TEST_F(FileTest, APipeThatIsOpenIsRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  EXPECT_EQ(*ReadFile(absl::StrCat("/dev/fd/", ends[0])), "text");
  close(ends[0]);
}

TEST_F(FileTest, ANameThatCannotBeAFilesIsAnErrorOfWriting) {
  EXPECT_EQ(WriteFileAtomically("", "x").message(), "the name of an output file is empty");
  const absl::Status status = WriteFileAtomically(Path(std::string(256, 'x')), "x");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("File name too long"));
  // As long as a name can be.
  const std::string longest(255, 'x');
  EXPECT_TRUE(WriteFileAtomically(Path(longest), "x").ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(longest));
}

TEST_F(FileTest, OnlyAnAbandonedOutputIsRemoved) {
  auto file = OutputFile::Create(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(Names().size(), 1u);
  const std::string temporary = Path(Names()[0]);
  RemoveAbandonedOutput(temporary);
  EXPECT_TRUE(file->Append("whole").ok());
  EXPECT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(Path("f")), "whole");
  // The temporary file of a process that was killed.
  ASSERT_TRUE(WriteFileAtomically(temporary, "part").ok());
  RemoveAbandonedOutput(temporary);
  EXPECT_THAT(Names(), UnorderedElementsAre("f"));
}

TEST_F(FileTest, AnOutputThatIsNotCommittedLeavesTheOldFile) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "old").ok());
  {
    auto file = OutputFile::Create(Path("f"));
    ASSERT_TRUE(file.ok() && file->Append("new").ok() && file->WriteAt(0, "N").ok());
  }
  EXPECT_EQ(*ReadFile(Path("f")), "old");
  EXPECT_THAT(Names(), UnorderedElementsAre("f"));
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
