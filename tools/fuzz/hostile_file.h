// A file that nobody vouches for.
#ifndef SMELT_TOOLS_FUZZ_HOSTILE_FILE_H_
#define SMELT_TOOLS_FUZZ_HOSTILE_FILE_H_

#include <string>

namespace smelt {

struct HostileFile {
  std::string what;       // for whoever reads the report
  std::string extension;  // ".pt2", ".ir"
  std::string bytes;
};

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_HOSTILE_FILE_H_
