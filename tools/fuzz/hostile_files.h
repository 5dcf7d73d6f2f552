// Malicious files: valid files that are changed at random in their structure and sealed again with correct digests, so
// that the code after the digest checks is reached. And everything that reads such files without running them.
//
//   HostileFiles files(HostileFiles::kBundles, {bundle, another});
//   const std::string mutant = files.Mutant(seed);         // the same bytes for the same seed
//   const HostileFiles::Outcome outcome = files.Read(mutant);   // readers may crash
#ifndef SMELT_TOOLS_FUZZ_HOSTILE_FILES_H_
#define SMELT_TOOLS_FUZZ_HOSTILE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/schema/container.h"
#include "smelt/tools/fuzz/flat_tree.h"

namespace smelt {

class HostileFiles {
 public:
  enum Format { kBundles, kGraphs };
  // `files`: the bytes of valid files of that format, at least one.
  HostileFiles(Format format, const std::vector<std::string>& files);

  std::string Mutant(uint64_t seed) const;

  // Returns whether the command line exits with 3, 4, 5, 6 or 7 for this status.
  static bool IsTheFilesFault(const absl::Status& s);

  struct Outcome {
    std::string refusal;  // the first reader's message; "" if it accepted the file
    std::string wrong;    // an error that is not the file's fault, or readers that disagree; "" if all behave
  };
  // Bundles: loads them, creates an instance, inspects them in all forms, generates the C++ of `smelt cc` and a report.
  // None of their code runs. Graphs: decodes, verifies, prints and encodes them, and decodes them again.
  Outcome Read(const std::string& file) const;

 private:
  struct File {
    std::string bytes;
    std::shared_ptr<const Container> container;
    FlatValue tree;  // of the metadata
  };
  std::string WithMetadata(const File& file, const std::string& metadata) const;

  Format format_;
  FlatSchema schema_;
  std::vector<File> files_;
  std::vector<const FlatValue*> donors_;
};

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_HOSTILE_FILES_H_
