// The frame around the work of smelt's command-line programs.
//
//   int main(int argc, char** argv) {
//     return smelt::RunProgram("smelt", [&] { return Main(argc, argv); });
//   }
#ifndef SMELT_TOOLS_COMMAND_MAIN_H_
#define SMELT_TOOLS_COMMAND_MAIN_H_

#include <functional>

namespace smelt {

// Runs `body` and returns the program's exit code: that of `body`, or 6 if memory is short, or if `body` succeeded but
// its output to standard output could not be written. If a standard stream is closed, files that `body` opens do not
// get its descriptor.
int RunProgram(const char* name, const std::function<int()>& body);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMMAND_MAIN_H_
