#include "smelt/core/base/sha256.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

// FIPS 180-2, appendix B.
constexpr absl::string_view kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr absl::string_view kOfMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
constexpr absl::string_view kOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256Test, EqualsTheStandardsExamples) {
  EXPECT_EQ(ToHex(Sha256("abc")), kOfAbc);
  EXPECT_EQ(ToHex(Sha256("")), kOfNothing);
  EXPECT_EQ(ToHex(Sha256(std::string(1000000, 'a'))), kOfMillionA);
  EXPECT_EQ(ToHex(Sha256(std::vector<uint8_t>{'a', 'b', 'c'})), kOfAbc);
}

TEST(Sha256Test, PiecesHashAsTheWhole) {
  Sha256Hasher hasher;
  for (int i = 0; i < 1000; ++i) hasher.Update(std::string(1000, 'a'));
  EXPECT_EQ(ToHex(hasher.Finish()), kOfMillionA);
}

TEST(Sha256Test, AFinishedHasherStartsAnew) {
  Sha256Hasher hasher;
  hasher.Update("something");
  hasher.Finish();
  hasher.Update("abc");
  EXPECT_EQ(ToHex(hasher.Finish()), kOfAbc);
}

TEST(Sha256Test, HexGoesBothWaysAndRejectsOtherText) {
  EXPECT_EQ(Sha256FromHex(kOfAbc), Sha256("abc"));
  EXPECT_EQ(Sha256FromHex(kOfAbc.substr(1)), std::nullopt);
  EXPECT_EQ(Sha256FromHex(std::string(64, 'g')), std::nullopt);
}

}  // namespace
}  // namespace smelt
