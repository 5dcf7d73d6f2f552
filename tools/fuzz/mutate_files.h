// Changes real models so that they remain well formed: archives as the JSON that they hold, texts as tokens.
//
//   ArchiveMutator mutator(TestArchive::AllPaths());
//   HostileFile file = mutator.Make(/*seed=*/17);   // the same for the same seed
#ifndef SMELT_TOOLS_FUZZ_MUTATE_FILES_H_
#define SMELT_TOOLS_FUZZ_MUTATE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smelt/tools/fuzz/hostile_file.h"

namespace smelt {

// Swaps arguments, changes their kinds, types, sizes, strides, operators and numbers, deletes, duplicates and moves
// nodes, and inserts nodes of other models.
class ArchiveMutator {
 public:
  // Archives below 40 kB.
  explicit ArchiveMutator(const std::vector<std::string>& paths);
  ~ArchiveMutator();
  HostileFile Make(uint64_t seed) const;

 private:
  struct Model;
  std::vector<std::unique_ptr<Model>> models_;
};

// Swaps, replaces, deletes and duplicates tokens, arguments and lines of texts of graphs.
class TextMutator {
 public:
  explicit TextMutator(std::vector<std::string> texts);
  ~TextMutator();
  HostileFile Make(uint64_t seed) const;

 private:
  struct Text;
  std::vector<std::unique_ptr<Text>> texts_;
};

// Returns the texts below `folder`: of scenarios, and of archives without weights, printed.
std::vector<std::string> GraphTexts(const std::string& folder);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_MUTATE_FILES_H_
