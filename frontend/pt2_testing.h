// Archives for tests: real ones that are taken apart, changed and put together again, and zip files with false headers.
//
//   TestArchive archive = TestArchive::Load("relu_input");          // testdata/relu_input.pt2
//   archive.Patch("/graph_module/graph/nodes/0/target", "\"x\"");   // of the program's JSON
//   absl::StatusOr<Pt2Model> model = archive.Read();
#ifndef SMELT_FRONTEND_PT2_TESTING_H_
#define SMELT_FRONTEND_PT2_TESTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/frontend/pt2.h"

namespace smelt {

struct TestZipEntry {
  std::string name;
  std::string data;
  bool deflate = false;
  // The values in the headers, if they are to be false.
  std::optional<uint32_t> declared_size, declared_compressed_size, declared_crc;
  // Uses the bytes of another entry: this one is only listed, at the place of the entry with this index.
  std::optional<size_t> same_place_as;
};

std::string WriteTestZip(const std::vector<TestZipEntry>& entries);

class TestArchive {
 public:
  static TestArchive Load(const std::string& model);     // a name in testdata/, without .pt2
  static TestArchive LoadPath(const std::string& path);  // any archive
  static std::vector<std::string> AllPaths();            // all archives of testdata/, scenarios too, sorted
  TestZipEntry& Entry(absl::string_view ending);         // the one whose name ends so; ends the test if there is none
  std::string& Program() { return Entry("model.json").data; }
  // Replaces the value that a JSON pointer names in an entry, or removes it (no value).
  void Patch(const std::string& pointer, std::optional<absl::string_view> value,
             absl::string_view entry = "model.json");
  absl::StatusOr<Pt2Model> Read() const;  // through a file of the test's folder
  std::vector<TestZipEntry> entries;
};

// Runs ReadPt2 on these bytes.
absl::StatusOr<Pt2Model> ReadPt2Bytes(absl::string_view bytes);

}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_TESTING_H_
