#include "smelt/schema/container.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

std::string Temporary(const std::string& name) { return ::testing::TempDir() + "/" + name; }

absl::Span<const uint8_t> Bytes(const std::string& s) {
  return absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(s.data()), s.size());
}

std::string Text(absl::Span<const uint8_t> b) { return std::string(reinterpret_cast<const char*>(b.data()), b.size()); }

std::string Small() {
  ContainerWriter w = ContainerWriter::InMemory(ContentKind::kBundle);
  EXPECT_EQ(w.Add(SegmentKind::kMetadata, "meta").value(), 0);
  EXPECT_EQ(w.Add(SegmentKind::kCode, std::string(5000, 'c')).value(), 1);
  EXPECT_TRUE(w.Begin(SegmentKind::kWeights).ok());
  EXPECT_TRUE(w.Append(Bytes("one")).ok());
  EXPECT_TRUE(w.Append(Bytes("two")).ok());
  EXPECT_EQ(w.End().value(), 2);
  return w.FinishToString().value();
}

TEST(ContainerTest, WhatIsWrittenIsRead) {
  auto c = Container::FromMemory(Bytes(Small()), ContentKind::kBundle);
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_EQ((*c)->segments().size(), 3);
  EXPECT_EQ(Text((*c)->bytes(0)), "meta");
  EXPECT_EQ(Text((*c)->bytes(1)), std::string(5000, 'c'));
  EXPECT_EQ(Text((*c)->bytes(2)), "onetwo");
  EXPECT_EQ((*c)->segments()[1].offset % 4096, 0);
  EXPECT_EQ((*c)->segments()[2].offset % 4096, 0);
  EXPECT_TRUE((*c)->VerifyDigest(2).ok());
}

TEST(ContainerTest, AFileHasTheBytesOfTheOneInMemoryAndLeavesNoOther) {
  const std::string path = Temporary("small.smb");
  auto w = ContainerWriter::Create(path, ContentKind::kBundle);
  ASSERT_TRUE(w.ok());
  ASSERT_TRUE(w->Add(SegmentKind::kMetadata, "meta").ok());
  ASSERT_TRUE(w->Add(SegmentKind::kCode, std::string(5000, 'c')).ok());
  ASSERT_TRUE(w->Add(SegmentKind::kWeights, "onetwo").ok());
  EXPECT_NE(access(path.c_str(), F_OK), 0);  // not before Finish
  ASSERT_TRUE(w->Finish().ok());
  std::ifstream in(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), Small());
  auto c = Container::Open(path, ContentKind::kBundle);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(Text((*c)->bytes(2)), "onetwo");
}

TEST(ContainerTest, SegmentsLargerThanTheBufferStreamThrough) {
  const std::string path = Temporary("large.smb");
  auto w = ContainerWriter::Create(path, ContentKind::kGraph);
  ASSERT_TRUE(w.ok());
  ASSERT_TRUE(w->Begin(SegmentKind::kWeights).ok());
  std::string all;
  for (int i = 0; i < 7; ++i) {
    std::string piece(700001, static_cast<char>('a' + i));
    ASSERT_TRUE(w->Append(Bytes(piece)).ok());
    all += piece;
  }
  ASSERT_TRUE(w->End().ok());
  ASSERT_TRUE(w->Finish().ok());
  auto c = Container::Open(path, ContentKind::kGraph);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_TRUE(Text((*c)->bytes(0)) == all);
  EXPECT_TRUE((*c)->VerifyDigest(0).ok());
  auto copy = (*c)->MapWritable(0, 5001, 4000000);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(copy->data), 4000000), all.substr(5001, 4000000));
  copy->data[0] = '!';
  EXPECT_EQ((*c)->bytes(0)[5001], 'a');  // a private copy
}

// Returns how many KiB of the mapping that holds `address` are in this process's memory; -1 if the system does not tell.
int64_t ResidentKib(const uint8_t* address) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from, to;
    char dash;
    long long kib;
    if (std::istringstream(line) >> std::hex >> from >> dash >> to && dash == '-') {
      here = from <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < to;
    } else if (here && std::sscanf(line.c_str(), "Rss: %lld kB", &kib) == 1) {
      return kib;
    }
  }
  return -1;
}

TEST(ContainerTest, ReleasedPagesLeaveMemoryAndAreReadAgain) {
  ContainerWriter w = ContainerWriter::InMemory(ContentKind::kBundle);
  const std::string weights(100000, 'w');
  ASSERT_TRUE(w.Add(SegmentKind::kWeights, weights).ok());
  const std::string bytes = w.FinishToString().value(), path = Temporary("released.smb");
  std::ofstream(path, std::ios::binary) << bytes;
  auto file = Container::Open(path, ContentKind::kBundle),
       memory = Container::FromMemory(Bytes(bytes), ContentKind::kBundle);
  ASSERT_TRUE(file.ok() && memory.ok());
  ASSERT_EQ(Text((*file)->bytes(0)), weights);
  const uint8_t* begin = (*file)->bytes(0).data();
  EXPECT_TRUE((*file)->Contains(begin) && (*file)->Contains(begin + 99999));
  EXPECT_FALSE((*file)->Contains(bytes.data()) || (*file)->Contains(begin + bytes.size()));
  EXPECT_GE(ResidentKib(begin), 97);
  (*file)->ReleasePages(begin, 100000);
  EXPECT_LE(ResidentKib(begin), 8);  // the pages of the header and of the table
  EXPECT_EQ(Text((*file)->bytes(0)), weights);
  // The only copy stays.
  (*memory)->ReleasePages((*memory)->bytes(0).data(), 100000);
  EXPECT_EQ(Text((*memory)->bytes(0)), weights);
}

TEST(ContainerTest, APipeGetsTheSameBytes) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto w = ContainerWriter::Create("/dev/fd/" + std::to_string(ends[1]), ContentKind::kBundle);
  ASSERT_TRUE(w.ok()) << w.status();
  ASSERT_TRUE(w->Add(SegmentKind::kMetadata, "meta").ok());
  ASSERT_TRUE(w->Add(SegmentKind::kCode, std::string(5000, 'c')).ok());
  ASSERT_TRUE(w->Add(SegmentKind::kWeights, "onetwo").ok());
  ASSERT_TRUE(w->Finish().ok());
  close(ends[1]);
  std::string bytes(1 << 16, '\0');  // as much as a pipe holds
  const ssize_t got = read(ends[0], bytes.data(), bytes.size());
  close(ends[0]);
  ASSERT_GT(got, 0);
  bytes.resize(static_cast<size_t>(got));
  EXPECT_EQ(bytes, Small());
}

TEST(ContainerTest, AWriterThatIsDroppedLeavesNothing) {
  const std::string path = Temporary("dropped.smb");
  {
    ASSERT_TRUE(ContainerWriter::Create(path, ContentKind::kBundle).ok());
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(ContainerTest, EveryFlippedByteOfHeaderTableMetadataAndCodeIsNoticed) {
  const std::string good = Small();
  auto c = Container::FromMemory(Bytes(good), ContentKind::kBundle);
  ASSERT_TRUE(c.ok());
  const auto noticed = [&](size_t at) {
    std::string bad = good;
    bad[at] ^= 0x10;
    return !Container::FromMemory(Bytes(bad), ContentKind::kBundle).ok();
  };
  for (size_t i = 0; i < 96; ++i) EXPECT_TRUE(noticed(i)) << "header byte " << i;
  for (size_t i = good.size() - 3 * 64; i < good.size(); ++i) EXPECT_TRUE(noticed(i)) << "table byte " << i;
  for (int s = 0; s < 2; ++s) {
    const Segment& segment = (*c)->segments()[s];
    for (int64_t i = 0; i < segment.size; i += 97) EXPECT_TRUE(noticed(static_cast<size_t>(segment.offset + i)));
  }
}

TEST(ContainerTest, ACorruptWeightIsNoticedOnRequest) {
  std::string bad = Small();
  auto good = Container::FromMemory(Bytes(bad), ContentKind::kBundle);
  ASSERT_TRUE(good.ok());
  bad[static_cast<size_t>((*good)->segments()[2].offset)] ^= 1;
  auto c = Container::FromMemory(Bytes(bad), ContentKind::kBundle);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ((*c)->VerifyDigest(2).code(), absl::StatusCode::kDataLoss);
}

TEST(ContainerTest, ErrorsSayWhatIsWrong) {
  const std::string good = Small();
  const auto error = [](std::string bytes, ContentKind kind = ContentKind::kBundle) {
    return Container::FromMemory(Bytes(bytes), kind, "a.smb").status();
  };
  EXPECT_THAT(error("").message(), HasSubstr("a.smb: has 0 bytes"));
  EXPECT_THAT(error(good.substr(0, good.size() - 1)).message(), HasSubstr("cut off"));
  std::string other = good;
  other[0] = 'X';
  EXPECT_THAT(error(other).message(), HasSubstr("SMELTBND"));
  other = good;
  other[8] = 3;
  EXPECT_EQ(error(other).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(error(good, ContentKind::kGraph).message(), HasSubstr("is a bundle (.smb), expected a graph (.smg)"));
  EXPECT_EQ(Container::Open("/nonexistent/x.smb", ContentKind::kBundle).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Container::Open("/", ContentKind::kBundle).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ContainerTest, ResealedMutationsOfHeaderAndTableNeverReachOutside) {
  const std::string good = Small();
  uint64_t state = 88172645463325252u;
  const auto random = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  };
  int opened = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int k = 0; k < 1 + static_cast<int>(random() % 3); ++k) {
      const size_t at = random() % 2 ? random() % 64 : bad.size() - 1 - random() % (3 * 64);
      bad[at] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    if (random() % 8 == 0) bad.resize(random() % bad.size());
    ResealContainer(bad);
    auto c = Container::FromMemory(Bytes(bad), ContentKind::kBundle);
    if (!c.ok()) continue;
    ++opened;
    uint64_t sum = 0;
    for (int s = 0; s < static_cast<int>((*c)->segments().size()); ++s) {
      for (uint8_t b : (*c)->bytes(s)) sum += b;
    }
    EXPECT_NE(sum, ~uint64_t{0});
  }
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace smelt
